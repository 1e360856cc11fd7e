"""TensorFlow's versions of `kbert.ops.reference`: its own operations, with written gradients.

Each operation is one module-level `tf.function`: TensorFlow registers a custom gradient for each
trace, for good, so an operation is traced once per shape and dtype, not once per model. Nothing is
compiled, so batches of any length cost nothing. Biases are added by the operations that
TensorFlow's remapper fuses with the product before them.

Dimensions as in `kbert.ops.reference`; N = B·S.
"""

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from kbert.ops import device_kind, keras_internals
from kbert.ops.activations import gelu, gelu_tanh

_is_forward_only: contextvars.ContextVar = contextvars.ContextVar("forward_only", default=False)

# Compiled also where the step is not: the operation is XLA's alone.
hide_from_xla = tf.function(keras_internals.hide_from_xla, autograph=False, jit_compile=True)


def traced(formula: Callable) -> Callable:
    """Return a function of tensors or variables, traced once per shape, dtype and options."""

    @functools.cache
    def make_function(**options):
        with_gradient = tf.custom_gradient(lambda *tensors: formula(*tensors, **options))
        return tf.function(with_gradient, autograph=False)

    def call(*arguments, **options):
        tensors = [tf.convert_to_tensor(argument) for argument in arguments]
        return make_function(**options)(*tensors)

    return call


def linear(x, kernel, bias=None, transpose: bool = False):
    """See `reference.linear`; one product of all rows."""
    kernel = tf.cast(kernel, x.dtype)
    y = tf.matmul(_flatten(x), kernel, transpose_b=transpose)
    if bias is not None:
        y = tf.nn.bias_add(y, tf.cast(bias, y.dtype))
    shape = [*shape_of(x)[:-1], y.shape[-1]]
    return tf.reshape(y, shape)


def project_heads(x, kernels: Sequence, biases: Sequence) -> list:
    """See `reference.project_heads`; one product of all kernels side by side."""
    width, heads, size = kernels[0].shape
    count = len(kernels)
    flat_kernels = [tf.reshape(kernel, [width, -1]) for kernel in kernels]
    kernel = tf.concat(flat_kernels, 1)
    bias = None
    if biases[0] is not None:
        flat_biases = [tf.reshape(bias, [-1]) for bias in biases]
        bias = tf.concat(flat_biases, 0)

    batch, length, _ = shape_of(x)
    y = linear(x, kernel, bias)
    y = tf.reshape(y, [batch, length, count, heads, size])
    y = tf.transpose(y, [2, 0, 3, 1, 4])
    return tf.unstack(y)


def attention(query, key, value, mask=None, rate: float = 0.0, seed=None):
    """See `reference.attention`; keeps the probabilities and a boolean mask for the gradient."""
    scale = tf.constant(query.shape[-1] ** -0.5, query.dtype)
    if mask is None:
        mask = tf.ones([1, 1, 1, 1], "bool")
    else:  # a query without a key becomes 0: equal probabilities, and no gradient
        has_key = tf.reduce_any(mask, -1, keepdims=True)
        scale = _where(has_key, scale)
    query = query * scale

    if rate:
        seed = tf.cast(seed, tf.int32)
        context = _attend(query, key, value, mask, seed, rate=rate)
    else:
        probs = compute_probs(query, key, mask)
        context = tf.matmul(probs, value)

    batch, heads, length, size = shape_of(context)
    context = tf.transpose(context, [0, 2, 1, 3])
    return tf.reshape(context, [batch, length, heads * size])


def compute_probs(query, key, mask):
    scores = tf.matmul(query, key, transpose_b=True)
    # Half of the lowest number: a masked score is finite in every dtype.
    zero = tf.zeros((), scores.dtype)
    bias = tf.where(mask, zero, scores.dtype.min / 2)
    return tf.nn.softmax(scores + bias)


@traced
def _attend(query, key, value, mask, seed, rate: float):
    probs = compute_probs(query, key, mask)
    keep, scale = _keep_mask(probs, rate, seed)
    dropped_probs = _where(keep, probs)
    context = tf.matmul(dropped_probs, value)  # (B, A, R, D)
    context = context * tf.cast(scale, value.dtype)

    def grad(gradient):
        scaled = gradient * tf.cast(scale, gradient.dtype)
        of_value = tf.matmul(dropped_probs, scaled, transpose_a=True)
        of_dropped = tf.matmul(scaled, value, transpose_b=True)
        of_probs = _where(keep, of_dropped)
        products = of_probs * probs
        mean = tf.reduce_sum(products, -1, keepdims=True)
        of_scores = (of_probs - mean) * probs
        of_query = tf.matmul(of_scores, key)
        of_key = tf.matmul(of_scores, query, transpose_a=True)
        return of_query, of_key, of_value, None, None

    return context, grad


def bias_activation(x, bias, activation: Callable):
    biased = tf.nn.bias_add(x, tf.cast(bias, x.dtype))
    if activation is gelu:
        return _gelu(biased)
    if activation is gelu_tanh:
        return tf.nn.gelu(biased, approximate=True)
    return activation(biased)


def dense(x, kernel, bias, activation: Callable):
    """See `reference.dense`; written so that TensorFlow makes one oneDNN operation of it."""
    product = tf.matmul(_flatten(x), tf.cast(kernel, x.dtype))
    y = tf.nn.bias_add(product, tf.cast(bias, x.dtype))
    if activation is gelu:
        scaled = y * tf.constant(0.5**0.5, y.dtype)
        erf = tf.math.erf(scaled)
        half = y * tf.constant(0.5, y.dtype)
        y = half * (erf + tf.constant(1, y.dtype))
    elif activation is gelu_tanh:
        y = tf.nn.gelu(y, approximate=True)
    else:
        y = activation(y)
    shape = [*shape_of(x)[:-1], kernel.shape[-1]]
    return tf.reshape(y, shape)


@traced
def _gelu(x):
    wide = tf.cast(x, tf.float32)
    scaled = wide * 0.5**0.5
    cdf = tf.math.erf(scaled) * 0.5 + 0.5  # Φ(x); erfc takes twice as long

    def grad(gradient):
        density = tf.exp(-tf.square(scaled)) * scaled * math.pi**-0.5  # x φ(x)
        return gradient * tf.cast(cdf + density, gradient.dtype)

    return tf.cast(wide * cdf, x.dtype), grad


def dropout(x, rate: float, seed):
    """See `reference.dropout`; 16 bits per number: the rate is a multiple of 2⁻¹⁶, below 1."""
    if not rate:
        return x
    seed = tf.cast(seed, tf.int32)
    return _drop(x, seed, rate=rate)


@traced
def _drop(x, seed, rate: float):
    keep, scale = _keep_mask(x, rate, seed)

    def apply(x):
        scaled = x * tf.cast(scale, x.dtype)
        return _where(keep, scaled)

    def grad(gradient):
        return apply(gradient), None

    return apply(x), grad


def _keep_mask(x, rate: float, seed) -> tuple:
    """Return bool of the shape of x, and the scale of the exact rate that 16 bits give."""
    shape = tf.shape(x)
    count = tf.reduce_prod(shape)
    num_integers = -(-count // 4)  # 64 bits each, for four numbers of x
    integers = tf.random.stateless_uniform(
        [num_integers], seed, minval=None, maxval=None, dtype=tf.uint64
    )
    bits = tf.reshape(tf.bitcast(integers, tf.int16), [-1])
    bits = bits[:count]  # −2¹⁵ … 2¹⁵ − 1

    dropped = min(round(rate * 2**16), 2**16 - 1)
    threshold = tf.constant(dropped - 2**15, tf.int16)
    keep = tf.reshape(bits, shape) >= threshold
    scale = 2**16 / (2**16 - dropped)
    return keep, scale


def _where(keep, x):
    return tf.where(keep, x, tf.zeros((), x.dtype))


@contextlib.contextmanager
def forward_only() -> Iterator[None]:
    """Trace functions within for the fastest forward pass on this machine: none is exported."""
    token = _is_forward_only.set(True)
    try:
        yield
    finally:
        _is_forward_only.reset(token)


def layer_norm(x, gamma, beta, epsilon: float):
    dtype_fits = x.dtype in (tf.float32, tf.bfloat16)
    can_fuse = dtype_fits and device_kind() == "cpu" and keras_internals.has_onednn()
    if _is_forward_only.get() and can_fuse:
        return _normalize_at_once(x, gamma, beta, epsilon)
    return _normalize(x, gamma, beta, epsilon=epsilon)


def _normalize_at_once(x, gamma, beta, epsilon: float):
    """See `reference.layer_norm`; written so that TensorFlow makes one oneDNN operation of it.

    What it looks for is the layer of Keras 2: batch normalization, in which each row is a channel.
    """
    flat = _flatten(x)
    rows = tf.shape(flat)[0]
    channels = tf.reshape(flat, [1, rows, x.shape[-1], 1])
    unit, *_ = tf.raw_ops.FusedBatchNormV3(
        x=channels,
        scale=tf.fill([rows], 1.0),
        offset=tf.fill([rows], 0.0),
        mean=tf.zeros([0]),
        variance=tf.zeros([0]),
        epsilon=epsilon,
        data_format="NCHW",
        is_training=True,
    )
    unit = tf.reshape(unit, tf.shape(flat))
    y = unit * tf.cast(gamma, x.dtype) + tf.cast(beta, x.dtype)
    return tf.reshape(y, tf.shape(x))


@traced
def _normalize(x, gamma, beta, epsilon: float):
    wide = tf.cast(_flatten(x), tf.float32)
    mean = tf.reduce_mean(wide, -1, keepdims=True)
    centered = wide - mean
    squares = tf.square(centered)
    variance = tf.reduce_mean(squares, -1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)  # (N, 1)
    unit = centered * scale
    gamma32 = tf.cast(gamma, tf.float32)

    def grad(gradient):
        gradient = tf.cast(_flatten(gradient), tf.float32)
        product = gradient * unit
        column = gamma32[:, None] / x.shape[-1]  # (H, 1)
        of_mean = tf.matmul(gradient, column)  # (N, 1)
        of_scale = tf.matmul(product, column)  # (N, 1)
        of_unit = gradient * gamma32
        of_x = (of_unit - (unit * of_scale + of_mean)) * scale
        of_x = tf.cast(of_x, x.dtype)
        of_x = tf.reshape(of_x, tf.shape(x))

        of_gamma = tf.raw_ops.BiasAddGrad(out_backprop=product)
        of_beta = tf.raw_ops.BiasAddGrad(out_backprop=gradient)
        of_gamma = tf.cast(of_gamma, gamma.dtype)
        of_beta = tf.cast(of_beta, gamma.dtype)
        return of_x, of_gamma, of_beta

    y = unit * gamma32 + tf.cast(beta, tf.float32)
    y = tf.cast(y, x.dtype)
    return tf.reshape(y, tf.shape(x)), grad


def embedding_lookup(table, ids):
    """See `reference.embedding_lookup`; the gradient of a few rows is a product, no scatter."""
    if table.shape[0] <= 16:
        return _lookup_in_few(table, ids)
    return tf.gather(table, ids)


@traced
def _lookup_in_few(table, ids):
    def grad(lookup_gradient):
        flat_ids = tf.reshape(ids, [-1])
        count = table.shape[0]
        chosen = tf.one_hot(flat_ids, count, dtype=lookup_gradient.dtype)
        of_table = tf.matmul(chosen, _flatten(lookup_gradient), transpose_a=True)
        return of_table, None

    return tf.gather(table, ids), grad


def embedding_lookup_and_table(table, ids, dtype: str):
    """See `reference.embedding_lookup_and_table`; one dense gradient instead of three.

    The casts are left to TensorFlow, which drops that of a table that no head asks for.
    """
    embeddings, whole = _lookup_and_table(table, ids)
    return tf.cast(embeddings, dtype), tf.cast(whole, dtype)


@traced
def _lookup_and_table(table, ids):
    def grad(lookup_gradient, table_gradient):
        indices = tf.reshape(ids, [-1, 1])
        # tf.raw_ops.InplaceAdd saves a copy, 15 ms of a step of base; XLA does not have it.
        updates = _flatten(lookup_gradient)
        total = tf.tensor_scatter_nd_add(table_gradient, indices, updates)
        return total, None

    return (tf.gather(table, ids), tf.identity(table)), grad


def tied_logits(x, table, bias):
    """See `reference.tied_logits`; without a transposed copy of the table."""
    return linear(x, table, bias, transpose=True)


def gather_positions(x, positions):
    return tf.gather(x, positions, batch_dims=1)


def cross_entropy(logits, labels, weights):
    counts = weights > 0
    wide = tf.cast(logits, tf.float32)
    wide = tf.where(counts[..., None], wide, 0.0)
    labels = tf.where(counts, labels, 0)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, wide)
    predicted = tf.argmax(wide, -1, labels.dtype)
    hits = tf.cast(predicted == labels, tf.float32)
    values = (losses, hits, 1.0)
    return tf.stack([tf.reduce_sum(weights * value) for value in values])


def _flatten(x):
    """Return (…, H) as (N, H)."""
    return tf.reshape(x, [-1, x.shape[-1]])


def shape_of(x) -> list:
    """Return each size, an int where it is known."""
    shape = list(x.shape)
    sizes = tf.shape(x)
    for axis, known in enumerate(shape):
        if known is None:
            shape[axis] = sizes[axis]
    return shape
