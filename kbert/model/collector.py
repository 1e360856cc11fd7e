"""Python's collector of cycles, paused while a model is made."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Within it nothing is looked through for cycles, and what is new afterwards counts as old.

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
        if not gc.get_freeze_count():  # someone else's stay frozen
            gc.freeze()
            gc.unfreeze()  # back among the oldest, looked at when enough others are as old
        gc.enable()
