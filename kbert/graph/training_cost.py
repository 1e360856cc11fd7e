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
    adapted = _group_by_layer(trained)
    trains_table = names.TOKEN_EMBEDDING not in trained.frozen
    square = 2 * config.hidden_size**2

    flops = stored = 0
    reached: dict[str, bool] = {}  # whether a gradient is taken of what a group has computed
    group_of: dict[str, str] = {}  # the layers so far
    for row in layers:
        group_of[row.layer] = row.group
        before = _needs_input_gradient(row, reached, group_of)
        trains_weights = row.params > 0 and row.layer not in trained.frozen
        matrices = adapted.get(row.layer, [])
        adapters = {matrix.name for matrix in matrices}

        is_last = names.block_of(row.layer) == config.num_hidden_layers
        computed = queries if is_last else tokens
        of_query = computed * square
        of_all = tokens * square
        squares = {"query": of_query, "key": of_all, "value": of_all}
        flops += row.flops
        flops += _backward(row, before, trains_weights, adapters, trains_table, squares)

        for matrix in matrices:
            reaches = before or _trains_before(matrix.name, trains_weights, adapters)
            products = (2 + reaches) * matrix.inputs + 3 * matrix.outputs
            reads = tokens if matrix.name in ("key", "value") else computed
            flops += 2 * reads * rank * products
            stored += reads * rank * width

        reached[row.group] = before or trains_weights or bool(adapters)
        if reached[row.group]:
            stored += row.activation_bytes
    return flops, stored


def _group_by_layer(trained: TrainedParts) -> dict[str, list[AdaptedMatrix]]:
    """Return the matrices with an adapter by their layers."""
    adapted: dict[str, list[AdaptedMatrix]] = {}
    for matrix in trained.adapted:
        adapted.setdefault(matrix.layer, []).append(matrix)
    return adapted


def _needs_input_gradient(row, reached: dict[str, bool], group_of: dict[str, str]) -> bool:
    """Return whether a layer's input needs a gradient: another head's output may be it."""
    before = reached.get("encoder", reached.get("embeddings", False))
    if part_of(row.group) == "head":
        source = row.connected_to.partition("[")[0]
        before = reached.get(group_of.get(source, ""), before)
    return reached.get(row.group, before)


def _backward(
    row,
    before: bool,
    trains_weights: bool,
    adapters: set[str],
    trains_table: bool,
    squares: dict[str, int],
) -> int:
    """Return FLOPs of a layer's backward pass: a product's, for its input and for its weights.

    `before`, `trains_weights` and `trains_table` say whether gradients are taken of its input, its
    own weights and the token table; `adapters` is which of its matrices have an adapter, and
    `squares` the FLOPs of attention's products of its input with H × H matrices.
    """
    if row.type == "MultiHeadAttention":
        inputs = sum(squares.values())
        output = squares["query"]
        within = before or _trains_before("attention_output", trains_weights, adapters)
        scores = 2 * (row.flops - inputs - output) * within
        return inputs * (before + trains_weights) + scores + output * (within + trains_weights)

    if row.type == "FeedForward":
        within = before or _trains_before("output", trains_weights, adapters)
        return row.flops // 2 * (before + within + 2 * trains_weights)

    if row.type == "EmbeddingSimilarity":
        return row.flops * (before + trains_table)
    return row.flops * (before + trains_weights)


def _trains_before(matrix: str, trains_weights: bool, adapters: set[str]) -> bool:
    """Return whether something of its layer is trained before a matrix."""
    inner = {"attention_output": {"query", "key", "value"}, "output": {"intermediate"}}
    earlier = inner.get(matrix, set())
    return bool(earlier) and (trains_weights or bool(adapters & earlier))
