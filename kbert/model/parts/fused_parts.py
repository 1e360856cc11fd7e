"""Fused operations with the model's weights: the same numbers in fewer, larger loops.

What stands between the matrix products is in `elementwise`; what a backend computes all of it with
is its kit: `tensorflow_kit`, `tensorflow_free_kit`, `jax_kit`, `torch_kit`.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A, F feed-forward size,
M predicted positions, T vocabulary.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol

from keras import ops

from kbert.graph import names
from kbert.model.parts import elementwise, layer_types
from kbert.model.parts.dropout_seeds import own_seed_states
from kbert.model.parts.read_rows import ALL, Read
from kbert.model.parts.scopes import ATTENTION, FEED_FORWARD, scope


def fits(model) -> bool:
    """Return whether the fused operations can replace the model's layers.

    The replaced layers must be of the builder's own classes, not derived ones; all weights must be
    float32, as in the mixed policies, and trained.
    """
    weights = {layer.variable_dtype for layer in model.layers if layer.weights}
    if layer_types.is_variant(model) or model.non_trainable_weights or weights != {"float32"}:
        return False
    expected = dict(layer_types.EMBEDDINGS)
    if any(layer.name == names.MLM_SIMILARITY for layer in model.layers):
        expected |= layer_types.SIMILARITY
    for number in range(1, layer_types.blocks(model) + 1):
        expected |= layer_types.of_block(number)
    return layer_types.has(model, expected)


class Kit(Protocol):
    """The operations of a backend; a module.

    Attributes:
        ops: `keras.ops`, or a module with the same functions.
    """

    ops: Any

    def part(self, formula: Callable, **settings) -> Callable:
        """Return a function of `elementwise` with its settings."""

    def attended(self, rate: float) -> Callable:
        """Attention of query, keys and vectors (B, A, S, D), mask and seed: (B, S, H)."""

    def recomputed(self, function: Callable) -> Callable:
        """Return the function, its parts computed again for its gradient where that is worth it."""

    def matmul(self, x, y, transposed: bool = False) -> Any:
        """x y, or x yᵀ."""

    def vectors(self, table, ids) -> Any:
        """Return (B, S, H) of table (T, H) and ids (B, S)."""

    def rows_at(self, x, places) -> Any:
        """Return (B, R, H) of x (B, S, H) and places (B, R)."""

    def vectors_and_table(self, table, ids, dtype: str) -> Any:
        """Return the embeddings of ids, and the table in a dtype."""


class FusedParts:
    """`cut_model.Parts`, with a kit.

    Args:
        kit: the backend's.
        training: whether dropout drops anything.
    """

    def __init__(self, kit: Kit, training: bool = True):
        self._kit, self._training = kit, training

    def embeddings(self, model) -> Callable:
        """See `Parts`."""
        return Embeddings(model, self._kit, self._training)

    def block(self, model, number: int) -> Callable:
        """See `Parts`."""
        return EncoderBlock(model, number, self._kit, self._training)

    def added(self, number: int) -> list:
        """See `Parts`."""
        return []

    def similarity(self, model) -> Callable:
        """See `Parts`."""
        return Similarity(model, self._kit)

    @property
    def rows_at(self) -> Callable | None:
        """See `Parts`."""
        return self._kit.rows_at


class Embeddings:
    """Token, segment and position embeddings with their dropout and LayerNorm.

    Args:
        model: from `kbert.model.builder`; see `fits`.
        kit, training: as of `FusedParts`.
    """

    def __init__(self, model, kit: Kit, training: bool = True):
        self._kit = kit
        self._token, self._segment, self._position = (
            model.get_layer(name)
            for name in (names.TOKEN_EMBEDDING, names.SEGMENT_EMBEDDING, names.POSITION_EMBEDDING)
        )
        dropout = model.get_layer(names.EMBEDDING_DROPOUT)
        self._norm = model.get_layer(names.EMBEDDING_NORM)
        self._seeds = own_seed_states(dropout) if training else []
        self._ended = kit.part(
            elementwise.normalized_embeddings,
            rate=dropout.rate if training else 0.0,
            epsilon=self._norm.epsilon,
            dtype=self._norm.compute_dtype,
        )
        self._is_tied = any(layer.name == names.MLM_SIMILARITY for layer in model.layers)

    def __call__(self, values: dict, token_ids, segment_ids, positions=None):
        """x (B, S, H) in the compute dtype, and the token table (T, H); see `CutModel`."""
        table = values[id(self._token.embeddings)]
        segments = values[id(self._segment.embeddings)]
        places = values[id(self._position.embeddings)]
        if positions is None:
            length = self._kit.ops.shape(token_ids)[1]
            positions = self._position.of_sequence(places, length)[None]
        else:
            positions = self._kit.vectors(places, positions + self._position.first)  # (B, S, H)
        if self._is_tied:
            dtype = self._token.compute_dtype
            tokens, table = self._kit.vectors_and_table(table, token_ids, dtype)
        else:
            tokens = self._kit.vectors(table, token_ids)  # (B, S, H)
        one_hot = self._kit.ops.one_hot(segment_ids, segments.shape[0], dtype=segments.dtype)
        norm = (values[id(weight)] for weight in (self._norm.gamma, self._norm.beta))
        segments = self._kit.matmul(one_hot, segments)  # (B, S, types)(types, H): no scatter
        return self._ended(tokens, segments, positions, *norm, seed_of(values, self._seeds)), table


class EncoderBlock:
    """Encoder block `number`, counted from 1.

    Args:
        model: from `kbert.model.builder`; see `fits`.
        number: of the block.
        kit, training: as of `FusedParts`.
    """

    def __init__(self, model, number: int, kit: Kit, training: bool = True):
        def layer(*part):
            return model.get_layer(names.encoder(number, *part))

        def rate_of(rate):
            return rate if training else 0.0

        def seeds_of(layer):
            return own_seed_states(layer) if training else []

        def end(part):
            dropout, norm = layer(part, "Dropout"), layer(part, "Norm")
            settings = {"rate": rate_of(dropout.rate), "epsilon": norm.epsilon}
            return kit.part(elementwise.normalized_sum, **settings), norm, seeds_of(dropout)

        self.attention, self.feed_forward = layer(names.ATTENTION), layer(names.FEED_FORWARD)
        self._ends = [end(names.ATTENTION), end(names.FEED_FORWARD)]
        self._seeds = seeds_of(self.attention)
        self._attended_by = kit.attended(rate_of(self.attention.dropout))
        heads = self.attention.num_heads
        self._split = {
            parts: kit.part(elementwise.split_heads, parts=parts, heads=heads)
            for parts in (1, 2, 3)
        }
        activation = self.feed_forward.intermediate_dense.activation
        self._activated = kit.part(elementwise.activated, activation=activation)
        self._kit, self._recomputed = kit, kit.recomputed

    def __call__(self, values: dict, x, mask, read: Read = ALL):
        """Return the block's output, (B, S, H), or what is read of it; see `CutModel`."""
        with scope(ATTENTION):
            x = self._attended(values, x, mask, read)
        with scope(FEED_FORWARD):
            return self._fed_forward(values, x)

    def _attended(self, values: dict, x, mask, read: Read):
        rows = read.queries(x)  # (B, R, H)
        if rows is x:
            query, keys, vectors = self._projected(values, x, "query", "key", "value")
        else:
            (query,) = self._projected(values, rows, "query")  # (B, A, R, D)
            heads = self._projected(values, x, "key", "value")
            keys, vectors = map(read.keys, heads)  # (B, A, S, D) each
        mask = read.mask(mask)
        expand_dims = self._kit.ops.expand_dims
        by_row = mask if len(mask.shape) == 3 else expand_dims(mask, 1)  # packed: (B, R, S)
        keep = expand_dims(by_row, 1)
        seed = seed_of(values, self._seeds)
        context = self._attended_by(query, keys, vectors, keep, seed)  # (B, R, H)
        output = self.attention.output_dense
        kernel = self._matrix(values[id(output.kernel)], 2)
        y = self._product(values, context, kernel, "attention_output")
        return self._ended(values, self._ends[0], y, output.bias, rows)

    def _projected(self, values: dict, x, *matrices: str) -> list:
        """Heads of x times some of the three matrices, as one product."""
        attention = self.attention
        each = {
            "query": attention.query_dense,
            "key": attention.key_dense,
            "value": attention.value_dense,
        }
        kernels, biases = [], []
        for name in matrices:
            kernel, bias = (values[id(one)] for one in (each[name].kernel, each[name].bias))
            if name == "query":  # as in Keras: products without it may leave float16's range
                kernel, bias = (one * attention.key_dim**-0.5 for one in (kernel, bias))
            kernels.append(self._matrix(kernel, 1))
            biases.append(self._kit.ops.reshape(bias, (-1,)))
        y = self._product(values, x, self._kit.ops.concatenate(kernels, 1), *matrices)
        return self._split[len(matrices)](y, self._kit.ops.concatenate(biases, 0))

    def _fed_forward(self, values: dict, x):
        inner, outer = self.feed_forward.intermediate_dense, self.feed_forward.output_dense
        y = self._product(values, x, values[id(inner.kernel)], "intermediate")

        def product(y, bias, kernel):  # of what it is activated to, as large as y: not kept
            return self._product(values, self._activated(y, bias), kernel, "output")

        y = self._recomputed(product)(y, values[id(inner.bias)], values[id(outer.kernel)])
        return self._ended(values, self._ends[1], y, outer.bias, x)

    def _ended(self, values: dict, end: tuple, y, bias, x):
        """LayerNorm(x + Dropout(y + bias))."""
        function, norm, seeds = end
        given = (values[id(one)] for one in (norm.gamma, norm.beta))
        return function(y, values[id(bias)], x, *given, seed_of(values, seeds))

    def _product(self, values: dict, x, kernel, *matrices: str):
        """Multiply x by the concatenated kernel of the matrices, for adapters, which need x.

        The matrices have the names of `kbert.graph.trained_parts`.
        """
        return _product(self._kit, x, kernel)

    def _matrix(self, kernel, axes: int):
        """Return (H, A, D) as (H, A·D), one axis in; (A, D, H) as (A·D, H), two axes in."""
        return self._kit.ops.reshape(kernel, (math.prod(kernel.shape[:axes]), -1))


class Similarity:
    """The logits over the vocabulary, without a transposed copy of the table or its gradient.

    Args:
        model: from `kbert.model.builder`; see `fits`.
        kit: the backend's.
    """

    def __init__(self, model, kit: Kit):
        self._bias = model.get_layer(names.MLM_SIMILARITY).bias
        self._kit = kit

    def __call__(self, values: dict, x, table):
        """Return (B, M, T) of x (B, M, H) and table (T, H); see `CutModel`."""
        product = _product(self._kit, x, table, transposed=True)
        return self._with_bias(product, values[id(self._bias)])

    def _with_bias(self, product, bias):
        return product + ops.cast(bias, product.dtype)


def seed_of(values: dict, states: list):
    """Return int32 (2,) of a dropout's state; of no use where it drops nothing."""
    return values[id(states[0])] if states else ops.zeros(2, "int32")


def _product(kit: Kit, x, kernel, transposed: bool = False):
    """Return (B, S, in)(in, out) as one product of B·S rows."""
    ops = kit.ops
    rows = ops.reshape(x, (-1, x.shape[-1]))
    product = kit.matmul(rows, ops.cast(kernel, x.dtype), transposed=transposed)
    return ops.reshape(product, (*ops.shape(x)[:-1], kernel.shape[0 if transposed else 1]))
