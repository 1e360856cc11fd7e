"""Attention with a gradient of its own, as XLA's compiler for TPU likes it.

What autodiff makes of softmax and dropout is fused into each of the four products of the backward
pass, and computed there again, with the bits that say what was dropped. Here one tensor of the
scores' size is kept, and one made of it. The sums are FlashAttention's (Dao et al. 2022, arXiv
2205.14135, appendix B.2), which keeps neither and computes both again.

Dimensions at line end: B batch, S sequence, A heads, D size of a head.
"""

import functools

import jax
import jax.numpy as jnp

from kbert.model.parts import elementwise


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def attended(query, keys, vectors, mask, seed, rate: float, drawn_once: bool = True):
    """Dropout(softmax(query keysᵀ)) vectors, without the dropout's factor 1 / (1 - rate).

    Args:
        query, keys, vectors: float (B, S, A, D); the query is scaled.
        mask: bool (B, 1, 1, S), or (B, 1, S, S).
        seed: see `elementwise.random_bits`.
        rate: of the dropout.
        drawn_once: whether the compiler is kept from drawing the dropout again for the product.

    Returns:
        (B, S, A, D), of their type.
    """
    return _forward(query, keys, vectors, mask, seed, rate, drawn_once)[0]


def _forward(query, keys, vectors, mask, seed, rate, drawn_once):
    scores = jnp.einsum("bsad,btad->bast", query, keys)
    shares = elementwise.probabilities(scores, mask)
    if rate:  # the sign says what is dropped: one tensor is kept, not two
        shares = jnp.where(elementwise.kept(shares, seed, rate), shares, -shares)
    if drawn_once:
        shares = jax.lax.optimization_barrier(shares)
    output = jnp.einsum("bast,btad->bsad", _left(shares, rate), vectors)
    return output, (query, keys, vectors, shares, output)


def _backward(rate, drawn_once, kept, gradient):
    query, keys, vectors, shares, output = kept
    of_vectors = jnp.einsum("bast,bsad->btad", _left(shares, rate), gradient)
    of_shares = _wide(jnp.einsum("bsad,btad->bast", gradient, vectors))
    if rate:
        of_shares = jnp.where(shares > 0, of_shares, 0.0)
    mean = jnp.sum(_wide(gradient) * _wide(output), -1)  # (B, S, A): of_shares', by the shares
    mean = jnp.swapaxes(mean, 1, 2)[..., None]
    of_scores = (jnp.abs(_wide(shares)) * (of_shares - mean)).astype(shares.dtype)
    of_scores = jax.lax.optimization_barrier(of_scores)
    of_query = jnp.einsum("bast,btad->bsad", of_scores, keys)
    of_keys = jnp.einsum("bast,bsad->btad", of_scores, query)
    return of_query, of_keys, of_vectors, None, None


attended.defvjp(_forward, _backward)


def _left(shares, rate: float):
    """What dropout left of them."""
    return jnp.maximum(shares, 0) if rate else shares


def _wide(x):
    return x.astype("float32")
