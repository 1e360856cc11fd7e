"""Comparison of the two views of W_Q: one matrix, or one matrix per head, side by side."""

import os
from dataclasses import dataclass

import numpy as np

from kbert.graph.aliases import answer_old_names
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.presets import get_config

MATRICES = ("query", "key", "value")


@dataclass(frozen=True)
class HeadsReport:
    """The result of `compare_heads` for one attention layer.

    Attributes:
        config: the configuration of the layer.
        built: whether the layer is Keras's; else it is computed by NumPy.
        slices: (head, first column, last column) of each head's part of W_Q; heads are counted from
            1, columns from 0.
        differences: by name, the largest absolute difference of the two computations.
    """

    config: BertConfig
    slices: tuple[tuple[int, int, int], ...]
    differences: dict[str, float]
    built: bool = True

    def __repr__(self) -> str:
        hidden, size = self.config.hidden_size, self.config.head_size
        return (
            f"HeadsReport(W_Q of {hidden} × {hidden} is {len(self.slices)} of {hidden} × {size}, "
            f"largest difference {max(self.differences.values()):.1e})"
        )


@answer_old_names
def compare_heads(
    config: BertConfig | str | os.PathLike = "base", *, seq_len: int = 7, built: bool = True
) -> HeadsReport:
    """Compute one attention layer twice, with whole matrices and head by head, and compare.

    Args:
        config: a `BertConfig`, a preset's name or a path to a JSON file.
        seq_len: number of tokens of the random input (1, S, H).
        built: whether the whole layer is Keras's; else NumPy computes the same equations.

    Returns:
        A `HeadsReport`: for W_Q, W_K, W_V the difference of X·W and [X·W_1 … X·W_A]; for the layer,
        the difference of its output and Σ head_i · W_O,i + b, in float32.
    """
    config = get_config(config)
    seq_len = require_positive("seq_len", seq_len)
    heads = config.num_attention_heads
    size = config.head_size
    rng = np.random.default_rng(0)
    x = rng.standard_normal((seq_len, config.hidden_size), "float32")
    compute = _compute_with_keras if built else _compute_with_numpy
    kernels, output_kernel, output = compute(x, heads, size)

    differences = {}
    projected = []  # by query, key and value: A times (S, D)
    for name, kernel in zip(MATRICES, kernels, strict=True):  # (H, A, D)
        matrix = kernel.reshape(config.hidden_size, heads * size)
        by_head = [x @ kernel[:, head] for head in range(heads)]
        joined = np.concatenate(by_head, -1)  # (S, H)
        initial = name[0].upper()
        differences[f"W_{initial}"] = _find_largest_difference(x @ matrix, joined)
        projected.append(by_head)

    summed = np.zeros_like(output)  # a new layer's biases are 0
    for head, (query, key, value) in enumerate(zip(*projected, strict=True)):
        context = _attend(query, key, value)
        summed = summed + context @ output_kernel[head]
    differences["layer"] = _find_largest_difference(output, summed)

    slices = []
    for head in range(heads):
        first = head * size
        last = first + size - 1
        slices.append((head + 1, first, last))
    return HeadsReport(config, tuple(slices), differences, built)


def _find_largest_difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


def _compute_with_keras(x, heads: int, size: int):
    """Return a new layer's query, key, value and output kernels, and its output for x."""
    from keras.ops import convert_to_numpy

    from kbert.model.layers.encoder import MultiHeadAttention

    layer = MultiHeadAttention(heads, size)
    output = convert_to_numpy(layer(x[None]))[0]
    dense = (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense)
    *kernels, output_kernel = (convert_to_numpy(projection.kernel) for projection in dense)
    return kernels, output_kernel, output


def _compute_with_numpy(x, heads: int, size: int):
    """Compute the same with NumPy: all heads at once, with whole matrices."""
    rng = np.random.default_rng(1)
    hidden = x.shape[-1]
    columns = heads * size
    width = np.float32((12 / hidden) ** 0.5)  # of a uniform distribution of variance 1/H

    def draw(*shape):  # a normal distribution takes five times as long
        numbers = rng.random(shape, "float32")
        return (numbers - np.float32(0.5)) * width

    def project(kernel):
        whole = x @ kernel.reshape(hidden, columns)  # (S, A·D)
        by_head = whole.reshape(-1, heads, size)
        return by_head.swapaxes(0, 1)  # (A, S, D)

    kernels = draw(3, hidden, heads, size)
    output_kernel = draw(heads, size, hidden)
    query, key, value = [project(kernel) for kernel in kernels]

    context = _attend(query, key, value)  # (A, S, D)
    joined = context.swapaxes(0, 1).reshape(-1, columns)
    output = joined @ output_kernel.reshape(columns, hidden)
    return kernels, output_kernel, output


def _attend(query, key, value):
    """Compute Attention(Q, K, V), (…, S, D) (Vaswani et al. 2017, arXiv 1706.03762, equation 1)."""
    scale = np.float32(query.shape[-1] ** -0.5)
    scores = query @ key.swapaxes(-1, -2) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))  # (…, S, S)
    return weights / weights.sum(-1, keepdims=True) @ value
