"""Environment of a run: versions and devices, no names of folders, hosts or people."""

import importlib
import os
import platform

from kbert.ops.devices import device_names

PACKAGES = ("keras", "numpy", "tokenizers", "safetensors")
OF_BACKEND = {"tensorflow": ("tensorflow",), "jax": ("jax", "jaxlib"), "torch": ("torch",)}


def described(engine) -> dict:
    """Versions, devices and processes, as JSON."""
    import keras

    import kbert

    backend = keras.backend.backend()
    packages = (*PACKAGES, *OF_BACKEND.get(backend, ()))
    return {
        "kbert": kbert.__version__,
        "python": platform.python_version(),
        "packages": {name: str(importlib.import_module(name).__version__) for name in packages},
        "backend": backend,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu_cores": os.cpu_count(),
        "devices": device_names(),
        "replicas": engine.backend.replicas,
        "processes": engine.backend.processes,
    }
