"""Errors in the published documents, and differences between them, with computed arithmetic.

Checked against a live run of keras_bert 0.89 or of transformers 5.23, or by arithmetic.
"""

from dataclasses import dataclass

from kbert.graph import names
from kbert.graph.reference import TEXTS, document_004, named_parameters


@dataclass(frozen=True)
class Erratum:
    """An error in a document, the correct statement, and the numbers that prove it.

    Attributes:
        document: its key in `TEXTS`; two are joined by a comma.
        says: what it states.
        true: what is the case.
        arithmetic: the check, as text.
        holds: whether the arithmetic came out.
        layers: the layers that it is about, an encoder block's as those of block {n}; none: the
            whole model.
        preset: the preset that it is about; "": each.
    """

    document: str
    says: str
    true: str
    arithmetic: str
    holds: bool
    layers: tuple[str, ...] = ()
    preset: str = ""

    @property
    def source_says(self) -> str:
        """The source and its verb, such as "BERT's paper says"; `says` follows."""
        first, *others = (TEXTS[name] for name in self.document.split(", "))
        return f"{' and '.join([first, *others])} {'say' if others else 'says'}"


_ATTENTION = names.encoder("{n}", names.ATTENTION)
_FEED_FORWARD = names.encoder("{n}", names.FEED_FORWARD)
_NORMS = (
    names.EMBEDDING_NORM,
    names.encoder("{n}", names.ATTENTION, "Norm"),
    names.encoder("{n}", names.FEED_FORWARD, "Norm"),
    names.MLM_NORM,
)


def errata() -> tuple[Erratum, ...]:
    """Return every known erratum, its arithmetic done on the documents' own tables."""
    return (*_structure(), *_meaning(), *_totals())


def _structure() -> list[Erratum]:
    summary = document_004()
    block = [row for row in summary if row.layer.startswith("Encoder-1-")]
    encoder = [row for row in summary if row.layer.startswith("Encoder-")]
    before = [row for row in summary if row.layer.startswith(("Input-T", "Input-S", "Embedding-"))]
    after = len(summary) - len(encoder) - len(before)
    inputs = [row.layer for row in summary if row.type == "InputLayer"]
    return [
        Erratum(
            "004",
            "9 steps in each encoder, 108 lines for 12",
            "8 rows in each encoder, 96 lines for 12, 112 rows in all",
            f"{len(block)}·12 = {len(encoder)}; {len(before)} + {len(encoder)} + {after} = "
            f"{len(summary)}",
            (len(block), len(encoder), len(before), after, len(summary)) == (8, 96, 8, 8, 112),
            (_ATTENTION,),
        ),
        Erratum(
            "004",
            "two inputs",
            "three inputs: the summary has Input-Masked too",
            f"InputLayer rows: {', '.join(inputs)}",
            len(inputs) == 3,
            (names.TOKEN_IDS, names.SEGMENT_IDS, names.MASKED),
        ),
        Erratum(
            "004",
            "Embedding-Dropout, then Embedding-Norm",
            "keras_bert's order; the paper's code and transformers normalize first. Equal at "
            "inference, different in training",
            "rows 7 and 8: " + ", ".join(row.layer for row in summary[6:8]),
            [row.type for row in summary[6:8]] == ["Dropout", "LayerNormalization"],
            (names.EMBEDDING_DROPOUT, names.EMBEDDING_NORM),
        ),
    ]


def _meaning() -> list[Erratum]:
    layers = {row.layer: row for row in document_004()}
    norm, similarity = layers["Embedding-Norm"], layers["MLM-Sim"]
    return [
        Erratum(
            "004",
            "ReLU between the two feed-forward layers",
            "GELU: keras_bert's default, and hidden_act in the released configurations",
            "an activation has no parameters: (768·3072 + 3072) + (3072·768 + 768) = "
            f"{(768 * 3072 + 3072) + (3072 * 768 + 768):,} either way",
            layers["Encoder-1-FeedForward"].params == (768 * 3072 + 3072) + (3072 * 768 + 768),
            (_FEED_FORWARD,),
        ),
        Erratum(
            "004",
            "layer normalization learns mean and standard deviation",
            "it learns a scale, gamma, and an offset, beta; mean and variance are computed",
            f"gamma 768 + beta 768 = {768 + 768:,} = the row's {norm.params:,}",
            norm.params == 768 + 768,
            _NORMS,
        ),
        Erratum(
            "004",
            "MLM-Sim compares with the masked token's embedding",
            "it compares with all T token embeddings and adds one learned bias per token",
            f"output {similarity.output_shape}, T = {similarity.params:,} parameters",
            similarity.output_shape.endswith("30000)") and similarity.params == 30_000,
            (names.MLM_SIMILARITY,),
        ),
        Erratum(
            "000",
            "shouldn't there be 12 W_q?",
            "there are: one 768×768 matrix is twelve of 768×64 side by side; `kbert heads base` "
            "computes both",
            f"12·(768·64) = {12 * 768 * 64:,} = 768·768",
            12 * 768 * 64 == 768 * 768,
            (_ATTENTION,),
        ),
    ]


def _totals() -> list[Erratum]:
    document = sum(row.params for row in document_004())
    base = {entry.parameter: entry.numel for entry in named_parameters("base_uncased")}
    large = sum(entry.numel for entry in named_parameters("large_uncased"))
    groups = {
        name: sum(numel for key, numel in base.items() if key.startswith(name))
        for name in ("embeddings", "encoder", "pooler")
    }
    encoder_and_pooler = sum(groups.values())
    both_heads = encoder_and_pooler + _heads(30_522, 768)
    large_both = large + _heads(30_522, 1024)
    terms = " + ".join(f"{numel:,}" for numel in groups.values())
    return [
        Erratum(
            "004",
            "30,000 tokens",
            "rounded, as in the paper; released models have 30,522 (uncased) and 28,996 (cased)",
            f"(30,522 − 30,000)·768 + 522 = {522 * 768 + 522:,} = {both_heads:,} − {document:,}",
            both_heads - document == 522 * 768 + 522,
            (names.TOKEN_EMBEDDING, names.MLM_SIMILARITY),
        ),
        Erratum(
            "001",
            "pooler 0",
            "590,592: the cell adds to another variable, so its total stayed 0",
            f"768·768 + 768 = {768 * 768 + 768:,}; {terms} = {encoder_and_pooler:,}",
            groups["pooler"] == 590_592 and encoder_and_pooler == 109_482_240,
            (names.POOLER,),
        ),
        Erratum(
            "004, paper",
            "base has 110M parameters",
            "110M is rounded; the exact number is one of three",
            f"{document:,} (T = 30,000, both heads) · {encoder_and_pooler:,} (T = 30,522, encoder "
            f"and pooler) · {both_heads:,} (T = 30,522, both heads)",
            (document, encoder_and_pooler, both_heads) == (109_705_010, 109_482_240, 110_106_428),
            preset="base",
        ),
        Erratum(
            "002, paper",
            "large has 340M parameters",
            "340M is rounded; the exact number is one of two",
            f"{large:,} (encoder and pooler) + {_heads(30_522, 1024):,} = {large_both:,} (both "
            "heads)",
            (large, large_both) == (335_141_888, 336_226_108),
            preset="large",
        ),
    ]


def _heads(tokens: int, hidden: int) -> int:
    """Parameters of the MLM and NSP heads: dense, norm, bias; two labels."""
    return (hidden * hidden + hidden) + 2 * hidden + tokens + (2 * hidden + 2)
