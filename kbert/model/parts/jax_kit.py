"""Fused operations for JAX, which compiles the whole training step as one program."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import keras

from kbert.model.parts.attention import Attention
from kbert.model.parts.written_gradients import WRITTEN

ops = keras.ops


@functools.cache
def part(formula: Callable, **settings) -> Callable:
    """Return a formula of `elementwise`; XLA fuses it."""
    if formula not in WRITTEN:
        return functools.partial(formula, **settings)
    written = WRITTEN[formula]
    forward, backward = (
        functools.partial(one, **settings) for one in (written.forward, written.backward)
    )

    @jax.custom_vjp
    def call(*arguments):
        return forward(*arguments)[0]

    def keeping(*arguments):
        results, made = forward(*arguments)
        return results, [*(arguments[place] for place in written.needs), *made]

    def gradient(kept, gradients):
        return tuple(backward(kept, gradients if isinstance(gradients, list) else [gradients]))

    call.defvjp(keeping, gradient)
    return call


@functools.cache
def attended(rate: float) -> Callable:
    """`attention.Attention` as a function with a gradient."""
    attention = Attention(rate, functools.partial, _matmul_of_transposed)

    @jax.custom_vjp
    def call(*arguments):
        return attention.forward(*arguments)[0]

    call.defvjp(attention.forward, attention.backward)
    return call


def _matmul_of_transposed(x, y, transpose_x: bool, transpose_y: bool):
    x, y = (
        jnp.swapaxes(one, -1, -2) if flag else one
        for one, flag in ((x, transpose_x), (y, transpose_y))
    )
    return jnp.matmul(x, y)


def recomputed(function: Callable) -> Callable:
    """Return the function as it is; on a CPU XLA computes again early, and keeps as much."""
    return function


def matmul(x, y, transposed: bool = False):
    """x y, or x yᵀ."""
    return jnp.matmul(x, jnp.swapaxes(y, -1, -2) if transposed else y)


def vectors(table, ids):
    """Return (B, S, H) of table (T, H) and ids (B, S); NaN where an id is out of range."""
    return jnp.take(table, ids, axis=0)


def rows_at(x, places):
    """Return (B, R, H) of x (B, S, H) and places (B, R); NaN where a place is out of range."""
    return jnp.take_along_axis(x, places[..., None], axis=1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def vectors_and_table(table, ids, dtype: str):
    """Return vectors of ids, and the table in a dtype.

    The vectors' gradient is added into the table's.
    """
    return vectors(table, ids), table.astype(dtype)


def _forward(table, ids, dtype):
    return vectors_and_table(table, ids, dtype), ids


def _backward(dtype, ids, gradients):
    of_vectors, of_table = gradients
    return of_table.astype(of_vectors.dtype).at[ids].add(of_vectors), None


vectors_and_table.defvjp(_forward, _backward)
