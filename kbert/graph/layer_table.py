"""The layers of the graph as formulas: shapes, parameters, FLOPs, kept bytes, connections.

The table is layers.tsv, one row per layer in the order of the summary. It is derived from the
papers alone, without Keras and without the builder, so that comparing the two is a test of
both. Letters are those of `kbert.graph.formulas`, and N in a shape is the batch. Its columns:

- `graphs`: "embeddings", "unsegmented" where there are no segments; "block", once for each encoder
  block; else the heads whose graphs have the row, "gathered" for pretraining whose MLM head sees
  only the positions to predict, "mlm" and "mlm-gathered" where there is no next sentence, "bare"
  (no row) for an encoder with no pooler, "dense-classifier" for one whose first dense layer is its
  own and no pooler's, "dropped-classifier" for such a one that drops out before it too,
  "dropped-qa" for the head qa of a family that drops out before that.
- `flops`: forward, matrix products only, a multiply-add is 2 (PaLM, arXiv 2204.02311, appendix B).
- `kept`: bytes that the backward pass needs, w bytes a number, dropout masks 1 byte, ids and the
  logits of the loss 4 bytes (Korthikanti et al. 2022, arXiv 2205.05198, section 4.1); `note` says
  of what.

In braces stands what differs from row to row or graph to graph: {n} the block, {hidden} the hidden
state that goes in, {segments} and {labels} how many there are, {summed} and {first} what the
positions and the pooler are computed from; and of the MLM head {S} the positions that it sees,
{states} what it is computed from, {marks} the input that says where.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kbert.graph import names
from kbert.graph.spec import GraphSpec


@dataclass(frozen=True)
class Layer:
    """A row of the table, its braces filled in; its shape and costs are formulas."""

    graphs: str
    group: str
    name: str
    type: str
    output_shape: str
    params: str
    connected_to: str
    flops: str
    kept: str


def layers(spec: GraphSpec) -> list[Layer]:
    """Return the graph's layers in the order of the summary."""
    blocks = spec.config.num_hidden_layers
    segments = spec.config.type_vocab_size if spec.config.family.segments else None
    found = before_encoder(segments)
    for n in range(1, blocks + 1):
        found += encoder_block(n, names.encoder_output(n - 1))
    last, gathered = names.encoder_output(blocks), spec.max_predictions is not None
    return found + after_encoder(_top(spec), gathered, last, spec.num_labels)


def _top(spec: GraphSpec) -> str:
    """Return the table's name of the layers after the encoder."""
    family = spec.config.family
    if spec.head == "pretraining" and not family.next_sentence:
        return "mlm"
    if spec.head == "encoder" and not family.pooler:
        return "bare"
    if spec.head == "classifier" and not family.next_sentence:
        return "dropped-classifier" if family.drops_first_token else "dense-classifier"
    if spec.head == "qa" and family.drops_answers:
        return "dropped-qa"
    return spec.head


def before_encoder(segments: int | str | None) -> list[Layer]:
    """Return the embeddings' layers; a text, here and below, is what stands for a number or a name.

    None: there are no segments.
    """
    if segments is None:
        return _filled("unsegmented", summed=names.TOKEN_EMBEDDING)
    return _filled("embeddings", segments=segments, summed=names.TOKEN_PLUS_SEGMENT)


def encoder_block(n: int | str, hidden: str) -> list[Layer]:
    """Return the layers of encoder block n, which reads the hidden state `hidden`."""
    return _filled("block", n=n, hidden=hidden)


def after_encoder(head: str, gathered: bool, hidden: str, labels: int | str) -> list[Layer]:
    """Return the layers of a head, which reads the last hidden state; `gathered` as in the table.

    `head` is one of `kbert.graph.spec.HEADS`, or the table's own for a family that differs.
    """
    dropped = head == "dropped-classifier"
    first = names.FIRST_TOKEN_DROPOUT if dropped else names.FIRST_TOKEN
    if gathered:
        mlm = {"S": "M", "states": names.MLM_GATHER, "marks": names.MASKED_POSITIONS}
        graph = "mlm-gathered" if head == "mlm" else "gathered"
        return _filled(graph, hidden=hidden, first=first, **mlm)
    mlm = {"S": "S", "states": hidden, "marks": names.MASKED}
    return _filled(head, hidden=hidden, labels=labels, first=first, **mlm)


def _filled(graph: str, **braces) -> list[Layer]:
    rows = [row for row in _table() if graph in row[0].split()]
    return [Layer(*(text.format(**braces) for text in row)) for row in rows]


@cache
def _table() -> list[list[str]]:
    """Return the rows as they stand in the file, without their notes."""
    text = files("kbert.graph").joinpath("layers.tsv").read_text(encoding="utf-8")
    return [line.split("\t")[:-1] for line in text.splitlines()[1:]]
