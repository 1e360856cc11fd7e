"""Parts of the model beside the graph: its weights, the same numbers, fewer and larger loops.

For TensorFlow on a CPU; what stands between the matrix products is in `elementwise`.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A, F feed-forward size,
M predicted positions, T vocabulary.
"""

import itertools
from collections.abc import Iterator

import keras
import tensorflow as tf

from kbert.graph import names
from kbert.model import layers as kl
from kbert.training.engines import elementwise
from kbert.training.engines.dropout_seeds import own_seed_states

_EMBEDDING_TYPES: dict[str, type] = {
    names.TOKEN_EMBEDDING: kl.TokenEmbedding,
    names.SEGMENT_EMBEDDING: kl.Embedding,
    names.TOKEN_PLUS_SEGMENT: kl.Add,
    names.POSITION_EMBEDDING: kl.PositionEmbedding,
    names.EMBEDDING_DROPOUT: keras.layers.Dropout,
    names.EMBEDDING_NORM: keras.layers.LayerNormalization,
}
_SUBLAYER_TYPES: dict[str, type] = {
    names.ATTENTION: kl.MultiHeadAttention,
    names.FEED_FORWARD: kl.FeedForward,
}
_END_TYPES: dict[str, type] = {
    "Dropout": keras.layers.Dropout,
    "Add": kl.Add,
    "Norm": keras.layers.LayerNormalization,
}


def fits(model) -> bool:
    """Whether the model is what the parts are for.

    The layers that would be left out are of the builder's own classes, none derived; all weights
    are float32, as in the mixed policies, and trained.
    """
    if model.non_trainable_weights or {weight.dtype for weight in model.weights} != {"float32"}:
        return False
    layers = {layer.name: type(layer) for layer in model.layers}
    expected = dict(_EMBEDDING_TYPES)
    if names.MLM_SIMILARITY in layers:
        expected |= {names.MLM_SIMILARITY: kl.EmbeddingSimilarity, names.MLM: kl.Masked}
    for number in itertools.takewhile(
        lambda number: names.encoder_output(number) in layers, itertools.count(1)
    ):
        expected |= dict(_block_types(number))
    return all(layers.get(name) is kind for name, kind in expected.items())


def _block_types(number: int) -> Iterator[tuple[str, type]]:
    for part, kind in _SUBLAYER_TYPES.items():
        yield names.encoder(number, part), kind
        for end, end_kind in _END_TYPES.items():
            yield names.encoder(number, part, end), end_kind


class Embeddings:
    """Token, segment and position embeddings with their dropout and LayerNorm, in training.

    Args:
        model: from `kbert.model.builder`; see `fits`.
    """

    def __init__(self, model):
        self._token, self._segment, self._position = (
            model.get_layer(name)
            for name in (names.TOKEN_EMBEDDING, names.SEGMENT_EMBEDDING, names.POSITION_EMBEDDING)
        )
        dropout = model.get_layer(names.EMBEDDING_DROPOUT)
        self._norm = model.get_layer(names.EMBEDDING_NORM)
        self._seeds = own_seed_states(dropout)
        self._ended = elementwise.normalized_embeddings(
            dropout.rate, self._norm.epsilon, self._norm.compute_dtype
        )
        self._is_tied = any(layer.name == names.MLM_SIMILARITY for layer in model.layers)

    def __call__(self, values: dict, token_ids, segment_ids, positions=None):
        """x (B, S, H) in the compute dtype, and the token table (T, H); see `CutModel`."""
        table = values[id(self._token.embeddings)]
        segments = values[id(self._segment.embeddings)]
        places = values[id(self._position.embeddings)]
        if positions is None:
            positions = places[: tf.shape(token_ids)[1]]  # (S, H)
        else:
            positions = tf.gather(places, positions)  # (B, S, H)
        dtype = self._token.compute_dtype
        if self._is_tied:
            tokens, table = _looked_up(table, token_ids, dtype)
        else:
            tokens = tf.gather(table, token_ids)  # (B, S, H)
        one_hot = tf.one_hot(segment_ids, segments.shape[0], dtype=segments.dtype)
        norm = (values[id(weight)] for weight in (self._norm.gamma, self._norm.beta))
        segments = tf.matmul(one_hot, segments)  # (B, S, types)(types, H): no scatter goes back
        return self._ended(tokens, segments, positions, *norm, _seed(values, self._seeds)), table


def _looked_up(table, ids, dtype: str):
    """Vectors of ids, and the table in a dtype; the vectors' gradient is added into the table's.

    As it stands, TensorFlow makes a second dense gradient of the vectors', and a third of the two.
    """

    @tf.custom_gradient
    def call(table):
        def grad(of_vectors, of_table):
            dense = tf.cast(of_table, table.dtype)
            return tf.tensor_scatter_nd_add(dense, ids[..., None], of_vectors)

        return (tf.gather(table, ids), tf.cast(table, dtype)), grad

    return call(table)


class EncoderBlock:
    """Encoder block `number`, counted from 1, in training.

    Args:
        model: from `kbert.model.builder`; see `fits`.
        number: of the block.
    """

    def __init__(self, model, number: int):
        def layer(*part):
            return model.get_layer(names.encoder(number, *part))

        def end(part):
            dropout, norm = layer(part, "Dropout"), layer(part, "Norm")
            function = elementwise.normalized_sum(dropout.rate, norm.epsilon)
            return function, norm, own_seed_states(dropout)

        self.attention, self.feed_forward = layer(names.ATTENTION), layer(names.FEED_FORWARD)
        self._ends = [end(names.ATTENTION), end(names.FEED_FORWARD)]
        self._seeds = own_seed_states(self.attention)
        self._weights = elementwise.attention_weights(self.attention.dropout)
        self._split = elementwise.split_heads(3, self.attention.num_heads)
        self._merged = elementwise.merged_heads()
        self._activated = elementwise.activated(self.feed_forward.intermediate_dense.activation)

    def __call__(self, values: dict, x, mask):
        """The block's output, (B, S, H); see `CutModel`."""

        def value(variable):
            return values[id(variable)]

        def ended(end, y, bias, x):
            function, norm, seeds = end
            scales = value(norm.gamma), value(norm.beta)
            return function(y, value(bias), x, *scales, _seed(values, seeds))

        attention = self.attention
        denses = attention.query_dense, attention.key_dense, attention.value_dense
        # The scale goes to the query, as in Keras: products without it may leave float16's range.
        scales = attention.key_dim**-0.5, 1.0, 1.0
        weights = [(value(dense.kernel), value(dense.bias)) for dense in denses]
        scaled = [(w * scale, b * scale) for (w, b), scale in zip(weights, scales, strict=True)]
        kernel = tf.concat([_matrix(w, 1) for w, _ in scaled], 1)  # (H, 3·H)
        bias = tf.concat([tf.reshape(b, [-1]) for _, b in scaled], 0)
        query, keys, vectors = self._split(_product(x, kernel), bias)  # (B, A, S, D) each
        scores = tf.matmul(query, keys, transpose_b=True)  # (B, A, S, S)
        shares = self._weights(scores, mask, _seed(values, self._seeds))
        context = self._merged(tf.matmul(shares, vectors))  # (B, S, H)
        output = attention.output_dense
        y = _product(context, _matrix(value(output.kernel), 2))
        x = ended(self._ends[0], y, output.bias, x)
        inner, outer = self.feed_forward.intermediate_dense, self.feed_forward.output_dense
        y = self._activated(_product(x, value(inner.kernel)), value(inner.bias))  # (B, S, F)
        return ended(self._ends[1], _product(y, value(outer.kernel)), outer.bias, x)


class Similarity:
    """The logits over the vocabulary, without a transposed copy of the table or its gradient.

    Args:
        model: from `kbert.model.builder`; see `fits`.
    """

    def __init__(self, model):
        self._bias = model.get_layer(names.MLM_SIMILARITY).bias

    def __call__(self, values: dict, x, table):
        """(B, M, T) of x (B, M, H) and table (T, H); see `CutModel`."""
        product = _product(x, table, transpose_b=True)
        return product + tf.cast(values[id(self._bias)], product.dtype)


class FusedParts:
    """`cut_model.Parts`."""

    embeddings = Embeddings
    block = EncoderBlock
    similarity = Similarity


def _seed(values: dict, states: list):
    """int32 (2,) of a dropout's state; of no use where it drops nothing."""
    return values[id(states[0])] if states else tf.zeros(2, tf.int32)


def _matrix(kernel, axes: int):
    """(H, A, D) as (H, A·D), one axis in; (A, D, H) as (A·D, H), two axes in."""
    return tf.reshape(kernel, [kernel.shape[:axes].num_elements(), -1])


def _product(x, kernel, transpose_b: bool = False):
    """(B, S, in)(in, out) as one product of B·S rows."""
    rows = tf.reshape(x, [-1, x.shape[-1]])
    product = tf.matmul(rows, tf.cast(kernel, x.dtype), transpose_b=transpose_b)
    width = kernel.shape[0 if transpose_b else 1]
    return tf.reshape(product, [*tf.unstack(tf.shape(x))[:-1], width])
