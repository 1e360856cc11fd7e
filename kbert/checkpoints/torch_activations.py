"""torch's activation classes, as sentence-transformers names them in its files."""

from kbert.io import json_schema as js

_LINEAR, _ACTIVATION = "torch.nn.modules.linear", "torch.nn.modules.activation"
# Keras's function by torch's class with its default arguments.
_KERAS = {
    "Identity": "linear",
    "ELU": "elu",
    "GELU": "gelu",
    "Mish": "mish",
    "ReLU": "relu",
    "SELU": "selu",
    "Sigmoid": "sigmoid",
    "SiLU": "silu",
    "Softplus": "softplus",
    "Tanh": "tanh",
}
IDENTITY = f"{_LINEAR}.Identity"


def keras_activation(path: object, source: str) -> str:
    """Return the name of Keras's function for the dotted path of torch's class.

    The path is such as "torch.nn.modules.activation.Tanh" or "torch.nn.Tanh"; any other is refused,
    as nothing is imported by a name in a file. `source` is the file and key, for the error.
    """
    module, _, name = path.rpartition(".") if isinstance(path, str) else ("", "", "")
    if module not in ("torch.nn", _LINEAR, _ACTIVATION) or name not in _KERAS:
        known = ", ".join(_KERAS)
        raise ValueError(f"{source} must be one of torch.nn's {known}, got {js.shown(path)}")
    return _KERAS[name]


def torch_path(activation: str) -> str:
    """Return the path of torch's class for the name of Keras's function."""
    name = next(name for name, keras_name in _KERAS.items() if keras_name == activation)
    return IDENTITY if name == "Identity" else f"{_ACTIVATION}.{name}"


def is_known(activation: str) -> bool:
    """Return whether Keras's function has a class in torch."""
    return activation in _KERAS.values()
