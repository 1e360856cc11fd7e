"""An encoder block beside the graph: the graph's weights, the same numbers, fewer and larger loops.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A, F feed-forward size.
"""

import itertools

import keras
import tensorflow as tf

from kbert.graph import names
from kbert.model import layers as kl
from kbert.training.engines import elementwise
from kbert.training.engines.dropout_seeds import own_seed_states

_ENDS: dict[str, type] = {
    "Dropout": keras.layers.Dropout,
    "Add": kl.Add,
    "Norm": keras.layers.LayerNormalization,
}
_TYPES: dict[tuple[str, ...], type] = {
    (names.ATTENTION,): kl.MultiHeadAttention,
    **{(names.ATTENTION, end): kind for end, kind in _ENDS.items()},
    (names.FEED_FORWARD,): kl.FeedForward,
    **{(names.FEED_FORWARD, end): kind for end, kind in _ENDS.items()},
}


class FusedBlock:
    """Encoder block `number` of a model, in training.

    Args:
        model: from `kbert.model.builder`; see `fits`.
        number: counted from 1.
    """

    @staticmethod
    def fits(model) -> bool:
        """Whether the layers of all blocks are of the builder's own classes, none derived."""
        layers = {layer.name: type(layer) for layer in model.layers}
        blocks = itertools.takewhile(
            lambda n: names.encoder_output(n) in layers, itertools.count(1)
        )
        return all(
            layers.get(names.encoder(number, *part)) is kind
            for number in blocks
            for part, kind in _TYPES.items()
        )

    def __init__(self, model, number: int):
        def layer(*part):
            return model.get_layer(names.encoder(number, *part))

        def end(part):
            dropout, norm = layer(part, "Dropout"), layer(part, "Norm")
            function = elementwise.normalized_sum(dropout.rate, norm.epsilon)
            return function, norm, own_seed_states(dropout)

        self.attention, self.feed_forward = layer(names.ATTENTION), layer(names.FEED_FORWARD)
        self._ends = [end(names.ATTENTION), end(names.FEED_FORWARD)]
        self._seed_of_weights = own_seed_states(self.attention)
        self._weights = elementwise.attention_weights(self.attention.dropout)
        self._split = elementwise.split_heads(3, self.attention.num_heads)
        self._merged = elementwise.merged_heads()
        self._activated = elementwise.activated(self.feed_forward.intermediate_dense.activation)

    def __call__(self, values: dict, x, mask):
        """The block's output, (B, S, H).

        Args:
            values: of the variables, by their id.
            x: (B, S, H).
            mask: bool (B, S), True for tokens to attend to.
        """

        def value(variable):
            return values[id(variable)]

        def ended(end, y, bias, x):
            function, norm, seeds = end
            return function(y, value(bias), x, value(norm.gamma), value(norm.beta), seed(seeds))

        def seed(states):
            return value(states[0]) if states else tf.zeros(2, tf.int32)

        attention = self.attention
        denses = attention.query_dense, attention.key_dense, attention.value_dense
        kernel = tf.concat([_matrix(value(dense.kernel), 1) for dense in denses], 1)  # (H, 3·H)
        bias = tf.concat([tf.reshape(value(dense.bias), [-1]) for dense in denses], 0)
        query, keys, vectors = self._split(_product(x, kernel), bias)  # (B, A, S, D) each
        scores = tf.matmul(query, keys, transpose_b=True)  # (B, A, S, S)
        scale = tf.constant(attention.key_dim**-0.5)
        weights = self._weights(scores, mask, scale, seed(self._seed_of_weights))
        context = self._merged(tf.matmul(weights, vectors))  # (B, S, H)
        output = attention.output_dense
        y = _product(context, _matrix(value(output.kernel), 2))
        x = ended(self._ends[0], y, output.bias, x)
        inner, outer = self.feed_forward.intermediate_dense, self.feed_forward.output_dense
        y = self._activated(_product(x, value(inner.kernel)), value(inner.bias))  # (B, S, F)
        return ended(self._ends[1], _product(y, value(outer.kernel)), outer.bias, x)


def _matrix(kernel, axes: int):
    """(H, A, D) as (H, A·D), one axis in; (A, D, H) as (A·D, H), two axes in."""
    return tf.reshape(kernel, [kernel.shape[:axes].num_elements(), -1])


def _product(x, kernel):
    """(B, S, in)(in, out) as one product of B·S rows."""
    rows = tf.reshape(x, [-1, x.shape[-1]])
    product = tf.matmul(rows, tf.cast(kernel, x.dtype))
    return tf.reshape(product, [*tf.unstack(tf.shape(x))[:-1], kernel.shape[-1]])
