"""Operations of `kbert.ops.reference` for TensorFlow on GPUs, where XLA compiles the step.

Dropout's mask is the reference's hash: XLA computes it within the kernel that reads it, where
TensorFlow's generator is several kernels and an array. Sums over rows are written so that XLA makes
one kernel of each.

Dimensions as in `kbert.ops.reference`; N = B·S.
"""

import tensorflow as tf

from kbert.ops import keras_internals, reference
from kbert.ops import tensorflow as tensorflow_ops

_LOWEST = -3.4028235e38  # float32's, as in the reference
_traced = tensorflow_ops.traced


@tf.function(jit_compile=True, autograph=False)  # also where the step itself is not compiled
def _hide(*tensors):
    return keras_internals.hide_from_xla(list(tensors))


def attention(query, key, value, mask=None, rate: float = 0.0, seed=None):
    """See `reference.attention`; keeps two numbers per query, no scores and no probabilities."""
    scale = tf.constant(query.shape[-1] ** -0.5, query.dtype)
    if mask is None:
        mask = tf.ones([1, 1, 1, 1], "bool")
    else:  # a query without a key becomes 0: equal probabilities, and no gradient
        scale = tf.where(tf.reduce_any(mask, -1, keepdims=True), scale, tf.zeros((), scale.dtype))
    seed = tf.zeros([2], tf.int32) if seed is None else tf.cast(seed, "int32")
    context = _attend(query * scale, key, value, mask, seed, rate=rate)
    batch, heads, length, size = tensorflow_ops.shape_of(context)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [batch, length, heads * size])


@_traced
def _attend(query, key, value, mask, seed, rate: float):
    def compute_scores(query):
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
        return tf.where(mask, scores, _LOWEST)

    scores = compute_scores(query)
    highest = tf.reduce_max(scores, -1, keepdims=True)
    total = tf.reduce_sum(tf.exp(scores - highest), -1, keepdims=True)
    probs = tf.exp(scores - highest) / total
    context = tf.matmul(tf.cast(reference.dropout(probs, rate, seed), query.dtype), value)

    def grad(gradient):
        # Else XLA would keep the scores and the mask, or compute them again too early.
        again, again_seed, gradient = _hide(query, seed, gradient)
        probs = tf.exp(compute_scores(again) - highest) / total
        dropped_probs = reference.dropout(probs, rate, again_seed)
        of_value = tf.matmul(tf.cast(dropped_probs, query.dtype), gradient, transpose_a=True)
        of_probs = tf.cast(tf.matmul(gradient, value, transpose_b=True), tf.float32)
        wide = tf.cast(gradient, tf.float32) * tf.cast(context, tf.float32)
        mean = tf.reduce_sum(wide, -1, keepdims=True)  # of Σ probs × their gradients too
        of_scores = tf.cast(of_probs * dropped_probs - probs * mean, query.dtype)
        of_query = tf.matmul(of_scores, key)
        of_key = tf.matmul(of_scores, query, transpose_a=True)
        return of_query, of_key, of_value, None, None

    return context, grad


def dropout(x, rate: float, seed):
    """See `reference.dropout`."""
    return _drop(x, tf.cast(seed, tf.int32), rate=rate) if rate else x


@_traced
def _drop(x, seed, rate: float):
    def grad(gradient):
        (again,) = _hide(seed)  # else XLA would keep the mask
        return reference.dropout(gradient, rate, again), None

    return reference.dropout(x, rate, seed), grad


def layer_norm(x, gamma, beta, epsilon: float):
    """See `reference.layer_norm`; keeps its input, and two numbers per row."""
    return _normalize(x, gamma, beta, epsilon=epsilon)


@_traced
def _normalize(x, gamma, beta, epsilon: float):
    width, gamma32 = x.shape[-1], tf.cast(gamma, tf.float32)
    rows = tf.reshape(x, [-1, width])
    centered = tf.cast(rows, tf.float32)
    mean = tf.reduce_mean(centered, -1, keepdims=True)
    centered -= mean
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(centered), -1, keepdims=True) + epsilon)
    y = centered * scale * gamma32 + tf.cast(beta, tf.float32)

    def grad(gradient):
        gradient = tf.reshape(gradient, [-1, width])
        wide = tf.cast(gradient, tf.float32)
        unit = (tf.cast(rows, tf.float32) - mean) * scale
        of_unit = wide * gamma32
        means = (tf.reduce_mean(one, -1, keepdims=True) for one in (of_unit, of_unit * unit))
        of_mean, of_scale = means
        of_x = tf.cast((of_unit - of_mean - unit * of_scale) * scale, x.dtype)
        # Else XLA would write float32 products down for these sums.
        wide, again, *row_sums = _hide(gradient, rows, mean, scale)
        wide = tf.cast(wide, tf.float32)
        unit = (tf.cast(again, tf.float32) - row_sums[0]) * row_sums[1]
        sums = (tf.reduce_sum(one, 0) for one in (wide * unit, wide))
        return tf.reshape(of_x, tf.shape(x)), *(tf.cast(one, gamma.dtype) for one in sums)

    return tf.reshape(tf.cast(y, x.dtype), tf.shape(x)), grad
