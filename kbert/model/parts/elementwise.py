"""Elementwise operations between the matrix products of an encoder block, as tensor functions.

Bias, dropout, residual and LayerNorm pass through memory a dozen times if they run one operation
after the other, and once if such a function is compiled to one program. The backend decides how:
`tensorflow_kit`, `tensorflow_free_kit`, `jax_kit`, `torch_kit`. Sums of many numbers, such as the
gradient of a bias, are in float32.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A, F feed-forward size, N
= B·S.
"""

import math
from collections.abc import Callable

from keras import ops
from keras.config import backend


def normalized_sum(
    y, bias, x, gamma, beta, seed, *, rate: float, epsilon: float, norm: Callable | None = None
):
    """LayerNorm(x + Dropout(y + bias)) of y (B, S, H), bias, x, gamma, beta, seed."""
    total = _wide(x) + dropped(_wide(y) + bias, seed, rate)
    return ops.cast((norm or normalized)(total, gamma, beta, epsilon), x.dtype)


def normalized_embeddings(
    tokens,
    segments,
    positions,
    gamma,
    beta,
    seed,
    *,
    rate: float,
    epsilon: float,
    dtype: str,
    norm: Callable | None = None,
):
    """LayerNorm(Dropout(tokens + segments + positions)), gamma, beta, seed: the builder's order."""
    total = dropped(tokens + segments + positions, seed, rate)
    return ops.cast((norm or normalized)(total, gamma, beta, epsilon), dtype)


def measured(logits, labels, weights):
    """`kbert.training.loss.measured` of logits, labels and weights, with no gather or scatter."""
    return measured_and_kept(logits, labels, weights)[0]


def measured_and_kept(logits, labels, weights):
    """Compute `measured`, and for each label the softmax's parts, to recompute it quickly.

    These are the maximum of `exponentials` and the inverse of its sum, float32 (…, 1) each.
    """
    wide = counted(logits, weights)
    exponential, largest = exponentials(wide)
    total = ops.sum(exponential, -1, keepdims=True)
    losses = ops.log(total[..., 0]) + largest[..., 0] - ops.sum(at_label(wide, labels), -1)
    count = ops.shape(wide)[-1]
    classes = ops.arange(count, dtype="int32")
    first = ops.min(ops.where(wide == largest, classes, count), -1)
    hits = ops.cast(first == labels, "float32")  # as argmax, the first of equals
    sums = weights * losses, weights * hits, weights
    return ops.stack([ops.sum(one) for one in sums]), [largest, 1 / total]


def measured_and_kept_in_turn(logits, labels, weights):
    """Compute `measured_and_kept` for one example after the other.

    XLA on a CPU writes arrays between the sums: they are then as large as one example's logits.
    """

    def of_example(place):
        given = (ops.take(one, place, axis=0) for one in (logits, labels, weights))
        sums, kept = measured_and_kept(*given)
        return sums, *kept

    sums, *kept = ops.map(of_example, ops.arange(ops.shape(logits)[0], dtype="int32"))
    return ops.sum(sums, 0), kept


def counted(logits, weights):
    """Return logits in float32, 0 where a label does not count: there they may be anything."""
    return ops.where(ops.expand_dims(weights > 0, -1), _wide(logits), 0.0)


def at_label(x, labels):
    """x (…, classes) where the class is the label's, else 0."""
    classes = ops.arange(ops.shape(x)[-1], dtype="int32")
    return ops.where(classes == ops.expand_dims(labels, -1), x, 0.0)


def attention_weights(scores, mask, seed, *, rate: float):
    """Softmax and dropout of scores (B, A, S, S), bool mask (B, 1, 1 or S, S), seed."""
    return dropped(probabilities(scores, mask), seed, rate)


def signed_shares(scores, mask, seed, *, rate: float):
    """`probabilities`, negative where dropout drops them: what a gradient of both needs to keep."""
    shares = probabilities(scores, mask)
    return ops.where(kept(shares, seed, rate), shares, -shares) if rate else shares


def left_shares(signed, *, rate: float):
    """Return the scaled probabilities that dropout keeps of `signed_shares`."""
    return ops.maximum(signed, 0) * ops.cast(1 / (1 - rate), signed.dtype) if rate else signed


def probabilities(scores, mask):
    """Softmax of scores (B, A, S, S), bool mask (B, 1, 1 or S, S)."""
    return ops.cast(ops.softmax(masked(scores, mask)), scores.dtype)


def masked(scores, mask):
    """Return scores in float32, the lowest of all numbers where the mask is False."""
    return ops.where(mask, _wide(scores), _LOWEST)


def exponentials(x, largest=None):
    """Return the numerators of a softmax of x (…, n), and the maximum of each n, (…, 1)."""
    largest = ops.max(x, -1, keepdims=True) if largest is None else largest
    largest = ops.stop_gradient(largest)
    return ops.exp(x - largest), largest


def activated(x, bias, *, activation):
    """Return the activation of x (B, S, F) plus bias."""
    return ops.cast(activation(_wide(x) + bias), x.dtype)


def split_heads(x, bias, *, parts: int, heads: int):
    """Add biases to concatenated products of several kernels, (B, S, parts·H), and split heads."""
    batch, length, width = ops.shape(x)
    shape = (batch, length, parts, heads, width // (parts * heads))
    biased = ops.cast(_wide(x) + bias, x.dtype)
    by_part = ops.transpose(ops.reshape(biased, shape), (2, 0, 3, 1, 4))
    return [by_part[part] for part in range(parts)]  # parts times (B, A, S, D)


def merged_heads(x):
    """Rearrange (B, A, S, D) to (B, S, H)."""
    batch, heads, length, size = ops.shape(x)
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def own_heads(x, *, heads: int):
    """Rearrange (B, S, H) to (B, A, S, D)."""
    batch, length, width = ops.shape(x)
    return ops.transpose(ops.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def dropped(x, seed, rate: float):
    """Return dropout (Srivastava et al. 2014), whose mask is a function of seed and place alone.

    Args:
        x: float, any shape of less than 2³² numbers.
        seed: see `random_bits`.
        rate: 0 … 1, to 2⁻³¹.
    """
    if not rate:
        return x
    scaled = x * ops.cast(1 / (1 - rate), x.dtype)
    return ops.where(kept(x, seed, rate), scaled, ops.zeros((), x.dtype))


def kept(x, seed, rate: float):
    """Return bool of the shape of x: what dropout leaves of it; see `dropped`."""
    return random_bits(ops.shape(x), seed) >= int(rate * 2**31)


def normalized(x, gamma, beta, epsilon: float):
    """LayerNorm over the last axis (Ba et al. 2016, arXiv 1607.06450)."""
    centred = x - ops.mean(x, -1, keepdims=True)
    variance = ops.mean(ops.square(centred), -1, keepdims=True)
    return centred * ops.rsqrt(variance + epsilon) * gamma + beta


def normalized_in_one_pass(x, gamma, beta, epsilon: float):
    """Compute `normalized` in one pass: the variance is from sums and sums of squares."""
    mean = ops.mean(x, -1, keepdims=True)
    variance = ops.maximum(ops.mean(ops.square(x), -1, keepdims=True) - ops.square(mean), 0.0)
    return (x - mean) * ops.rsqrt(variance + epsilon) * gamma + beta


def random_bits(shape, seed):
    """Return int32 of a shape: 31 random bits each, a function of their place and of the seed.

    A hash of the place: multiplications and shifts (Wellons, hash-prospector's lowbias32), half of
    the seed before the first, the other half before the next two. Not the backend's own generator:
    XLA draws from that again, key and all, for each number of a loop that it is fused into.

    Args:
        shape: of the numbers; the last axis is that of neighbouring places.
        seed: int32 (2,); (3,) where these numbers are one of equal parts, of which the third is
            the number, from 0: their bits are those of their places in the whole.
    """

    def mixed(x, right, factor):
        return ops.bitwise_xor(x, ops.right_shift(x, _word(right))) * _word(factor)

    count = math.prod(shape)
    low, high, *part = ops.unstack(_word(seed), seed.shape[0])
    first = ops.bitwise_xor(low, low)  # 0
    if part:
        # Places have 32 bits: a part beyond them has a seed of its own, not another's bits again.
        within = part[0] < _word(min(2**32 // count, 2**32 - 1))
        first = ops.where(within, part[0] * _word(count), _word(0))
        high = ops.bitwise_xor(high, ops.where(within, _word(0), part[0] * _word(0x85EBCA6B)))
    x = ops.bitwise_xor(_places(shape, first) * _word(0x9E3779B9), low)
    x = ops.bitwise_xor(mixed(x, 16, 0x7FEB352D), high)
    x = mixed(mixed(x, 15, 0x7FEB352D), 15, 0x846CA68B)
    bits = ops.right_shift(ops.bitwise_xor(x, ops.right_shift(x, _word(16))), _word(1))
    return ops.cast(bits, "int32")


def _places(shape, first):
    """uint32 of a shape: the numbers from `first` on.

    On TensorFlow axis by axis: it folds what depends on no argument into a constant, which would be
    as large as the mask, and in each program.
    """
    if backend() != "tensorflow":
        return ops.reshape(_word(ops.arange(math.prod(shape), dtype="int32")) + first, shape)
    for axis, size in enumerate(shape, 1):
        along = _word(ops.arange(size, dtype="int32")) * _word(math.prod(shape[axis:]))
        first = first + ops.reshape(along, (size, *(1 for _ in shape[axis:])))
    return first


def _word(number):
    return ops.cast(number, "uint32")


_LOWEST = -3.4028235e38  # float32's


def _wide(x):
    return ops.cast(x, "float32")
