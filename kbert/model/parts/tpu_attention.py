"""Attention with its own gradient, in a form that XLA's compiler for TPU compiles well.

What autodiff makes of softmax and dropout is fused into each of the four products of the backward
pass, and computed there again, with the bits that say what was dropped. Here one tensor of the
scores' size is kept, and one made of it. The sums are FlashAttention's (Dao et al. 2022, arXiv
2205.14135, appendix B.2), which keeps neither and computes both again.

Long sequences are taken some at a time, one portion after the other: the scores of a portion stay
in the chip's own memory from one product to the next.

Dimensions at line end: B batch, S sequence, A heads, D size of a head.
"""

import functools

import jax
import jax.numpy as jnp

from kbert.model.parts import elementwise

PORTION = 2**25  # bytes of scores, of the 128 MiB of a v5e's VMEM


def portions(batch: int, length: int, heads: int, itemsize: int) -> int:
    """Return how many portions a batch is taken in, each of as many sequences.

    Args:
        batch, length: sequences of a chip, and their tokens.
        heads: attention heads.
        itemsize: bytes of a score.
    """
    size = heads * length**2 * itemsize
    fitting = [n for n in range(1, batch + 1) if batch % n == 0 and n * size <= PORTION]
    return batch // max(fitting, default=1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def attended(query, keys, vectors, mask, seed, rate: float, drawn_once: bool = True):
    """Dropout(softmax(query keysᵀ)) vectors, without the dropout's factor 1 / (1 - rate).

    Args:
        query, keys, vectors: lists of float (B/n, S, A, D), the n `portions` of a batch; the query
            is scaled.
        mask: bool (B, 1, 1, S), or (B, 1, S, S).
        seed: see `elementwise.random_bits`.
        rate: of the dropout.
        drawn_once: whether the compiler is kept from drawing the dropout again for the product.

    Returns:
        (B, S, A, D), of their type.
    """
    return _forward(query, keys, vectors, mask, seed, rate, drawn_once)[0]


def _forward(query, keys, vectors, mask, seed, rate, drawn_once):
    count = len(query)

    def of(number, query, keys, vectors, mask):
        own = _seed_of(seed, number, count)
        return _portion_forward(query, keys, vectors, mask, own, rate, drawn_once)

    found = _one_by_one(of, query, keys, vectors, jnp.split(mask, count))
    outputs, kept = zip(*found, strict=True)
    output = jnp.concatenate(outputs)
    return output, (kept, output)


def _backward(rate, drawn_once, kept, gradient):
    by_portion, output = kept
    mean = jnp.sum(_wide(gradient) * _wide(output), -1)  # (B, S, A): of_shares', by the shares
    count = len(by_portion)

    def of(number, gradient, mean):
        return _portion_backward(rate, by_portion[number], gradient, mean)

    found = _one_by_one(of, jnp.split(gradient, count), jnp.split(mean, count))
    return *map(list, zip(*found, strict=True)), None, None


attended.defvjp(_forward, _backward)


def _one_by_one(function, *arrays: list) -> list:
    """Apply a function to each portion's number and arrays, one after the other."""
    found: list = []
    for number, portion in enumerate(zip(*arrays, strict=True)):
        if found:
            portion, found[-1] = jax.lax.optimization_barrier((portion, found[-1]))
        found.append(function(number, *portion))
    return found


def _seed_of(seed, number: int, count: int):
    """Return a portion's: its places are those of the whole batch.

    See `elementwise.random_bits`.
    """
    if count == 1:
        return seed
    part = seed[2] * count if len(seed) == 3 else 0
    return jnp.stack([seed[0], seed[1], part + number])


def _portion_forward(query, keys, vectors, mask, seed, rate, drawn_once):
    scores = jnp.einsum("bsad,btad->bast", query, keys)
    shares = elementwise.signed_shares(scores, mask, seed, rate=rate)
    if drawn_once:
        shares = jax.lax.optimization_barrier(shares)
    output = jnp.einsum("bast,btad->bsad", _left(shares, rate), vectors)
    return output, (query, keys, vectors, shares)


def _portion_backward(rate, kept, gradient, mean):
    query, keys, vectors, shares = kept
    of_vectors = jnp.einsum("bast,bsad->btad", _left(shares, rate), gradient)
    of_shares = _wide(jnp.einsum("bsad,btad->bast", gradient, vectors))
    if rate:
        of_shares = jnp.where(shares > 0, of_shares, 0.0)
    mean = jnp.swapaxes(mean, 1, 2)[..., None]
    of_scores = (jnp.abs(_wide(shares)) * (of_shares - mean)).astype(shares.dtype)
    of_scores = jax.lax.optimization_barrier(of_scores)
    of_query = jnp.einsum("bast,btad->bsad", of_scores, keys)
    of_keys = jnp.einsum("bast,bsad->btad", of_scores, query)
    return of_query, of_keys, of_vectors


def _left(shares, rate: float):
    """Return the probabilities after dropout."""
    return jnp.maximum(shares, 0) if rate else shares


def _wide(x):
    return x.astype("float32")
