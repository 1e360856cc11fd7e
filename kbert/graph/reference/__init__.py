"""The documents' tables, shipped with the package, and their readers.

- `keras_bert_base.tsv`: the summary of 112 rows in the article "Understanding BERT architecture";
  equal to a live run of keras_bert 0.89.
- `hf_bert_base_uncased.tsv`, `hf_bert_large_uncased.tsv`: transformers' named parameters, as
  the other texts of `TEXTS` print them: 000, 001, 003 (base) and 002 (large).
- `published_totals.tsv`: totals that others publish, with their sources.
"""

from dataclasses import dataclass

from kbert.graph.closed_form import Row
from kbert.graph.config import BertConfig
from kbert.io.row_formats import read_package_table

# The texts that kbert's counts are compared with, as far as they say who they are.
TEXTS = {
    "000": 'The forum thread "Understanding BERT from huggingface"',
    "001": "A notebook on transformers' BertModel",
    "002": 'The Japanese article "Checking the shapes of BERT\'s attention weights"',
    "003": 'The notebook "Understanding BERT Architecture"',
    "004": 'The article "Understanding BERT architecture"',
    "paper": "BERT's paper",
}


@dataclass(frozen=True)
class NamedParameter:
    """One entry of transformers' `model.named_parameters()`.

    Attributes:
        parameter: its name.
        shape: its shape, as torch has it.
        numel: its number of elements.
    """

    parameter: str
    shape: tuple[int, ...]
    numel: int


@dataclass(frozen=True)
class PublishedTotal:
    """A published number of parameters of encoder and pooler."""

    model: str
    config: BertConfig
    params_encoder_and_pooler: int
    source: str


def document_004() -> tuple[Row, ...]:
    """Return the summary of the article "Understanding BERT architecture", row by row."""
    table = read_package_table(__name__, "keras_bert_base.tsv")
    return tuple(
        Row(layer, type_, shape, int(params), connected)
        for layer, type_, shape, params, connected in table
    )


def named_parameters(model: str) -> tuple[NamedParameter, ...]:
    """Return transformers' list for `base_uncased` or `large_uncased`, complete and in order."""
    parameters = []
    for name, shape, numel in read_package_table(__name__, f"hf_bert_{model}.tsv"):
        texts = shape.strip("()").split(",")
        sizes = tuple(int(text) for text in texts if text)
        parameters.append(NamedParameter(name, sizes, int(numel)))
    return tuple(parameters)


def published_totals() -> tuple[PublishedTotal, ...]:
    """Return the totals of encoder and pooler that KerasHub and the documents publish."""
    totals = []
    for model, *numbers, source in read_package_table(__name__, "published_totals.tsv"):
        vocab_size, layers, hidden, heads, feed_forward, total = [int(text) for text in numbers]
        config = BertConfig(
            vocab_size=vocab_size,
            num_hidden_layers=layers,
            hidden_size=hidden,
            num_attention_heads=heads,
            intermediate_size=feed_forward,
        )
        totals.append(PublishedTotal(model, config, total, source))
    return tuple(totals)
