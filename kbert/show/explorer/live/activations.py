"""The activations of `kbert.ops.activations` and of sentence-transformers in NumPy, for float32.

A page is written without a backend of Keras, whose start would take longer than all else.
"""

from collections.abc import Callable

import numpy as np

# erf as XLA computes it in float32: a fraction of two polynomials of x², highest power first
_ABOVE = (
    0.00022905065861350646,
    0.0034082910107109506,
    0.050955695062380861,
    0.18520832239976145,
    1.128379143519084,
)
_BELOW = (
    -1.1791602954361697e-7,
    0.000023547966471313185,
    0.0010179625278914885,
    0.014070470171167667,
    0.11098505178285362,
    0.49746925110067538,
    1.0,
)
_FARTHEST = 3.8325  # beyond it erf is ±1 in float32


def erf(x: np.ndarray) -> np.ndarray:
    """Compute the error function within a few units of float32's last place."""
    z = np.clip(x, -_FARTHEST, _FARTHEST)
    square = z * z
    return z * np.polyval(_ABOVE, square) / np.polyval(_BELOW, square)


def gelu(x: np.ndarray) -> np.ndarray:
    """Compute the exact GELU, x · Φ(x)."""
    return 0.5 * x * (1 + erf(x * np.float32(0.7071067811865476)))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + e^−x) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Compute the softmax over the last axis."""
    largest = x.max(axis=-1, keepdims=True)
    powers = np.exp(x - largest)
    return powers / powers.sum(axis=-1, keepdims=True)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    inner = x + 0.044715 * x * x * x
    tanh = np.tanh(0.7978845608028654 * inner)
    return 0.5 * x * (1 + tanh)


def _selu(x: np.ndarray) -> np.ndarray:
    below = 1.6732632423543772 * np.expm1(np.minimum(x, 0))
    return 1.0507009873554805 * np.where(x < 0, below, x)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, np.float32(0))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gelu": gelu,
    "gelu_tanh": _gelu_tanh,
    "gelu_10": lambda x: np.clip(gelu(x), -10, 10),
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu_01": lambda x: np.where(x < 0, 0.01 * x, x),
    "silu": lambda x: x * sigmoid(x),
    "hard_silu": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "laplace": lambda x: 0.5 * (1 + erf((x - 0.707107) / (0.282095 * 1.4142135623730951))),
    "sqrt_softplus": lambda x: np.sqrt(_softplus(x)),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "linear": lambda x: x,
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "selu": _selu,
    "softplus": _softplus,
}


def activate(x: np.ndarray, name: str) -> np.ndarray:
    """Apply an activation by its name in kbert or Keras, in float32."""
    return ACTIVATIONS[name](x).astype("float32", copy=False)
