"""JAX's versions of `kbert.ops.reference`, with written gradients: XLA compiles the whole step.

XLA fuses the rest of the reference as it is, dropout's hash too. A gradient is written here only
where that of autodiff keeps more tensors, or passes over memory more often.

Dimensions as in `kbert.ops.reference`; N = B·S.
"""

import functools

import jax
import jax.numpy as jnp
from keras import ops

from kbert.ops import reference


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def attention(query, key, value, mask=None, rate: float = 0.0, seed=None):
    """See `reference.attention`; keeps one tensor (B, A, R, S) for the gradient."""
    context, _ = _attention_forward(query, key, value, mask, rate, seed)
    return context


def _attention_forward(query, key, value, mask, rate, seed):
    probs = reference.attention_probs(query, key, mask)
    if rate:  # the sign is the dropout mask
        keep = reference.keep_mask(probs.shape, rate, seed)
        probs = jnp.where(keep, probs, -probs)
    dropped_probs = _keep(probs, rate)
    context = jnp.matmul(dropped_probs, value)  # (B, A, R, D)
    context = jnp.moveaxis(context, 1, 2)
    context = context.reshape(*context.shape[:2], -1)
    residuals = (query, key, value, mask, probs)
    return context, residuals


def _attention_backward(rate, residuals, gradient):
    # The sums of FlashAttention (Dao et al. 2022, arXiv 2205.14135, appendix B.2).
    query, key, value, mask, signed = residuals
    batch, heads, length, size = query.shape
    gradient = gradient.reshape(batch, length, heads, size)
    gradient = jnp.moveaxis(gradient, 1, 2)

    dropped_probs = _keep(signed, rate)
    of_value = jnp.matmul(dropped_probs.mT, gradient)
    of_probs = _wide(jnp.matmul(gradient, value.mT))
    if rate:
        scaled = of_probs * (1 / (1 - rate))
        of_probs = jnp.where(signed > 0, scaled, 0.0)
    probs = jnp.abs(_wide(signed))
    mean = jnp.sum(of_probs * probs, -1, keepdims=True)
    of_scores = probs * (of_probs - mean)
    if mask is not None:  # a query without a key has probabilities, and no gradient
        of_scores = jnp.where(mask, of_scores, 0.0)
    of_scores = of_scores.astype(query.dtype)

    scale = size**-0.5
    of_query = jnp.matmul(of_scores, key) * scale
    of_key = jnp.matmul(of_scores.mT, query * scale)
    return of_query, of_key, of_value, None, None


attention.defvjp(_attention_forward, _attention_backward)


def _keep(signed, rate: float):
    """Return the scaled probabilities that dropout keeps."""
    if not rate:
        return signed
    positive = jnp.maximum(signed, 0)
    scale = jnp.asarray(1 / (1 - rate), signed.dtype)
    return positive * scale


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def layer_norm(x, gamma, beta, epsilon: float):
    """See `reference.layer_norm`; keeps only its input for the gradient."""
    return reference.layer_norm(x, gamma, beta, epsilon)


def _layer_norm_forward(x, gamma, beta, epsilon):
    y = reference.layer_norm(x, gamma, beta, epsilon)
    return y, (x, gamma, beta)


def _layer_norm_backward(epsilon, residuals, gradient):
    x, gamma, beta = residuals
    wide = _flatten(_wide(x))
    gradient = _flatten(_wide(gradient))
    gamma32 = _wide(gamma)

    centered = wide - jnp.mean(wide, -1, keepdims=True)
    variance = jnp.mean(jnp.square(centered), -1, keepdims=True)
    scale = jax.lax.rsqrt(variance + epsilon)
    unit = centered * scale

    product = gradient * unit
    column = gamma32[:, None] / x.shape[-1]  # (H, 1)
    of_mean = jnp.matmul(gradient, column)  # (N, 1)
    of_scale = jnp.matmul(product, column)  # (N, 1)
    of_unit = gradient * gamma32
    of_x = (of_unit - unit * of_scale - of_mean) * scale
    of_x = of_x.reshape(x.shape).astype(x.dtype)
    of_gamma = jnp.sum(product, 0)
    of_beta = jnp.sum(gradient, 0)
    return of_x, of_gamma.astype(gamma.dtype), of_beta.astype(beta.dtype)


layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


def embedding_lookup(table, ids):
    """See `reference.embedding_lookup`; of a few rows as a product: its gradient is no scatter."""
    if table.shape[0] <= 16:
        count = table.shape[0]
        chosen = jax.nn.one_hot(ids, count, dtype=table.dtype)
        return jnp.matmul(chosen, table)
    return reference.embedding_lookup(table, ids)


def embedding_lookup_and_table(table, ids, dtype: str):
    """See `reference.embedding_lookup_and_table`; one dense gradient instead of three."""
    embeddings, table = _lookup_and_table(table, ids, dtype)
    return embeddings.astype(dtype), table


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _lookup_and_table(table, ids, dtype):
    embeddings = reference.embedding_lookup(table, ids)
    return embeddings, table.astype(dtype)


def _lookup_forward(table, ids, dtype):
    return _lookup_and_table(table, ids, dtype), ids


def _lookup_backward(dtype, ids, gradients):
    lookup_gradient, table_gradient = gradients
    total = table_gradient.astype(lookup_gradient.dtype)
    return total.at[ids].add(lookup_gradient), None


_lookup_and_table.defvjp(_lookup_forward, _lookup_backward)


def tied_logits(x, table, bias):
    """See `reference.tied_logits`; without a transposed copy of the table."""
    y = jnp.einsum("bmh,th->bmt", x, table)
    return y + ops.cast(bias, y.dtype)


@jax.custom_vjp
def cross_entropy(logits, labels, weights):
    """See `reference.cross_entropy`; no gather, no scatter; keeps two numbers per label."""
    sums, _ = _cross_entropy_forward(logits, labels, weights)
    return sums


def _cross_entropy_forward(logits, labels, weights):
    wide = _mask_logits(logits, weights)
    num_classes = wide.shape[-1]
    classes = jnp.arange(num_classes, dtype=labels.dtype)
    largest = jnp.max(wide, -1, keepdims=True)
    powers = jnp.exp(wide - largest)
    total = jnp.sum(powers, -1, keepdims=True)
    is_label = classes == labels[..., None]
    logits_of_labels = jnp.where(is_label, wide, 0.0)
    label_logits = jnp.sum(logits_of_labels, -1)
    log_total = (jnp.log(total) + largest)[..., 0]
    losses = log_total - label_logits

    candidates = jnp.where(wide == largest, classes, num_classes)
    first = jnp.min(candidates, -1)  # as argmax
    hits = (first == labels).astype("float32")
    values = (losses, hits, jnp.ones_like(losses))
    sums = jnp.stack([jnp.sum(weights * value) for value in values])
    residuals = (logits, labels, weights, largest, 1 / total)
    return sums, residuals


def _cross_entropy_backward(residuals, gradient):
    logits, labels, weights, largest, inverse = residuals
    wide = _mask_logits(logits, weights)
    probs = jnp.exp(wide - largest) * inverse
    classes = jnp.arange(logits.shape[-1], dtype=labels.dtype)
    is_label = classes == labels[..., None]
    of_losses = weights * gradient[0]
    of_logits = of_losses[..., None] * (probs - is_label)
    return of_logits.astype(logits.dtype), None, None


cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)


def _mask_logits(logits, weights):
    counts = weights > 0
    return jnp.where(counts[..., None], _wide(logits), 0.0)


def _wide(x):
    return x.astype("float32")


def _flatten(x):
    """Return (…, H) as (N, H)."""
    return x.reshape(-1, x.shape[-1])
