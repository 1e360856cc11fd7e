"""Logits to probabilities, in NumPy."""

import numpy as np


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in float32; −inf becomes 0."""
    logits = logits.astype("float32")
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """1 / (1 + e^−x) in float32, without overflow."""
    return (0.5 * (1 + np.tanh(0.5 * logits.astype("float32")))).astype("float32")
