"""TensorFlow operations for variable-length batches on a CPU, and for short runs on packed rows.

Nothing is compiled, because each length would be compiled separately. These are TensorFlow's own
operations, with gradients written in fewer operations than its own; what a gradient needs is kept
if it is small. Biases are added by the operations that TensorFlow's remapper fuses with the product
before them.

Dimensions at line end: B batch, S sequence, R positions read of it, H hidden size, A heads, D =
H/A, F feed-forward size, N = B·S.
"""

import functools
import math
from collections.abc import Callable

import tensorflow as tf

from kbert.model import layers as kl
from kbert.model.parts import elementwise, tensorflow_operations
from kbert.model.parts.tensorflow_kit import matmul, rows_at, vectors, vectors_and_table

ops = tensorflow_operations

__all__ = [
    "attended",
    "matmul",
    "ops",
    "part",
    "recomputed",
    "rows_at",
    "vectors",
    "vectors_and_table",
]


def part(formula: Callable, **settings) -> Callable:
    """Return a float32 function with the same result as a formula of `elementwise`."""
    return functools.partial(_OWN.get(formula, formula), **settings)


def recomputed(function: Callable) -> Callable:
    """Return the function as it is."""
    return function


def attended(rate: float) -> Callable:
    """Attention of query, keys, vectors (B, A, S, D), mask and seed: (B, S, H)."""

    def call(query, keys, vectors, mask, seed):
        least = tf.where(mask, 0.0, tf.float32.min)  # (B, 1, 1 or S, S)
        if not rate:
            shares = tf.nn.softmax(tf.matmul(query, keys, transpose_b=True) + least)
            return _merged_heads(tf.matmul(shares, vectors))

        @tf.custom_gradient
        def attend(query, keys, vectors):
            shares = tf.nn.softmax(tf.matmul(query, keys, transpose_b=True) + least)
            kept, scale = _kept(shares, seed, rate)
            left = _left(shares, kept)
            context = tf.matmul(left, vectors) * scale  # (B, A, S, D)

            def grad(gradient):
                scaled = gradient * scale
                of_shares = _left(tf.matmul(scaled, vectors, transpose_b=True), kept)
                mean = tf.reduce_sum(of_shares * shares, -1, keepdims=True)
                of_scores = (of_shares - mean) * shares
                return (
                    tf.matmul(of_scores, keys),
                    tf.matmul(of_scores, query, transpose_a=True),
                    tf.matmul(left, scaled, transpose_a=True),
                )

            return context, grad

        return _merged_heads(attend(query, keys, vectors))

    return call


def _normalized_sum(y, bias, x, gamma, beta, seed, *, rate, epsilon):
    y, rows = _biased(_rows(y), bias), _rows(x)
    total = rows + (_dropped(y, seed, rate) if rate else y)
    return tf.reshape(_normalized(total, gamma, beta, epsilon), ops.shape(x))


def _normalized_embeddings(tokens, segments, positions, gamma, beta, seed, *, rate, epsilon, dtype):
    total = tokens + segments + positions
    rows = _rows(total)
    rows = _dropped(rows, seed, rate) if rate else rows
    return tf.reshape(_normalized(rows, gamma, beta, epsilon), ops.shape(total))


def _split_heads(x, bias, *, parts: int, heads: int):
    rows, shape = _rows_and_shape(x)
    batch, length, _ = tf.unstack(shape, 3)
    size = x.shape[-1] // (parts * heads)
    rows = _biased(rows, bias)
    by_part = tf.transpose(tf.reshape(rows, [batch, length, parts, heads, size]), [2, 0, 3, 1, 4])
    return tf.unstack(by_part)  # parts times (B, A, S, D)


def _merged_heads(x):
    """Rearrange (B, A, S, D) to (B, S, H)."""
    batch, heads, length, size = ops.shape(x)
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [batch, length, heads * size])


def _activated(x, bias, *, activation):
    rows, shape = _rows_and_shape(x)
    rows = _biased(rows, bias)
    rows = _gelu(rows) if activation is kl.gelu else activation(rows)
    return tf.reshape(rows, shape)


def _measured(logits, labels, weights):
    counts = weights > 0
    wide, labels = tf.where(counts[..., None], logits, 0.0), tf.where(counts, labels, 0)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, wide)
    hits = tf.cast(tf.argmax(wide, -1, labels.dtype) == labels, "float32")
    return tf.stack([tf.reduce_sum(weights * one) for one in (losses, hits, 1.0)])


@tf.custom_gradient
def _biased(x, bias):
    return tf.nn.bias_add(x, bias), lambda gradient: (gradient, _column_sums(gradient))


@tf.custom_gradient
def _gelu(x):
    scaled = x * 0.5**0.5
    share = tf.math.erf(scaled) * 0.5 + 0.5  # Φ(x); erfc takes twice as long

    def grad(gradient):
        density = tf.exp(-tf.square(scaled)) * scaled * math.pi**-0.5  # x φ(x)
        return gradient * (share + density)

    return x * share, grad


def _normalized(x, gamma, beta, epsilon: float):
    """LayerNorm of x (N, H)."""

    @tf.custom_gradient
    def norm(x, gamma, beta):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.math.rsqrt(variance + epsilon)  # (N, 1)
        unit = centred * scale

        def grad(gradient):
            product = gradient * unit
            column = gamma[:, None] / x.shape[-1]  # (H, 1)
            mean, slope = tf.matmul(gradient, column), tf.matmul(product, column)  # (N, 1) each
            of_x = (gradient * gamma - (unit * slope + mean)) * scale
            return of_x, _column_sums(product), _column_sums(gradient)

        return unit * gamma + beta, grad

    return norm(x, gamma, beta)


def _dropped(x, seed, rate: float):
    """Dropout."""

    @tf.custom_gradient
    def drop(x):
        kept, scale = _kept(x, seed, rate)
        factor = tf.where(kept, scale, 0.0)
        return x * factor, lambda gradient: gradient * factor

    return drop(x)


def _kept(x, seed, rate: float) -> tuple:
    """Return dropout's keep mask, bool of the shape of x, and the scale of the kept numbers.

    The mask has 16 random bits per number, so the rate is exact to 2⁻¹⁷; the scale is that of the
    exact rate used.
    """
    shape = tf.shape(x)
    count = tf.reduce_prod(shape)
    drawn = tf.random.stateless_uniform(
        [-(-count // 4)], seed, minval=None, maxval=None, dtype=tf.uint64
    )
    bits = tf.reshape(tf.bitcast(drawn, tf.int16), [-1])[:count]  # −2¹⁵ … 2¹⁵ − 1
    lost = min(round(rate * 2**16), 2**16 - 1)
    kept = tf.reshape(bits, shape) >= tf.constant(lost - 2**15, tf.int16)
    return kept, 2**16 / (2**16 - lost)


def _left(x, kept):
    """x where it is kept, else 0."""
    return tf.where(kept, x, 0.0)


def _column_sums(x):
    """Return (H,) of x (N, H)."""
    return tf.raw_ops.BiasAddGrad(out_backprop=x)


def _rows(x):
    """Return (…, H) as (N, H)."""
    return _rows_and_shape(x)[0]


def _rows_and_shape(x) -> tuple:
    """Return (…, H) as (N, H), and its shape as a tensor.

    Of a product's rows that were given a shape the product itself, and that shape: the remapper
    fuses a product with a bias where nothing else asks for it.
    """
    made = getattr(x, "op", None)  # None: not traced, there is no remapper
    if made is not None and made.type == "Reshape":
        source, shape = made.inputs
        if len(source.shape) == 2 and source.shape[-1] == x.shape[-1]:
            return source, shape
    return tf.reshape(x, [-1, x.shape[-1]]), tf.shape(x)


_OWN: dict[Callable, Callable] = {
    elementwise.normalized_sum: _normalized_sum,
    elementwise.normalized_embeddings: _normalized_embeddings,
    elementwise.split_heads: _split_heads,
    elementwise.activated: _activated,
    elementwise.measured: _measured,
}
