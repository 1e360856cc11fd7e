"""Similarity of embeddings, by sentence-transformers' functions."""

import numpy as np


def compare(similarity: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compare embeddings (N, D) with embeddings (M, D): float (N, M); higher means more similar.

    `similarity` is one of `kbert.checkpoints.sentence_settings.SIMILARITIES`; distances are
    negative.
    """
    if similarity == "cosine":
        return np.clip(_normalize(a) @ _normalize(b).T, -1, 1)
    if similarity == "dot":
        return a @ b.T
    if similarity == "euclidean":
        return np.stack([-np.linalg.norm(b - row, axis=1) for row in a])
    return np.stack([-np.abs(b - row).sum(axis=1) for row in a])


def check_finite(embeddings: np.ndarray, name: str) -> None:
    """Raise a ValueError that names the rows with NaN or infinity."""
    bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=tuple(range(1, embeddings.ndim))))
    if bad.size:
        listed = ", ".join(map(str, bad[:10])) + (", …" if bad.size > 10 else "")
        raise ValueError(
            f"{name} must be finite, got NaN or infinity in {bad.size} of {len(embeddings)} rows, "
            f"counted from 0: {listed}"
        )


def _normalize(embeddings: np.ndarray) -> np.ndarray:
    """Scale embeddings to length 1, by the largest number first: squares overflow; zeros stay."""
    scaled = embeddings / np.maximum(np.abs(embeddings).max(axis=1, keepdims=True), 1e-30)
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)
