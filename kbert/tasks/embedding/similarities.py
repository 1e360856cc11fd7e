"""Similarity of vectors, by sentence-transformers' functions."""

import numpy as np


def compare(similarity: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compare every vector with every other; a higher number means more alike.

    Args:
        similarity: one of `kbert.checkpoints.sentence_settings.SIMILARITIES`; distances are
            negative.
        a, b: float (N, D) and (M, D).

    Returns:
        float (N, M).
    """
    if similarity == "cosine":
        return np.clip(_unit(a) @ _unit(b).T, -1, 1)
    if similarity == "dot":
        return a @ b.T
    if similarity == "euclidean":
        return np.stack([-np.linalg.norm(b - row, axis=1) for row in a])
    return np.stack([-np.abs(b - row).sum(axis=1) for row in a])


def check_finite(vectors: np.ndarray, name: str) -> None:
    """Raise a ValueError that names the rows with NaN or infinity."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=tuple(range(1, vectors.ndim))))
    if bad.size:
        rows = ", ".join(map(str, bad[:10])) + (", …" if bad.size > 10 else "")
        raise ValueError(
            f"{name} must be finite, got NaN or infinity in {bad.size} of {len(vectors)} rows, "
            f"counted from 0: {rows}"
        )


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1; zeros stay. The largest number goes first: squares overflow."""
    scaled = vectors / np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-30)
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)
