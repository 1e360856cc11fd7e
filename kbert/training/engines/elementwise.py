"""What stands between the matrix products of an encoder block, each part one XLA program.

For TensorFlow on a CPU, which runs one operation after the other: bias, dropout, residual and
LayerNorm go through memory a dozen times, where one loop goes once. Matrix products stay outside:
oneDNN multiplies bfloat16 on a CPU's own units, XLA there does not. The backward pass computes a
part again from its inputs, so nothing but these is kept: no mask, no float32 copy.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A, F feed-forward size,
N = B·S.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

_function = functools.partial(tf.function, jit_compile=True, autograph=False, reduce_retracing=True)


def fused(part: Callable) -> Callable:
    """The function of tensors as one XLA program, and its gradient as another."""
    forward = _function(part)

    @_function
    def backward(arguments, gradients):
        floats = [one for one in arguments if one.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            results = part(*arguments)
        found = iter(tape.gradient(results, floats, gradients))
        return [next(found) if one.dtype.is_floating else None for one in arguments]

    @tf.custom_gradient
    def call(*arguments):
        return forward(*arguments), lambda *gradients: backward(arguments, gradients)

    return call


@functools.cache
def normalized_sum(rate: float, epsilon: float) -> Callable:
    """LayerNorm(x + Dropout(y + bias)) of y (B, S, H), bias, x, gamma, beta, seed."""

    def part(y, bias, x, gamma, beta, seed):
        total = _wide(x) + dropped(_wide(y) + bias, seed, rate)
        return tf.cast(normalized(total, gamma, beta, epsilon), x.dtype)

    return fused(part)


@functools.cache
def normalized_embeddings(rate: float, epsilon: float, dtype: str) -> Callable:
    """LayerNorm(Dropout(tokens + segments + positions)), gamma, beta, seed: the builder's order."""

    def part(tokens, segments, positions, gamma, beta, seed):
        total = dropped(tokens + segments + positions, seed, rate)
        return tf.cast(normalized(total, gamma, beta, epsilon), dtype)

    return fused(part)


@functools.cache
def measured() -> Callable:
    """`kbert.training.loss.measured` of logits, labels and weights, with no gather or scatter."""

    def part(logits, labels, weights):
        wide = tf.where((weights > 0)[..., None], _wide(logits), 0.0)
        classes = tf.range(tf.shape(wide)[-1])
        largest = tf.stop_gradient(tf.reduce_max(wide, -1, keepdims=True))
        total = tf.math.log(tf.reduce_sum(tf.exp(wide - largest), -1)) + largest[..., 0]
        own = tf.reduce_sum(tf.where(classes == labels[..., None], wide, 0.0), -1)
        first = tf.reduce_min(tf.where(wide == largest, classes, classes.dtype.max), -1)
        hits = tf.cast(first == labels, tf.float32)  # as argmax, the first of equals
        sums = weights * (total - own), weights * hits, weights
        return tf.stack([tf.reduce_sum(one) for one in sums])

    return fused(part)


@functools.cache
def attention_weights(rate: float) -> Callable:
    """Softmax and dropout of scores (B, A, S, S), bool mask (B, S) or (B, S, S), seed."""

    def part(scores, mask, seed):
        keep = mask[:, None, None] if mask.shape.rank == 2 else mask[:, None]
        wide = tf.where(keep, _wide(scores), tf.float32.min)
        return dropped(tf.cast(tf.nn.softmax(wide), scores.dtype), seed, rate)

    return fused(part)


@functools.cache
def activated(activation: Callable) -> Callable:
    """The activation of x (B, S, F) plus bias."""

    def part(x, bias):
        return tf.cast(activation(_wide(x) + bias), x.dtype)

    return fused(part)


@functools.cache
def split_heads(parts: int, heads: int) -> Callable:
    """Of the products of several kernels side by side, (B, S, parts·H), and their biases."""

    def part(x, bias):
        batch, length, width = tf.unstack(tf.shape(x))
        shape = [batch, length, parts, heads, width // (parts * heads)]
        biased = tf.cast(_wide(x) + bias, x.dtype)
        by_part = tf.transpose(tf.reshape(biased, shape), [2, 0, 3, 1, 4])
        return tf.unstack(by_part, parts)  # parts times (B, A, S, D)

    return fused(part)


@functools.cache
def merged_heads() -> Callable:
    """(B, A, S, D) -> (B, S, H)."""

    def part(x):
        batch, heads, length, size = tf.unstack(tf.shape(x))
        return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [batch, length, heads * size])

    return fused(part)


def dropped(x, seed, rate: float):
    """Dropout (Srivastava et al. 2014), whose mask is a function of seed and place alone.

    Args:
        x: float, any shape of less than 2³² numbers.
        seed: int32 (2,).
        rate: 0 … 1, to 2⁻³¹.
    """
    if not rate:
        return x
    kept = tf.reshape(_bits(tf.size(x), seed) >= int(rate * 2**31), tf.shape(x))
    return tf.where(kept, x * tf.cast(1 / (1 - rate), x.dtype), tf.zeros((), x.dtype))


def normalized(x, gamma, beta, epsilon: float):
    """LayerNorm over the last axis (Ba et al. 2016, arXiv 1607.06450)."""
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return centred * tf.math.rsqrt(variance + epsilon) * gamma + beta


def _wide(x):
    """In float32: sums of many numbers, the gradient of a bias among them, need it."""
    return tf.cast(x, tf.float32)


def _bits(count, seed):
    """int32 (count,): 31 random bits each.

    A hash of the place: multiplications and shifts (Wellons, hash-prospector's lowbias32), half of
    the seed before the first, the other half before the next two. Not TensorFlow's own Philox: XLA
    draws that again, key and all, for each number of a loop that it is fused into.
    """
    shift, xor = tf.bitwise.right_shift, tf.bitwise.bitwise_xor
    low, high = tf.unstack(tf.bitcast(seed, tf.uint32))

    def word(number):
        return tf.constant(number, tf.uint32)

    def mixed(x, right, factor):
        return xor(x, shift(x, word(right))) * word(factor)

    x = xor(tf.cast(tf.range(count), tf.uint32) * word(0x9E3779B9), low)
    x = xor(mixed(x, 16, 0x7FEB352D), high)
    x = mixed(mixed(x, 15, 0x7FEB352D), 15, 0x846CA68B)
    return tf.bitcast(shift(xor(x, shift(x, word(16))), word(1)), tf.int32)
