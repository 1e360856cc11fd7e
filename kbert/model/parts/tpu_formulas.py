"""Formulas of `elementwise` as XLA's compiler for TPU likes them.

Each pass over the logits or the feed-forward's inner vectors counts there, since what is between
the products costs what memory costs.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def activated(x, bias, activation: Callable):
    """`elementwise.activated`; its slope is kept for the backward pass, instead of its input."""
    return _forward(x, bias, activation)[0]


def _forward(x, bias, activation):
    total = x.astype("float32") + bias
    value, slope = jax.jvp(activation, (total,), (jnp.ones_like(total),))
    # made where the product leaves its sums, not again in each product that reads them
    return jax.lax.optimization_barrier((value.astype(x.dtype), slope.astype(x.dtype)))


def _backward(activation, slope, gradient):
    of_x = gradient.astype("float32") * slope.astype("float32")
    return jax.lax.optimization_barrier(of_x.astype(slope.dtype)), jnp.sum(of_x, (0, 1))


activated.defvjp(_forward, _backward)


def measured(logits, labels, weights):
    """`elementwise.measured`; a hit has no equal logit before it, a sum beside that of the loss."""
    wide = jnp.where((weights > 0)[..., None], logits.astype("float32"), 0.0)
    classes, labels = jnp.arange(wide.shape[-1], dtype="int32"), labels[..., None]
    largest = jax.lax.stop_gradient(jnp.max(wide, -1, keepdims=True))
    total = jnp.log(jnp.sum(jnp.exp(wide - largest), -1)) + largest[..., 0]
    own = jnp.sum(jnp.where(classes == labels, wide, 0.0), -1)
    before = jnp.sum(jnp.where((classes < labels) & (wide == largest), 1.0, 0.0), -1)
    hits = ((own == largest[..., 0]) & (before == 0)).astype("float32")
    sums = weights * (total - own), weights * hits, weights
    return jnp.stack([jnp.sum(one) for one in sums])
