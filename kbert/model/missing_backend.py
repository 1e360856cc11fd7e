"""One-line error for a backend of Keras that is not installed.

Keras depends on none of them, and kbert neither: its extras [tensorflow], [jax] and [torch] do.
"""

import contextlib
from collections.abc import Iterator

from kbert.io import extras

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
    install = extras.install(missing)
    said = f"Keras computes with the backend {missing}, which is not installed: {install}"
    if installed := next(filter(extras.is_installed, others), None):
        return f"{said}, or set KERAS_BACKEND={installed}, which is"
    return f"{said}, or {' or '.join(others)} and set KERAS_BACKEND to that"
