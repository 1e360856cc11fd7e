"""Errors in the published documents, and differences between them, with computed arithmetic.

The table is errata.tsv. `arithmetic` has numbers of the documents' own tables in braces, and each
of `checks` compares one of them with a formula. The facts were checked against a live run of
keras_bert 0.89 or of transformers 5.23.
"""

from dataclasses import dataclass

from kbert.graph.formulas import compute
from kbert.graph.reference import TEXTS, document_004, named_parameters
from kbert.io.row_formats import read_package_table


@dataclass(frozen=True)
class Erratum:
    """An error in a document, the correct statement, and the numbers that prove it."""

    document: str  # its key in `TEXTS`; two are joined by a comma
    says: str
    true: str  # the correct statement
    arithmetic: str  # the check, as text
    holds: bool  # whether the arithmetic came out
    layers: tuple[str, ...] = ()  # a block's as those of block {n}; none: the whole model
    preset: str = ""  # the preset that it is about; "": each

    @property
    def source_says(self) -> str:
        """The source and its verb, such as "BERT's paper says"; `says` follows."""
        sources = [TEXTS[name] for name in self.document.split(", ")]
        verb = "say" if len(sources) > 1 else "says"
        return f"{' and '.join(sources)} {verb}"


def errata() -> tuple[Erratum, ...]:
    """Return every known erratum, its arithmetic done on the documents' own tables."""
    numbers = _count_summary() | _count_parameters()
    result = []
    for row in read_package_table("kbert.graph.reference", "errata.tsv"):
        document, says, true, arithmetic, checks, layers, preset = row
        pairs = (check.split(" = ") for check in checks.split("; "))
        holds = all(numbers[name] == compute(formula, {}) for name, formula in pairs)
        text = arithmetic.format_map(numbers)
        names = tuple(layers.split())
        erratum = Erratum(document, says, true, text, holds, names, preset)
        result.append(erratum)
    return tuple(result)


def _count_summary() -> dict:
    """Return what the summary of document 004 has, by the names of errata.tsv."""
    summary = document_004()
    layers = {row.layer: row for row in summary}
    types = [row.type for row in summary]
    encoder = sum(name.startswith("Encoder-") for name in layers)
    before = sum(name.startswith(("Input-T", "Input-S", "Embedding-")) for name in layers)
    block = sum(name.startswith("Encoder-1-") for name in layers)
    inputs = [row.layer for row in summary if row.type == "InputLayer"]
    similarity = layers["MLM-Sim"]
    params = sum(row.params for row in summary)

    return {
        "row": summary,
        "rows": len(summary),
        "block": block,
        "encoder": encoder,
        "before": before,
        "after": len(summary) - encoder - before,
        "inputs": inputs,
        "number of inputs": len(inputs),
        "first Dropout": types.index("Dropout") + 1,
        "first LayerNormalization": types.index("LayerNormalization") + 1,
        "feed forward": layers["Encoder-1-FeedForward"].params,
        "norm": layers["Embedding-Norm"].params,
        "similarity": similarity,
        "biases": similarity.params,
        "similarity outputs": int(similarity.output_shape.strip(")").split(", ")[-1]),
        "document": params,
    }


def _count_parameters() -> dict[str, int]:
    """Return the numbers of transformers' parameters, by the names of errata.tsv."""
    base = {entry.parameter: entry.numel for entry in named_parameters("base_uncased")}
    embeddings = _sum_starting(base, "embeddings")
    encoder = _sum_starting(base, "encoder")
    pooler = _sum_starting(base, "pooler")
    model = embeddings + encoder + pooler
    both_heads = model + _count_heads(768)

    large = sum(entry.numel for entry in named_parameters("large_uncased"))
    large_heads = _count_heads(1024)
    fewer_tokens = (30_522 - 30_000) * (1024 + 1)  # of the paper's vocabulary, with their biases
    return {
        "W_q": base["encoder.layer.0.attention.self.query.weight"],
        "embeddings": embeddings,
        "blocks": encoder,
        "pooler": pooler,
        "BertModel": model,
        "both heads": both_heads,
        "more tokens": both_heads - sum(row.params for row in document_004()),
        "large BertModel": large,
        "large both heads": large + large_heads,
        "large paper": large + large_heads - fewer_tokens,
        "fewer tokens": fewer_tokens,
    }


def _sum_starting(parameters: dict[str, int], prefix: str) -> int:
    names = [name for name in parameters if name.startswith(prefix)]
    return sum(parameters[name] for name in names)


def _count_heads(hidden: int) -> int:
    """Return the parameters of the MLM and NSP heads: dense, norm, bias; two labels."""
    return (hidden * hidden + hidden) + 2 * hidden + 30_522 + (2 * hidden + 2)
