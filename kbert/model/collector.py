"""Python's collector of cycles, paused while a model is made."""

import contextlib
import gc
from collections.abc import Iterator

_MOST = 100_000  # objects that may go unseen, five of base: fewer than Python would let pile up

_unseen = _full_collections = 0


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Within it nothing is looked through for cycles, and what is new afterwards counts as old.

    A model's layers are many new objects, and all of them stay. So many make Python look through
    all that there is, TensorFlow's and Keras's objects too: 0.25 s, as long as base takes to be
    built. Models that were thrown away are looked for after some of them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # someone else's stay frozen
            _grow_old()
        gc.enable()


def _grow_old() -> None:
    """Move what is new to the oldest, unseen; everything is looked through once that is much."""
    global _unseen, _full_collections
    new, done = gc.get_count()[0], gc.get_stats()[2]["collections"]
    _unseen = new + (_unseen if done == _full_collections else 0)
    _full_collections = done
    if _unseen > _MOST:
        gc.collect()
    else:
        gc.freeze()
        gc.unfreeze()
