"""The operations that kbert's layers are made of: `kbert.ops.attention`, `layer_norm` and so on.

`kbert.ops.reference` defines and documents each of them in `keras.ops`. A backend has at most one
faster version, with the same arguments and the same numbers.
"""

import functools
import importlib
from collections.abc import Callable

from kbert.ops.devices import device_names

_OPERATIONS = {
    *("attention", "attention_probs", "bias_activation", "cross_entropy", "dense", "dropout"),
    *("embedding_lookup", "embedding_lookup_and_table", "gather_positions", "keep_mask"),
    *("layer_norm", "linear", "project_heads", "tied_logits"),
}
_REFERENCE_ALONE = {("tensorflow", "tpu"), ("jax", "gpu")}  # have no faster operations


@functools.cache
def _select(name: str, backend: str) -> Callable:
    """Return the fastest function of an operation on the device that is here."""
    here = device_names()[0].lower()
    device = next((kind for kind in ("cpu", "tpu") if kind in here), "gpu")
    definition = getattr(importlib.import_module("kbert.ops.reference"), name)
    if (backend, device) in _REFERENCE_ALONE:
        return definition
    return getattr(importlib.import_module(f"kbert.ops.{backend}"), name, definition)


def __getattr__(name: str):
    if name not in _OPERATIONS:  # perhaps a module of this package
        raise AttributeError(name)
    import keras  # here, so that the modules of this package start no backend

    return _select(name, keras.backend.backend())
