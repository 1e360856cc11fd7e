"""Each operation of the layers, defined once in `keras.ops`: the documentation and the oracle.

The faster versions of a backend (`kbert.ops.tensorflow`, `kbert.ops.jax`, `kbert.ops.torch`)
compute the same numbers; this module imports nothing of kbert. Sums of many numbers are in float32,
whatever the inputs are.

Dimensions: B batch, S sequence, R query positions (S, or fewer), H hidden size, A heads, D = H/A,
F feed-forward size, M predicted positions, T vocabulary, N any number of rows.
"""

import math
from collections.abc import Callable, Sequence

from keras import ops

LOWEST = -3.4028235e38  # float32's


def linear(x, kernel, bias=None):
    """Multiply x (B, S, in) by kernel (in, out), and add bias (out,)."""
    kernel = ops.cast(kernel, x.dtype)
    y = ops.matmul(x, kernel)
    if bias is None:
        return y
    return y + ops.cast(bias, y.dtype)


def project_heads(x, kernels: Sequence, biases: Sequence) -> list:
    """Project x (B, S, H) by kernels (H, A, D) and biases (A, D) or None: one (B, A, S, D) each."""
    heads = []
    for kernel, bias in zip(kernels, biases, strict=True):
        kernel = ops.cast(kernel, x.dtype)
        y = ops.einsum("bsh,had->bsad", x, kernel)
        if bias is not None:
            y = y + ops.cast(bias, y.dtype)
        heads.append(ops.transpose(y, (0, 2, 1, 3)))
    return heads


def attention(query, key, value, mask=None, rate: float = 0.0, seed=None):
    """Compute scaled dot-product attention (the paper's reference [Vaswani et al. 2017], eq. 1).

    Args:
        query: float (B, A, R, D), not scaled yet.
        key, value: float (B, A, S, D).
        mask: bool, broadcastable to (B, A, R, S), True for keys to attend to; None: all.
        rate: dropout rate of the probabilities.
        seed: of the dropout, see `keep_mask`.

    Returns:
        (B, R, A·D) in the query's dtype.
    """
    probs = attention_probs(query, key, mask)
    probs = dropout(probs, rate, seed)
    context = ops.matmul(probs, value)  # (B, A, R, D)
    batch, heads, length, size = ops.shape(context)
    context = ops.transpose(context, (0, 2, 1, 3))
    return ops.reshape(context, (batch, length, heads * size))


def self_attention(
    x, kernels: Sequence, biases: Sequence, mask=None, rate: float = 0.0, seed=None, queries=None
):
    """Compute the `attention` of x (B, S, H) to itself, or of queries (B, R, H) to x.

    The kernels and biases are those of `project_heads`, of query, key and value.
    """
    query, key, value = project_heads(x, kernels, biases)
    if queries is not None:
        (query,) = project_heads(queries, kernels[:1], biases[:1])
    return attention(query, key, value, mask, rate, seed)


def attention_probs(query, key, mask=None):
    """Compute the attention probabilities (B, A, R, S); each row sums to 1."""
    # The query is scaled, not the scores: products without the scale may leave float16's range.
    scale = ops.cast(query.shape[-1] ** -0.5, query.dtype)
    query = query * scale
    transposed_key = ops.swapaxes(key, -1, -2)
    scores = ops.matmul(query, transposed_key)  # (B, A, R, S)
    scores = ops.cast(scores, "float32")
    if mask is not None:
        scores = ops.where(mask, scores, LOWEST)
    probs = ops.softmax(scores)
    return ops.cast(probs, query.dtype)


def bias_activation(x, bias, activation: Callable):
    """Add bias (F,) to x (B, S, F), then apply an activation, such as GELU."""
    wide = ops.cast(x, "float32") + ops.cast(bias, "float32")
    y = activation(wide)
    return ops.cast(y, x.dtype)


def dense(x, kernel, bias, activation: Callable):
    """Multiply x (B, S, in) by kernel (in, F), then `bias_activation`: one pass, for inference."""
    product = linear(x, kernel)
    return bias_activation(product, bias, activation)


def dropout(x, rate: float, seed):
    """Drop each number with probability `rate` (Srivastava et al. 2014); seed as of `keep_mask`."""
    if not rate:
        return x
    scale = ops.cast(1 / (1 - rate), x.dtype)
    scaled = x * scale
    keep = keep_mask(ops.shape(x), rate, seed)
    zero = ops.zeros((), x.dtype)
    return ops.where(keep, scaled, zero)


def keep_mask(shape, rate: float, seed):
    """Return bool of a shape: True with probability 1 - rate.

    A hash of each position (Wellons, hash-prospector's lowbias32), half of the seed before its
    first multiplication, the other half after. Not the backend's own generator: XLA computes that
    again, key and all, in each fusion that reads the mask.

    Args:
        shape: of the mask; fewer than 2³² numbers.
        rate: exact to 2⁻³¹.
        seed: int32 or uint32 (2,).
    """
    low, high = ops.unstack(_word(seed), 2)
    count = math.prod(shape)
    numbers = _word(ops.arange(count, dtype="int32"))
    index = ops.reshape(numbers, shape)
    return keep_at(index, rate, low, high)


def keep_at(index, rate: float, low, high, ops=ops):
    """Return `keep_mask` at the positions `index`, int of any shape, of the flattened mask.

    `low` and `high` are the seed's two numbers; `ops` has the functions of `keras.ops` that are
    used here, for a backend that is not Keras's.
    """

    def word(number):
        return _word(number, ops)

    def mix(x, shift, factor):
        shifted = ops.right_shift(x, word(shift))
        mixed = ops.bitwise_xor(x, shifted)
        return word(mixed * word(factor))

    x = word(word(index) * word(0x9E3779B9))
    x = ops.bitwise_xor(x, word(low))
    x = mix(x, 16, 0x7FEB352D)
    x = ops.bitwise_xor(x, word(high))
    x = mix(x, 15, 0x7FEB352D)
    x = mix(x, 15, 0x846CA68B)

    shifted = ops.right_shift(x, word(16))
    x = ops.bitwise_xor(x, shifted)
    bits = ops.right_shift(x, word(1))
    return ops.cast(bits, "int32") >= int(rate * 2**31)


def _word(number, ops=ops):
    """Return a number modulo 2³² in uint32; on torch that is int64, and products are larger."""
    number = ops.cast(number, "uint32")
    lowest_bits = ops.cast(0xFFFFFFFF, "uint32")
    return ops.bitwise_and(number, lowest_bits)


def layer_norm(x, gamma, beta, epsilon: float):
    """Normalize the last axis of x (…, H) in float32 (Ba et al. 2016, arXiv 1607.06450)."""
    wide = ops.cast(x, "float32")
    centered = wide - ops.mean(wide, -1, keepdims=True)
    variance = ops.mean(ops.square(centered), -1, keepdims=True)
    unit = centered * ops.rsqrt(variance + epsilon)
    gamma = ops.cast(gamma, "float32")
    beta = ops.cast(beta, "float32")
    y = unit * gamma + beta
    return ops.cast(y, x.dtype)


def embedding_lookup(table, ids):
    """Return the rows (B, S, H) of table (T, H) for int ids (B, S)."""
    return ops.take(table, ids, axis=0)


def embedding_lookup_and_table(table, ids, dtype: str):
    """Return `embedding_lookup` and the table, in a dtype: a backend can add their gradients up."""
    embeddings = embedding_lookup(table, ids)
    return ops.cast(embeddings, dtype), ops.cast(table, dtype)


def tied_logits(x, table, bias):
    """Compute logits (B, M, T) of x (B, M, H), table (T, H) and bias (T,)."""
    products = ops.matmul(x, ops.transpose(table))
    return products + ops.cast(bias, x.dtype)


def gather_positions(x, positions):
    """Return (B, M, H): x (B, S, H) at int positions (B, M)."""
    indices = ops.expand_dims(positions, -1)
    return ops.take_along_axis(x, indices, axis=1)


def cross_entropy(logits, labels, weights):
    """Sum the softmax cross-entropy over labels.

    Args:
        logits: float (…, classes).
        labels: int32 (…), class ids.
        weights: float32 (…), of each label; where it is 0 the logits may be anything, NaN too.

    Returns:
        float32 (3,): Σ weight × loss, Σ weight × (the label has the largest logit), Σ weight.
    """
    counts = ops.expand_dims(weights > 0, -1)
    wide = ops.cast(logits, "float32")
    wide = ops.where(counts, wide, 0.0)
    labels = ops.where(weights > 0, labels, 0)

    indices = ops.expand_dims(labels, -1)
    label_logits = ops.take_along_axis(wide, indices, axis=-1)
    label_logits = ops.squeeze(label_logits, -1)
    losses = ops.logsumexp(wide, axis=-1) - label_logits
    predicted = ops.cast(ops.argmax(wide, -1), "int32")
    hits = ops.cast(ops.equal(predicted, labels), "float32")
    values = (losses, hits, ops.ones_like(losses))
    return ops.stack([ops.sum(weights * value) for value in values])
