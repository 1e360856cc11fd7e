"""Ctrl-C and SIGTERM as a wish to stop, which the loop fulfils between two updates."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM; the message says what is saved and how to go on."""


class ProcessLost(RuntimeError):
    """Another process of the run is gone; the message says how to go on."""


class Asked:
    """True once it was asked to stop."""

    signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextlib.contextmanager
def asked_to_stop() -> Iterator[Asked]:
    """What the two signals set for as long as the context lasts; a second one stops at once."""
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread may ask for signals
        return

    def heard(number, frame):
        if asked:
            raise KeyboardInterrupt
        asked.signal = number

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
