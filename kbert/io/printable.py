r"""Text from files as a terminal, a log or a page may show it: nothing in it acts on them.

Escaped, as `\u001b`, is what Unicode shows as nothing or what moves what stands beside it: control
characters (C0, C1), line separators, marks of direction, what has no width, lone surrogates. Every
letter, mark and sign stays, and so do the joiners within words and emoji that are not ASCII.
"""

import contextlib
import re
from collections.abc import Iterator

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
    """Return a text as one line.

    An end of line in it is escaped like any other control character.
    """
    return _ONE_LINE.sub(_escaped, str(text))


def lines(text: str) -> str:
    """Return a text of lines and tabs, which stay."""
    return _ONE_LINE.sub(lambda found: found[0] if found[0] in "\n\t" else _escaped(found), text)


def _escaped(found: re.Match) -> str:
    r"""Return `\u001b`; as JSON writes it, so that escaped JSON is still the same JSON."""
    if found[1]:
        return found[0]
    pairs = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[n]:02x}{pairs[n + 1]:02x}" for n in range(0, len(pairs), 2))


@contextlib.contextmanager
def escaped_errors() -> Iterator[None]:
    """Escape the messages of errors: names in files, of tensors say, end up in them.

    Public functions that read files have it as their decorator, so that a traceback in Python
    shows what the command line shows.
    """
    try:
        yield
    except Exception as error:
        one: BaseException | None = error
        while one is not None:
            one.args = tuple(lines(arg) if isinstance(arg, str) else arg for arg in one.args)
            one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        raise


def cut(text: str, width: int = 80) -> str:
    """Return a text as one line of at most that many characters."""
    text = line(" ".join(text.split("\n")))
    return text if len(text) <= width else text[: width - 1] + "…"
