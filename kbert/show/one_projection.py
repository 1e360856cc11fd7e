"""Document 000's question: one W_Q is as many matrices as there are heads, side by side."""

import os
from dataclasses import dataclass

import numpy as np

from kbert.graph.config import BertConfig, require_positive
from kbert.graph.presets import get_config

MATRICES = ("query", "key", "value")


@dataclass(frozen=True)
class HeadsReport:
    """What `compare_heads` found on a real attention layer.

    Attributes:
        config: whose layer.
        slices: (head, first column, last column) of each head's part of W_Q, counted from 1 and 0.
        differences: by name, the largest absolute difference of the two computations.
    """

    config: BertConfig
    slices: tuple[tuple[int, int, int], ...]
    differences: dict[str, float]

    def __repr__(self) -> str:
        hidden, size = self.config.hidden_size, self.config.head_size
        return (
            f"HeadsReport(W_Q of {hidden} × {hidden} is {len(self.slices)} of {hidden} × {size}, "
            f"largest difference {max(self.differences.values()):.1e})"
        )


def compare_heads(
    config: BertConfig | str | os.PathLike = "base", *, length: int = 7
) -> HeadsReport:
    """Computes one attention layer twice: with whole matrices, and head by head.

    Args:
        config: a `BertConfig`, a preset's name or a path to a JSON file.
        length: tokens of the random input (1, length, H).

    Returns:
        A `HeadsReport`: for W_Q, W_K, W_V the difference of X·W and [X·W_1 … X·W_A]; for the
        layer, that of Keras's output and Σ head_i · W_O,i + b, in float32.
    """
    from kbert.model.layers import MultiHeadAttention

    config = get_config(config)
    length = require_positive("length", length)
    heads, size = config.num_attention_heads, config.head_size
    layer = MultiHeadAttention(heads, size)
    x = np.random.default_rng(0).standard_normal((1, length, config.hidden_size), "float32")
    output = _array(layer(x))[0]
    x = x[0]
    differences, projected = {}, {}
    for name in MATRICES:
        kernel = _array(getattr(layer, f"{name}_dense").kernel)  # (H, A, D)
        whole = x @ kernel.reshape(config.hidden_size, heads * size)  # (S, H)
        by_head = [x @ kernel[:, head] for head in range(heads)]  # A times (S, D)
        projected[name] = by_head
        differences[f"W_{name[0].upper()}"] = _gap(whole, np.concatenate(by_head, axis=-1))
    output_kernel = _array(layer.output_dense.kernel)  # (A, D, H)
    summed = sum(
        _attend(*(projected[name][head] for name in MATRICES)) @ output_kernel[head]
        for head in range(heads)
    )
    differences["layer"] = _gap(output, summed)  # a new layer's biases are 0
    slices = tuple((head + 1, head * size, (head + 1) * size - 1) for head in range(heads))
    return HeadsReport(config, slices, differences)


def _attend(query, key, value):
    """Attention(Q, K, V) of one head (Vaswani et al. 2017, arXiv 1706.03762, equation 1)."""
    scores = query @ key.T / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value


def _array(tensor) -> np.ndarray:
    import keras

    return keras.ops.convert_to_numpy(tensor)


def _gap(a, b) -> float:
    return float(np.abs(a - b).max())
