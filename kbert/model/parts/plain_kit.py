"""Operations for backends without a kit of their own: Keras's."""

import functools
from collections.abc import Callable

from keras import ops

from kbert.model.parts import elementwise


def part(formula: Callable, **settings) -> Callable:
    """Return a formula of `elementwise`."""
    return functools.partial(formula, **settings)


def attended(rate: float) -> Callable:
    """Attention of query, keys, vectors (B, A, S, D), mask and seed: (B, S, H)."""
    shares_of = part(elementwise.attention_weights, rate=rate)

    def call(query, keys, vectors, mask, seed):
        shares = shares_of(matmul(query, keys, transposed=True), mask, seed)  # (B, A, S, S)
        return elementwise.merged_heads(matmul(shares, vectors))

    return call


def recomputed(function: Callable) -> Callable:
    """Return the function as it is."""
    return function


def matmul(x, y, transposed: bool = False):
    """x y, or x yᵀ."""
    return ops.matmul(x, ops.swapaxes(y, -1, -2) if transposed else y)


def vectors(table, ids):
    """Return (B, S, H) of table (T, H) and ids (B, S)."""
    return ops.take(table, ids, axis=0)


def rows_at(x, places):
    """Return (B, R, H) of x (B, S, H) and places (B, R)."""
    return ops.take_along_axis(x, ops.expand_dims(places, -1), axis=1)


def vectors_and_table(table, ids, dtype: str):
    """Return vectors of ids, and the table in a dtype."""
    return vectors(table, ids), ops.cast(table, dtype)
