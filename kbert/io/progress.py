"""Progress messages on stderr for long work."""

import contextlib
import os
import sys

PROGRESS_DELAY_S = 2.0
COLUMNS = 80  # of a terminal that does not say

_said = [True]


@contextlib.contextmanager
def silent():
    """Within, nothing is said of what is under way; warnings and errors are."""
    before, _said[0] = _said[0], False
    try:
        yield
    finally:
        _said[0] = before


def is_said() -> bool:
    """Return whether progress is shown: not within `silent`."""
    return _said[0]


def columns(stream) -> int:
    """Return the number of a terminal's columns."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or COLUMNS
    except (OSError, ValueError):  # not the system's
        return COLUMNS


def progress_bar(total: int | None, unit: str, shown: bool = True, **style):
    """Return a bar, once it has taken two seconds; it leaves nothing behind.

    Args:
        total: how many; None where nobody knows.
        unit: of what.
        style: what tqdm takes besides.
    """
    from tqdm import tqdm

    seldom = 0.1 if sys.stderr.isatty() else 10.0  # seconds: a log file is no terminal
    return tqdm(
        total=total,
        unit=unit,
        disable=not (shown and is_said()),
        delay=PROGRESS_DELAY_S,
        mininterval=seldom,
        leave=False,
        dynamic_ncols=True,
        **style,
    )
