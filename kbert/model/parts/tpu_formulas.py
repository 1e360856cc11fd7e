"""Formulas of `elementwise` as XLA's compiler for TPU likes them: each pass over memory counts."""

import jax
import jax.numpy as jnp


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
