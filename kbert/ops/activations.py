"""The activations that a configuration's `hidden_act` can name."""

import functools

import keras
from keras import ops

from kbert.graph.config import ACTIVATIONS

_register = keras.saving.register_keras_serializable("kbert")


@_register
def gelu(x):
    """Gaussian error linear unit, exact: x · Φ(x) (Hendrycks & Gimpel, arXiv 1606.08415)."""
    # Written out: keras.activations.gelu exports to ONNX as an invalid file (Keras 3.15).
    doubled_cdf = 1.0 + ops.erf(x * 0.7071067811865476)
    return 0.5 * x * doubled_cdf


@_register
def gelu_tanh(x):
    """Return the tanh approximation of GELU, as in google-research/bert's modeling.py."""
    polynomial = x + 0.044715 * x * x * x
    doubled_cdf = 1.0 + ops.tanh(0.7978845608028654 * polynomial)
    return 0.5 * x * doubled_cdf


@_register
def gelu_10(x):
    """GELU within -10 and 10 (arXiv 2004.09602)."""
    return ops.clip(gelu(x), -10.0, 10.0)


@_register
def quick_gelu(x):
    """Return the approximation of GELU by the logistic function."""
    return x * ops.sigmoid(1.702 * x)


@_register
def relu_squared(x):
    """Squared ReLU (So et al. 2021, arXiv 2109.08668)."""
    return ops.square(ops.relu(x))


@_register
def leaky_relu_01(x):
    """ReLU with torch's slope of 0.01 below 0; Keras's is 0.2."""
    return ops.leaky_relu(x, 0.01)


@_register
def laplace(x):
    """Return a bounded approximation of squared ReLU (Ma et al. 2022, arXiv 2209.10655)."""
    scaled = (x - 0.707107) / (0.282095 * 1.4142135623730951)
    return 0.5 * (1.0 + ops.erf(scaled))


@_register
def sqrt_softplus(x):
    """Compute the square root of softplus."""
    return ops.sqrt(ops.softplus(x))


_OWN = (gelu, gelu_tanh, gelu_10, quick_gelu, relu_squared, leaky_relu_01, laplace, sqrt_softplus)
_BY_NAME = {function.__name__: function for function in _OWN}


@functools.cache
def activation(hidden_act: str):
    """Return the function meant by a configuration's `hidden_act`; "gelu" is the erf form."""
    name = ACTIVATIONS[hidden_act]
    return _BY_NAME.get(name) or keras.activations.get(name)
