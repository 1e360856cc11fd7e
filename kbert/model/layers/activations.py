"""The activations that a configuration's `hidden_act` can name."""

import keras
from keras import ops

_register = keras.saving.register_keras_serializable("kbert")


@_register
def gelu(x):
    """Gaussian error linear unit, exact: x · Φ(x) (Hendrycks & Gimpel, arXiv 1606.08415)."""
    # Written out: keras.activations.gelu exports to ONNX as an invalid file (Keras 3.15).
    return 0.5 * x * (1.0 + ops.erf(x * 0.7071067811865476))


@_register
def gelu_tanh(x):
    """The tanh approximation of GELU, as in google-research/bert's modeling.py."""
    return 0.5 * x * (1.0 + ops.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


_ACTIVATIONS = {"gelu": gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh}


def activation(hidden_act: str):
    """The function meant by a configuration's `hidden_act`; "gelu" is the erf form."""
    return _ACTIVATIONS.get(hidden_act) or keras.activations.get(hidden_act)
