"""The operations that kbert's layers are made of.

`kbert.ops.attention`, `dropout`, `layer_norm` and so on are the selected module's functions.
`kbert.ops.reference` defines and documents each of them in `keras.ops`. A backend has at most one
faster version, with the same arguments and the same numbers.
"""

import contextlib
import functools
import importlib
from collections.abc import Iterator
from types import ModuleType

_VERSIONS = {
    ("tensorflow", "cpu"): "tensorflow",
    ("tensorflow", "gpu"): "tensorflow",
    ("jax", "cpu"): "jax",
    ("jax", "tpu"): "jax",
    ("torch", "cpu"): "torch",
    ("torch", "gpu"): "torch",
}
_OPERATIONS = {
    *("attention", "attention_probs", "bias_activation", "cross_entropy", "dense", "dropout"),
    *("embedding_lookup", "embedding_lookup_and_table", "gather_positions", "keep_mask"),
    *("layer_norm", "linear", "project_heads", "tied_logits"),
}
_device: str | None = None  # of a program that is compiled for a device that is not here


@functools.cache
def select(backend: str, device: str) -> ModuleType:
    """Return the module with the fastest operations.

    Args:
        backend: "tensorflow", "jax" or "torch".
        device: "cpu", "gpu" or "tpu".
    """
    return importlib.import_module(f"kbert.ops.{_VERSIONS.get((backend, device), 'reference')}")


@contextlib.contextmanager
def compile_for(device: str) -> Iterator[None]:
    """Select operations for a device that is not here, such as "tpu"."""
    global _device
    before, _device = _device, device
    try:
        yield
    finally:
        _device = before


@functools.cache
def _device_here() -> str:
    from kbert.ops.devices import device_names

    name = device_names()[0].lower()
    return next((kind for kind in ("cpu", "tpu") if kind in name), "gpu")


def __getattr__(name: str):
    if name not in _OPERATIONS:  # perhaps a module of this package
        raise AttributeError(name)
    import keras  # here, so that the modules of this package start no backend

    return getattr(select(keras.backend.backend(), _device or _device_here()), name)
