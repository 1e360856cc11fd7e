"""Memory that the compiler no longer needs, freed while the first step runs."""

import contextlib
import threading
from collections.abc import Iterator

from kbert.training.engines import glibc

_PAUSE = 0.1  # seconds
_LARGE = 2**17  # bytes; glibc's own bound at a process's start, which then grows


@contextlib.contextmanager
def returned() -> Iterator[None]:
    """Within it glibc gives the system back, again and again, what is free; elsewhere nothing.

    XLA's programs are compiled in threads of their own in the first step, whose heaps keep what
    they have taken, just where a step needs the most. What is large has pages of its own
    meanwhile, which go back with it.
    """
    if not glibc.trim():
        yield
        return
    glibc.set_options({glibc.MMAP_THRESHOLD: _LARGE})
    ended = threading.Event()

    def trimming():
        while not ended.wait(_PAUSE):
            glibc.trim()

    thread = threading.Thread(target=trimming, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        glibc.set_usual(glibc.MMAP_THRESHOLD, glibc.TRIM_THRESHOLD)  # set by hand neither grows
        glibc.trim()
