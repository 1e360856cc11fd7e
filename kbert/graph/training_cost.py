"""Cost of a training step if only parts of a graph are trained: FLOPs, and kept activations.

A matrix product Y = X W of F FLOPs is computed once in the forward pass. The backward pass needs F
for the gradient of X, if something before it is trained, and F for the gradient of W, if W is
trained. A product of two activations, in attention, is computed twice in the backward pass, or not
at all. An adapter multiplies X by A and the result by B. The backward pass needs the gradients of
A, of B and of what is between them, which is kept, and that of X as above.

All of this is about the graph. kbert's engines leave out what cannot affect the loss: `left_out`.
"""

from collections.abc import Iterable
from typing import Protocol

from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.trained_parts import AdaptedMatrix, TrainedParts, part_of

_AFTER = {"NSP": "pooler", "classifier": "pooler"}  # groups whose input is another head's output
_OF_INPUT = ("query", "key", "value")
MOST_READ = 0.75  # of a sequence: beyond it taking rows costs what they save


class Row(Protocol):
    """A layer's account, as `kbert.graph.accounting.LayerAccount`."""

    @property
    def layer(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def params(self) -> int: ...
    @property
    def flops(self) -> int: ...
    @property
    def activation_bytes(self) -> int: ...


def training_cost(
    rows: Iterable[Row], parts: TrainedParts, tokens: int, width: int
) -> tuple[int, int]:
    """Return FLOPs of a step, and bytes of activations that it keeps.

    Args:
        rows: of the graph, with the costs of a batch.
        parts: what of it is trained.
        tokens: of the batch, B·S.
        width: bytes of a kept number.
    """
    adapted: dict[str, list[AdaptedMatrix]] = {}
    for one in parts.adapted:
        adapted.setdefault(one.layer, []).append(one)
    kept = len(parts.adapted) * tokens * parts.rank * width
    flops = 0
    reached: dict[str, bool] = {}  # whether a gradient is taken of what a group has computed
    table = names.TOKEN_EMBEDDING not in parts.frozen
    hidden = parts.spec.config.hidden_size
    for row in rows:
        before = _before(row.group, reached)
        own = row.params > 0 and row.layer not in parts.frozen
        on = {one.name for one in adapted.get(row.layer, ())}
        flops += row.flops + _backward(row, before, own, on, table, 2 * tokens * hidden * hidden)
        for one in adapted.get(row.layer, ()):
            reaches = before or _trains_before(one.name, own, on)
            products = (2 + reaches) * one.inputs + 3 * one.outputs
            flops += 2 * tokens * parts.rank * products
        reached[row.group] = now = before or own or bool(on)
        kept += row.activation_bytes if now else 0
    return flops, kept


def left_out(config: BertConfig, seq_len: int, read: int) -> int:
    """Return FLOPs of a step, a sequence, that kbert's engines leave out where all is trained.

    Heads that read some rows of the last block need its keys and vectors of every row, and all else
    of theirs: queries, scores and what they weigh, three dense layers.

    Args:
        config: of the model.
        seq_len: tokens of the sequence.
        read: rows that the heads read: the first token's, and those to be predicted.
    """
    if read > MOST_READ * seq_len:
        return 0
    hidden = config.hidden_size
    row = 2 * 2 * hidden**2 + 2 * 2 * seq_len * hidden + 2 * 2 * hidden * config.intermediate_size
    return 3 * (seq_len - read) * row


def _before(group: str, reached: dict[str, bool]) -> bool:
    """Return whether the input of the next layer of a group needs a gradient."""
    if group in reached:
        return reached[group]
    body = reached.get("encoder", reached.get("embeddings", False))
    return reached.get(_AFTER.get(group, ""), body) if part_of(group) == "head" else body


def _backward(row: Row, before: bool, own: bool, on: set[str], table: bool, square: int) -> int:
    """Return FLOPs of a layer's backward pass.

    Args:
        row: the layer.
        before: whether a gradient is taken of its input.
        own: whether its own weights are trained.
        on: which of its matrices have an adapter.
        table: whether the token table is trained, which the MLM head's last product reads.
        square: FLOPs of the batch's product with an H × H matrix.
    """
    if row.type == "MultiHeadAttention":
        within = before or _trains_before("attention_output", own, on)
        scores = 2 * (row.flops - 4 * square) * within
        return _products([(3 * square, own)], before) + scores + _products([(square, own)], within)
    if row.type == "FeedForward":
        half = [(row.flops // 2, own)]
        return _products(half, before) + _products(
            half, before or _trains_before("output", own, on)
        )
    return _products([(row.flops, table if row.type == "EmbeddingSimilarity" else own)], before)


def _trains_before(matrix: str, own: bool, on: set[str]) -> bool:
    """Return whether something of its layer is trained before a matrix."""
    earlier = {"attention_output": {*_OF_INPUT}, "output": {"intermediate"}}.get(matrix, set())
    return bool(earlier) and (own or bool(on & earlier))


def _products(products: list[tuple[int, bool]], before: bool) -> int:
    """Return the FLOPs of products, each given as FLOPs and whether its weights need gradients."""
    return sum(flops * (before + trained) for flops, trained in products)
