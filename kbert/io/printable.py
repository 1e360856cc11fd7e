r"""Escapes that make text from files safe for a terminal, a log or a page.

Control characters (C0, C1), line separators, direction marks, zero-width characters and lone
surrogates become `\u001b` and the like. Letters, accents and signs stay, and so do the joiners
within words and emoji that are not ASCII.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Iterator

_INVISIBLE = (
    "\x00-\x1f\x7f-\x9f"  # C0, C1
    "\u00ad\u061c\u180e"  # soft hyphen, marks of direction and vowels
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # widthless, line ends, direction
    "\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # of shorthand, of music
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags, not the selectors of variants between
)
# Persian, the scripts of India and emoji need U+200C and U+200D between characters of theirs.
_JOINER = rf"(?<=[^\x00-\x7f{_INVISIBLE}])[\u200c\u200d](?=[^\x00-\x7f{_INVISIBLE}])"
_ONE_LINE = re.compile(f"({_JOINER})|[{_INVISIBLE}]")


def line(text) -> str:
    """Return a text as one line: an end of line is escaped too."""
    return _ONE_LINE.sub(_escape, str(text))


def lines(text: str) -> str:
    """Return a text of several lines; its line ends and tabs stay."""
    return _ONE_LINE.sub(_escape_within_line, text)


def _escape_within_line(match: re.Match) -> str:
    return match[0] if match[0] in "\n\t" else _escape(match)


def _escape(match: re.Match) -> str:
    r"""Return `\u001b`; as JSON writes it, so that escaped JSON is still the same JSON."""
    if match[1]:
        return match[0]
    pairs = match[0].encode("utf-16-be", "surrogatepass")
    units = []
    for index in range(0, len(pairs), 2):
        high, low = pairs[index : index + 2]
        units.append(f"\\u{high:02x}{low:02x}")
    return "".join(units)


@contextlib.contextmanager
def escape_errors() -> Iterator[None]:
    """Escape the messages of errors, because names in files end up in them.

    It decorates public functions that read files.
    """
    try:
        yield
    except Exception as error:
        _escape_arguments(error)
        raise


def _escape_arguments(error: BaseException) -> None:
    """Escape the messages of an error and of those that led to it, as far as they are shown."""
    shown: BaseException | None = error
    while shown is not None:
        shown.args = tuple(_escape_instances(shown.args, str))
        before = None if shown.__suppress_context__ else shown.__context__
        shown = shown.__cause__ or before


def _escape_instances(values: Iterable, types) -> Iterator:
    """Yield the values, those of some types as escaped text."""
    for value in values:
        yield lines(str(value)) if isinstance(value, types) else value


def escape_record(record: logging.LogRecord) -> bool:
    """Escape the arguments of a message in the log; a filter of kbert's logger."""
    if isinstance(record.args, tuple):
        record.args = tuple(_escape_instances(record.args, (str, os.PathLike)))
    return True


def cut(text: str, width: int = 80) -> str:
    """Return a text as one line of at most that many characters."""
    text = line(" ".join(text.split("\n")))
    if len(text) <= width:
        return text
    return text[: width - 1] + "…"
