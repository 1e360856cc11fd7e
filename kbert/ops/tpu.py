"""JAX's versions of `kbert.ops.reference` for TPUs, chosen by the estimates of XLA's compiler.

XLA lays out heads and fuses elementwise operations with the products beside them. What is written
here keeps it from computing a large tensor twice, or from holding up a product for a sum.

Dimensions as in `kbert.ops.reference`.
"""

import functools

import jax
import jax.numpy as jnp

import kbert.ops.jax as on_cpu  # `from kbert.ops import jax` finds this module's jax
from kbert.ops import reference

linear = reference.linear
attention_probs = reference.attention_probs
bias_activation = reference.bias_activation
dense = reference.dense
dropout = reference.dropout
keep_mask = reference.keep_mask
gather_positions = reference.gather_positions
embedding_lookup = on_cpu.embedding_lookup
embedding_lookup_and_table = on_cpu.embedding_lookup_and_table


def project_heads(x, kernels, biases) -> list:
    """See `reference.project_heads`."""
    heads = []
    for kernel, bias in zip(kernels, biases, strict=True):
        y = jnp.einsum("bsh,had->bsad", x, kernel.astype(x.dtype))
        heads.append(jnp.swapaxes(_add_bias(y, bias), 1, 2))
    return heads


def tied_logits(x, table, bias):
    """See `reference.tied_logits`."""
    return _add_bias(jnp.einsum("bmh,th->bmt", x, table), bias)


def _add_bias(x, bias):
    return x if bias is None else _biased(x, jnp.asarray(bias))


@jax.custom_vjp
def _biased(x, bias):
    return (_wide(x) + _wide(bias)).astype(x.dtype)


def _biased_backward(bias, gradient):
    # A product: a sum takes several times as long, and holds up the product that it is fused to.
    # XLA does not know the eight rows of ones, or it would make a sum of the product again.
    ones = jax.lax.optimization_barrier(jnp.ones((8, *gradient.shape[:2]), gradient.dtype))
    precision = None if gradient.dtype == "bfloat16" else jax.lax.Precision.HIGHEST
    sums = jnp.einsum(
        "nbs,bs...->n...", ones, gradient, precision=precision, preferred_element_type="float32"
    )
    return gradient, sums[0].astype(bias.dtype)


_biased.defvjp(lambda x, bias: (_biased(x, bias), bias), _biased_backward)


def attention(query, key, value, mask=None, *, rate: float = 0.0, seed=None):
    """See `reference.attention`; keeps one tensor (B, A, R, S) for the gradient."""
    return _attend(query * query.shape[-1] ** -0.5, key, value, mask, seed, rate)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attend(query, key, value, mask, seed, rate):
    return _attend_forward(query, key, value, mask, seed, rate)[0]


def _attend_forward(query, key, value, mask, seed, rate):
    scores = _wide(jnp.einsum("bard,basd->bars", query, key))
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo("float32").min)
    probs = jax.nn.softmax(scores).astype(query.dtype)
    if rate:  # the sign is the dropout mask
        probs = jnp.where(keep_mask(probs.shape, rate, seed), probs, -probs)
    # without barriers XLA computes softmax and hash again in each product that reads them
    probs = jax.lax.optimization_barrier(probs)
    context = jnp.einsum("bars,basd->brad", _keep(probs, rate), value)
    context = context * jnp.asarray(1 / (1 - rate), context.dtype)
    residuals = query, key, value, probs, context
    return context.reshape(*context.shape[:2], -1), residuals


def _attend_backward(rate, residuals, gradient):
    # The sums of FlashAttention (Dao et al. 2022, arXiv 2205.14135, appendix B.2).
    query, key, value, signed, context = residuals
    gradient = gradient.reshape(context.shape)  # (B, R, A, D)
    mean = jnp.sum(_wide(gradient) * _wide(context), -1)  # (B, R, A)
    gradient = gradient * jnp.asarray(1 / (1 - rate), gradient.dtype)
    of_value = jnp.einsum("bars,brad->basd", _keep(signed, rate), gradient)
    of_probs = _wide(jnp.einsum("brad,basd->bars", gradient, value))
    if rate:
        of_probs = jnp.where(signed > 0, of_probs, 0.0)
    of_scores = jnp.abs(_wide(signed)) * (of_probs - jnp.swapaxes(mean, 1, 2)[..., None])
    of_scores = jax.lax.optimization_barrier(of_scores.astype(query.dtype))
    of_query = jnp.einsum("bars,basd->bard", of_scores, key)
    of_key = jnp.einsum("bars,bard->basd", of_scores, query)
    return of_query, of_key, of_value, None, None


_attend.defvjp(_attend_forward, _attend_backward)


def _keep(signed, rate: float):
    return jnp.maximum(signed, 0) if rate else signed


def layer_norm(x, gamma, beta, epsilon: float):
    """See `reference.layer_norm`; one pass: the variance is from sums of numbers and squares."""
    wide = _wide(x)
    mean = jnp.mean(wide, -1, keepdims=True)
    variance = jnp.mean(jnp.square(wide), -1, keepdims=True) - jnp.square(mean)
    unit = (wide - mean) * jax.lax.rsqrt(jnp.maximum(variance, 0.0) + epsilon)
    gamma, beta = (_wide(jnp.asarray(one)) for one in (gamma, beta))
    return (unit * gamma + beta).astype(x.dtype)


def cross_entropy(logits, labels, weights):
    """See `reference.cross_entropy`; a hit has no equal logit before it, a sum beside the loss's.

    No gather, no scatter.
    """
    wide = jnp.where((weights > 0)[..., None], _wide(logits), 0.0)
    classes, labels = jnp.arange(wide.shape[-1], dtype=labels.dtype), labels[..., None]
    largest = jax.lax.stop_gradient(jnp.max(wide, -1, keepdims=True))
    total = jnp.log(jnp.sum(jnp.exp(wide - largest), -1)) + largest[..., 0]
    own = jnp.sum(jnp.where(classes == labels, wide, 0.0), -1)
    before = jnp.sum(jnp.where((classes < labels) & (wide == largest), 1.0, 0.0), -1)
    hits = ((own == largest[..., 0]) & (before == 0)).astype("float32")
    return jnp.stack([jnp.sum(weights * one) for one in (total - own, hits, jnp.ones_like(own))])


def _wide(x):
    return x.astype("float32")
