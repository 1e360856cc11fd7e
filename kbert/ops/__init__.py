"""The operations that kbert's layers are made of: `kbert.ops.attention`, `layer_norm` and so on.

`kbert.ops.reference` defines and documents each of them in `keras.ops`. A backend has at most one
faster version, with the same arguments and the same numbers. `kbert.ops.composed` makes an
operation of others that a backend has.
"""

import contextlib
import functools
import importlib
import importlib.util
import logging
import re
from collections.abc import Callable, Iterator

from kbert.ops.devices import WITH_GRADIENTS, device_names

_OPERATIONS = {
    "attention",
    "attention_probs",
    "bias_activation",
    "cross_entropy",
    "dense",
    "dropout",
    "embedding_lookup",
    "embedding_lookup_and_table",
    "gather_positions",
    "keep_mask",
    "layer_norm",
    "linear",
    "project_heads",
    "self_attention",
    "tied_logits",
}
# The modules with a backend's versions on a device, the fastest first; else the backend's own
_MODULES: dict[tuple, tuple] = {
    ("tensorflow", "tpu"): (),
    ("tensorflow", "gpu"): ("tensorflow_gpu", "tensorflow"),
    ("jax", "gpu"): ("jax_gpu", "jax"),
}
_logger = logging.getLogger("kbert")
_device: str | None = None  # of a program that is compiled for a device that is not here


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
def find_device() -> str:
    """Return what Keras computes on here: "cpu", "gpu", "old gpu" or "tpu"."""
    import keras

    name = device_names()[0].lower()
    kind = next((kind for kind in ("cpu", "tpu") if kind in name), "gpu")
    if kind == "gpu" and keras.backend.backend() == "jax":
        import jax

        # Triton compiles nothing for JAX on a GPU that is older than Ampere, or AMD's
        capability = getattr(jax.local_devices()[0], "compute_capability", "")
        if not re.fullmatch(r"\d+\.\d+", capability) or float(capability) < 8:
            return "old gpu"
    return kind


def device_kind() -> str:
    """Return the device that operations are selected for: "cpu", "gpu", "old gpu" or "tpu"."""
    return _device or find_device()


@functools.cache
def select(name: str, backend: str, device: str | None) -> Callable:
    """Return the fastest function of an operation."""
    is_here = device is None
    kind = device or find_device()
    of_backend = (backend,) if backend in WITH_GRADIENTS else ()  # numpy and openvino have none
    modules = _MODULES.get((backend, kind), of_backend)
    if modules[:1] == ("tensorflow_gpu",) and not has_jax_kernels(is_here):
        modules = modules[1:]

    for module_name in (*modules, "composed", "reference"):
        module = importlib.import_module(f"kbert.ops.{module_name}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(name)


@functools.cache
def has_jax_kernels(here: bool) -> bool:
    """Whether TensorFlow has JAX's kernels for a GPU; one that is here must run them, too."""
    try:
        if importlib.util.find_spec("jax") is None:
            raise ImportError("jax is not installed: pip install jax")
        module = importlib.import_module("kbert.ops.tensorflow_gpu")
        if here:
            module.run_kernel()
    except Exception as error:  # XLA's compiler, the driver and other versions of JAX have many
        _logger.warning(
            "attention and LayerNorm on this GPU are TensorFlow's own, which are slower: %s: %s",
            type(error).__name__,
            _last_reason(error)[:300],
        )
        return False
    return True


def _last_reason(error: Exception) -> str:
    """Return the last line of an error that is no node of TensorFlow's graph, such as "[[{{"."""
    stripped = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in stripped if line]
    reasons = [line for line in lines if not line.startswith("[[")] or lines
    return reasons[-1] if reasons else ""


def __getattr__(name: str):
    if name not in _OPERATIONS:  # perhaps a module of this package
        raise AttributeError(name)
    import keras  # here, so that the modules of this package start no backend

    return select(name, keras.backend.backend(), _device)
