"""What the fused parts are made of on JAX, which compiles the whole update as one program."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp


def part(formula: Callable, **settings) -> Callable:
    """A formula of `elementwise`; XLA fuses it."""
    return functools.partial(formula, **settings)


def matmul(x, y, transposed: bool = False):
    """x y, or x yᵀ."""
    return jnp.matmul(x, jnp.swapaxes(y, -1, -2) if transposed else y)


def vectors(table, ids):
    """(B, S, H) of table (T, H) and ids (B, S); NaN where an id is out of range."""
    return jnp.take(table, ids, axis=0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def vectors_and_table(table, ids, dtype: str):
    """Vectors of ids, and the table in a dtype; the vectors' gradient is added into the table's."""
    return vectors(table, ids), table.astype(dtype)


def _forward(table, ids, dtype):
    return vectors_and_table(table, ids, dtype), ids


def _backward(dtype, ids, gradients):
    of_vectors, of_table = gradients
    return of_table.astype(of_vectors.dtype).at[ids].add(of_vectors), None


vectors_and_table.defvjp(_forward, _backward)
