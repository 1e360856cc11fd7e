"""A backend of Keras that is not installed: one line that says what to install.

Keras depends on none of them, and kbert neither: its extras [tensorflow], [jax] and [torch] do.
"""

import contextlib
import importlib.util
from collections.abc import Iterator

BACKENDS = ("tensorflow", "jax", "torch")


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Around the import of Keras, which says no more than `No module named 'tensorflow'`.

    Raises:
        ImportError: the backend is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in BACKENDS:
            raise
        raise ImportError(_line(error.name), name=error.name) from None


def _line(missing: str) -> str:
    others = [name for name in BACKENDS if name != missing]
    said = f"Keras computes with the backend {missing}, which is not installed: pip install"
    if there := next(filter(importlib.util.find_spec, others), None):
        return f"{said} {missing}, or set KERAS_BACKEND={there}, which is"
    return f"{said} {missing}, or {' or '.join(others)} and set KERAS_BACKEND to that"
