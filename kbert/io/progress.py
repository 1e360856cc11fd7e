"""Progress messages on stderr for long work."""

import contextlib
import os
import sys

PROGRESS_DELAY_S = 2.0
COLUMNS = 80  # of a terminal that does not say

_visible = [True]


@contextlib.contextmanager
def silent():
    """Hide progress within this context; warnings and errors stay."""
    before, _visible[0] = _visible[0], False
    try:
        yield
    finally:
        _visible[0] = before


def is_shown() -> bool:
    """Return whether progress is shown: not within `silent`."""
    return _visible[0]


def columns(stream) -> int:
    """Return the number of a terminal's columns."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or COLUMNS
    except (OSError, ValueError):  # not the system's
        return COLUMNS


def progress_bar(total: int | None, unit: str, shown: bool = True, **style):
    """Return tqdm's bar, shown after two seconds and removed at the end.

    `total` is None if unknown; `style` has other arguments of tqdm.
    """
    from tqdm import tqdm

    seldom = 0.1 if sys.stderr.isatty() else 10.0  # seconds: a log file is no terminal
    return tqdm(
        total=total,
        unit=unit,
        disable=not (shown and is_shown()),
        delay=PROGRESS_DELAY_S,
        mininterval=seldom,
        leave=False,
        dynamic_ncols=True,
        **style,
    )
