"""Attention weights, and queries and keys, as the bytes that the page holds.

Numbers are little-endian, arrays in C order.
"""

import numpy as np

WEIGHT_STEPS = 65_535  # a weight w is round(w · 65,535), 16 bits: off by 1/131,070 at most
THUMBNAIL_STEPS = 255  # a weight w is round(√w · 255): small ones differ as well
VECTOR_STEPS = 127  # a number x is round(x / scale), 8 bits; its vector's largest is ±127
LARGEST = 16  # weights of a row
SIDE = 64  # of a thumbnail, in pixels


def weight_bytes(weights: np.ndarray) -> bytes:
    """Return weights, from 0 to 1, as uint16 of the same shape."""
    steps = np.rint(np.asarray(weights, "float64") * WEIGHT_STEPS)
    return np.clip(steps, 0, WEIGHT_STEPS).astype("<u2").tobytes()


def largest(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest weights of each row, the largest first.

    Args:
        weights: float (L, A, S, S).

    Returns:
        (columns, weights): int and float (L, A, S, k), k = `LARGEST`, or S where that is less.
    """
    count = min(LARGEST, weights.shape[-1])
    columns = np.empty((*weights.shape[:-1], count), "int64")
    for place in np.ndindex(weights.shape[:2]):  # head by head: the places take twice the memory
        some = np.argpartition(-weights[place], count - 1, axis=-1)[:, :count]
        order = np.argsort(-np.take_along_axis(weights[place], some, -1), axis=-1, kind="stable")
        columns[place] = np.take_along_axis(some, order, -1)
    return columns, np.take_along_axis(weights, columns, -1)


def column_bytes(columns: np.ndarray) -> bytes:
    """Return places of tokens as uint16."""
    return columns.astype("<u2").tobytes()


def thumbnail_bytes(weights: np.ndarray, left_out: tuple[int, ...] = ()) -> bytes:
    """Return each head's weights on `SIDE` × `SIDE` pixels, a byte each: the largest of its block.

    Args:
        weights: float (L, A, S, S).
        left_out: tokens whose rows and columns count as 0.

    Returns:
        The bytes of (L, A, k, k), k = `SIDE`, or S where that is less. Pixel n is of the tokens
        from n · S // k up to, not including, (n + 1) · S // k.
    """
    size = weights.shape[-1]
    side = min(SIDE, size)
    edges = np.arange(side) * size // side
    found = np.empty((*weights.shape[:2], side, side))
    for place in np.ndindex(weights.shape[:2]):
        one = weights[place].copy()
        one[list(left_out)] = one[:, list(left_out)] = 0
        found[place] = np.maximum.reduceat(np.maximum.reduceat(one, edges, 0), edges, 1)
    steps = np.rint(np.sqrt(found) * THUMBNAIL_STEPS)
    return np.clip(steps, 0, THUMBNAIL_STEPS).astype("u1").tobytes()


def vector_bytes(vectors: np.ndarray) -> tuple[bytes, bytes]:
    """Vectors, float (…, D), as int8, and each one's scale, float32 (…): off by half of it."""
    scales = (np.abs(vectors).max(-1) / VECTOR_STEPS).astype("<f4")
    steps = np.divide(
        vectors, scales[..., None], out=np.zeros_like(vectors), where=scales[..., None] > 0
    )
    return np.rint(steps).astype("i1").tobytes(), scales.tobytes()
