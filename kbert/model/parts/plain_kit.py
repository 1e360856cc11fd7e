"""What the fused parts are made of where a backend has no kit of its own: Keras's operations."""

import functools
from collections.abc import Callable

from keras import ops


def part(formula: Callable, **settings) -> Callable:
    """A formula of `elementwise`."""
    return functools.partial(formula, **settings)


def matmul(x, y, transposed: bool = False):
    """x y, or x yᵀ."""
    return ops.matmul(x, ops.swapaxes(y, -1, -2) if transposed else y)


def vectors(table, ids):
    """(B, S, H) of table (T, H) and ids (B, S)."""
    return ops.take(table, ids, axis=0)


def vectors_and_table(table, ids, dtype: str):
    """Vectors of ids, and the table in a dtype."""
    return vectors(table, ids), ops.cast(table, dtype)
