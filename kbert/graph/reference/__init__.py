"""The documents' tables, shipped with the package, and their readers.

- `keras_bert_base.tsv`: document 004's summary, 112 rows; equal to a live run of keras_bert 0.89.
- `hf_bert_base_uncased.tsv`, `hf_bert_large_uncased.tsv`: transformers' named parameters, as
  documents 000, 001, 003 (base) and 002 (large) print them.
- `published_totals.tsv`: totals that others publish, with their sources.
"""

from dataclasses import dataclass
from importlib.resources import files

from kbert.graph.summary_rows import Row, from_tsv


@dataclass(frozen=True)
class NamedParameter:
    """One entry of transformers' `model.named_parameters()`."""

    parameter: str
    shape: tuple[int, ...]
    numel: int


@dataclass(frozen=True)
class PublishedTotal:
    """A published number of parameters of encoder and pooler."""

    model: str
    vocab_size: int
    layers: int
    hidden: int
    heads: int
    feed_forward: int
    params_encoder_and_pooler: int
    source: str


def text(name: str) -> str:
    """The text of one of the package's tables."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def document_004() -> tuple[Row, ...]:
    """Document 004's summary, row by row."""
    return from_tsv(text("keras_bert_base.tsv"))


def named_parameters(model: str) -> tuple[NamedParameter, ...]:
    """transformers' list for `base_uncased` or `large_uncased`, complete and in order."""
    lines = text(f"hf_bert_{model}.tsv").splitlines()[1:]
    return tuple(
        NamedParameter(name, tuple(int(n) for n in shape.strip("()").split(",") if n), int(numel))
        for name, shape, numel in (line.split("\t") for line in lines)
    )


def published_totals() -> tuple[PublishedTotal, ...]:
    """Totals of encoder and pooler that KerasHub and the documents publish."""
    totals = []
    for line in text("published_totals.tsv").splitlines()[1:]:
        model, *cells, source = line.split("\t")
        vocab_size, layers, hidden, heads, feed_forward, total = map(int, cells)
        totals.append(
            PublishedTotal(model, vocab_size, layers, hidden, heads, feed_forward, total, source)
        )
    return tuple(totals)
