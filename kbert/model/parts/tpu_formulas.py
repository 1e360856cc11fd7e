"""Formulas of `elementwise` as XLA's compiler for TPU likes them: each pass over memory counts."""

import functools

import jax
import jax.numpy as jnp


@jax.custom_vjp
def biased(x, bias):
    """x (B, S, …) plus bias (…), float32; the bias's gradient is a product.

    As a sum it takes several times as long, and holds up the product that it is fused to.
    """
    return x + bias


def _of_biased(of_type, gradient):
    gradient = gradient.astype(of_type.dtype)
    # eight rows that the compiler does not know, or it makes a sum of the product again
    ones = jax.lax.optimization_barrier(jnp.ones((8, *gradient.shape[:2]), gradient.dtype))
    precision = None if gradient.dtype == "bfloat16" else jax.lax.Precision.HIGHEST
    of_bias = jnp.einsum(
        "nbs,bs...->n...", ones, gradient, precision=precision, preferred_element_type="float32"
    )
    return gradient, of_bias[0]


biased.defvjp(lambda x, bias: (biased(x, bias), x[:0]), _of_biased)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def projected(x, kernel, bias, count: int):
    """x (B, S, H) times kernel (H, A, D), plus bias, as `count` parts of the batch.

    Parts of the whole product would be copied; its gradient is that of the whole.
    """
    products = [jnp.einsum("bsh,had->bsad", part, kernel) for part in jnp.split(x, count)]
    return [(product + bias).astype(x.dtype) for product in products]


def _of_projected(count, kept, gradients):
    x, kernel = kept
    gradient, of_bias = _of_biased(x, jnp.concatenate(gradients))
    of_x = jnp.einsum("bsad,had->bsh", gradient, kernel)
    return of_x, jnp.einsum("bsh,bsad->had", x, gradient), of_bias


def _projected_keeping(x, kernel, bias, count):
    return projected(x, kernel, bias, count), (x, kernel)


projected.defvjp(_projected_keeping, _of_projected)


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
