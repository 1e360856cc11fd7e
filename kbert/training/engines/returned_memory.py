"""Memory that the compiler has done with, given back while the first update goes on."""

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator

_PAUSE = 0.1  # seconds


@contextlib.contextmanager
def returned() -> Iterator[None]:
    """Within it glibc gives the system back, again and again, what is free; elsewhere nothing.

    XLA's programs are compiled in threads of their own in the first update, whose heaps keep what
    they have taken, just where an update needs the most.
    """
    trim = _trim()
    if trim is None:
        yield
        return
    ended = threading.Event()

    def trimming():
        while not ended.wait(_PAUSE):
            trim(0)

    thread = threading.Thread(target=trimming, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        trim(0)


def _trim() -> Callable | None:
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
