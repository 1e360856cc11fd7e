"""Python's collector of cycles, paused while a model is made."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Within it nothing is looked through for cycles; as it was afterwards.

    A model's layers are many new objects, and all of them stay. So many make Python look through
    all that there is, TensorFlow's and Keras's objects too: 0.25 s, as long as base takes to be
    built.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
