"""Cost of a training step if only parts of a graph are trained: FLOPs, and kept activations.

A matrix product Y = X W of F FLOPs is computed once in the forward pass. The backward pass needs F
for the gradient of X, if something before it is trained, and F for the gradient of W, if W is
trained. A product of two activations, in attention, is computed twice in the backward pass, or not
at all. An adapter multiplies X by A and the result by B. The backward pass needs the gradients of
A, of B and of what is between them, which is kept, and that of X as above.
"""

from collections.abc import Iterable
from typing import Any

from kbert.graph import names
from kbert.graph.trained_parts import AdaptedMatrix, TrainedParts, part_of


def training_cost(
    layers: Iterable[Any], trained: TrainedParts, tokens: int, queries: int, width: int
) -> tuple[int, int]:
    """Return FLOPs of a step, and bytes of activations that it keeps.

    `layers` are the graph's `LayerAccount`s, of a batch of B·S `tokens`, of which the last block
    computes `queries`; `width` is the bytes of a kept number.
    """
    config, rank = trained.spec.config, trained.rank
    adapted: dict[str, list[AdaptedMatrix]] = {}
    for one in trained.adapted:
        adapted.setdefault(one.layer, []).append(one)
    flops = stored = 0
    reached: dict[str, bool] = {}  # whether a gradient is taken of what a group has computed
    group_of: dict[str, str] = {}  # the layers so far
    table = names.TOKEN_EMBEDDING not in trained.frozen
    square = 2 * config.hidden_size**2
    for row in layers:
        group_of[row.layer] = row.group
        # whether its input needs a gradient: another head's output may be it
        before = reached.get("encoder", reached.get("embeddings", False))
        if part_of(row.group) == "head":
            before = reached.get(group_of.get(row.connected_to.partition("[")[0], ""), before)
        before = reached.get(row.group, before)
        own = row.params > 0 and row.layer not in trained.frozen
        on = {one.name for one in adapted.get(row.layer, ())}
        is_last = names.block_of(row.layer) == config.num_hidden_layers
        computed = queries if is_last else tokens
        squares = {"query": computed * square, "key": tokens * square, "value": tokens * square}
        flops += row.flops + _backward(row, before, own, on, table, squares)
        for one in adapted.get(row.layer, ()):
            reaches = before or _trains_before(one.name, own, on)
            products = (2 + reaches) * one.inputs + 3 * one.outputs
            reads = tokens if one.name in ("key", "value") else computed
            flops += 2 * reads * rank * products
            stored += reads * rank * width
        reached[row.group] = now = before or own or bool(on)
        stored += row.activation_bytes if now else 0
    return flops, stored


def _backward(
    row, before: bool, own: bool, on: set[str], table: bool, squares: dict[str, int]
) -> int:
    """Return FLOPs of a layer's backward pass: a product's, for its input and for its weights.

    `before`, `own` and `table` say whether gradients are taken of its input, its own weights and
    the token table; `on` is which of its matrices have an adapter, and `squares` the FLOPs of
    attention's products of its input with H × H matrices.
    """
    if row.type == "MultiHeadAttention":
        inputs, output = sum(squares.values()), squares["query"]
        within = before or _trains_before("attention_output", own, on)
        scores = 2 * (row.flops - inputs - output) * within
        return inputs * (before + own) + scores + output * (within + own)
    if row.type == "FeedForward":
        within = before or _trains_before("output", own, on)
        return row.flops // 2 * (before + within + 2 * own)
    return row.flops * (before + (table if row.type == "EmbeddingSimilarity" else own))


def _trains_before(matrix: str, own: bool, on: set[str]) -> bool:
    """Return whether something of its layer is trained before a matrix."""
    inner = {"attention_output": {"query", "key", "value"}, "output": {"intermediate"}}
    earlier = inner.get(matrix, set())
    return bool(earlier) and (own or bool(on & earlier))
