"""Gradients that TensorFlow keeps by name for good: forgotten with the engine that traced them.

Each call of a `tf.custom_gradient` in a graph is one, and holds that graph and the weights and
moments in it: 340 MB of MiniLM a run, for as long as the process lives.
"""

import contextlib
import weakref
from collections.abc import Iterator

from kbert.model.keras_internals import registered_gradients

_NAME = "CustomGradient-"  # and a number, which goes up


@contextlib.contextmanager
def owned_by(owner) -> Iterator[None]:
    """Remove gradients that tracing registers in this context once the owner is gone."""
    before = next(_numbers(), -1)
    try:
        yield
    finally:
        new = []
        for number in _numbers():
            if number <= before:
                break
            new.append(f"{_NAME}{number}")
        if new:
            weakref.finalize(owner, _forget, new).atexit = False


def _numbers() -> Iterator[int]:
    """Yield the numbers of the registered gradients, the newest first."""
    # a list: an owner that Python collects meanwhile takes its own away
    for name in reversed(list(registered_gradients())):
        if name.startswith(_NAME):
            yield int(name.removeprefix(_NAME))


def _forget(names: list[str]) -> None:
    for name in names:
        registered_gradients().pop(name, None)
