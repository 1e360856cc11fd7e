"""Matrices and the low-rank adapters on them: their variables, and their sum.

For modules that are imported before Keras; the adapters are in `kbert.model.lora`.
"""

import numpy as np

from kbert.graph.trained_parts import AdaptedMatrix


def kernel_of(model, matrix: AdaptedMatrix):
    """Return the variable of a matrix: (inputs, outputs), or with an axis for the heads."""
    (kernel,) = (
        weight
        for weight in model.get_layer(matrix.layer).weights
        if weight.path.endswith(f"/{matrix.variable}")
    )
    return kernel


def is_adapter(path: str) -> bool:
    """Return whether a weight's path is that of an adapter's A or B."""
    return path.endswith(("/lora_A", "/lora_B"))


def merge(kernel: np.ndarray, a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    """Return W + scale · B·A in the kernel's shape, float32."""
    product = (b @ a).T * np.float32(scale)  # (inputs, outputs)
    return kernel + product.reshape(kernel.shape)
