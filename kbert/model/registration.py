"""Registers kbert's layers with Keras as soon as Keras is imported, and not before.

`keras.saving.load_model` finds a custom class only where it is registered. With this, `import
kbert` is all it needs, though kbert itself imports no Keras.
"""

import contextlib
import importlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Iterator

from kbert.io import extras

BACKENDS = ("tensorflow", "jax", "torch")  # Keras depends on none of them, and kbert neither


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Finds Keras as everyone would, and has the layers registered once it is executed."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras" or self not in sys.meta_path:
            return None

        index = sys.meta_path.index(self)
        sys.meta_path.remove(self)  # else the search below would come back here
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(index, self)
        if spec is None or spec.loader is None:
            return spec

        execute = spec.loader.exec_module

        def exec_module(module):
            with backend_errors_in_one_line():
                execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            register()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Import the classes that register themselves with Keras, layers too; lend it Graphviz."""
    importlib.import_module("kbert.model.bert_model")
    importlib.import_module("kbert.show.graphviz").lend_to_pydot()


def register_with_keras() -> None:
    """Register now if Keras is imported already, else when it is."""
    if "keras" in sys.modules:
        register()
    elif not any(isinstance(finder, _AfterKeras) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterKeras())


@contextlib.contextmanager
def backend_errors_in_one_line() -> Iterator[None]:
    """Say what to install where Keras says no more than `No module named 'tensorflow'`."""
    try:
        yield
    except ValueError as error:
        # the second as Keras 3.16 says it
        if not str(error).startswith(("Unable to import backend", "Unsupported backend")):
            raise
        raise ValueError(
            f"KERAS_BACKEND must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}, got "
            f"{os.environ.get('KERAS_BACKEND')!r}. On numpy and openvino, kbert opens and uses "
            "models, and does not train"
        ) from None
    except ModuleNotFoundError as error:
        if error.name not in (*BACKENDS, "openvino"):
            raise
        raise ImportError(_explain_missing(error.name), name=error.name) from None


def _explain_missing(backend: str) -> str:
    """Return an error message for a backend that is not installed."""
    alternatives = [name for name in BACKENDS if name != backend]
    installed = [name for name in alternatives if extras.is_installed(name)]
    command = extras.install(backend) if backend in BACKENDS else "pip install openvino"

    line = f"Keras computes with the backend {backend}, which is not installed: {command}, or "
    if installed:
        return f"{line}set KERAS_BACKEND={installed[0]}, which is"
    return f"{line}{' or '.join(alternatives)} and set KERAS_BACKEND to that"
