"""Regular expressions that come from a file, compared in bounded time.

Python's `re` goes back and tries again: `(a*)*b` takes years for a name of 40 characters. Here a
pattern is followed from all positions at once, which takes steps that are counted.
"""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping

_MOST = 2**14  # patterns of a file
_LONGEST = 2**18  # characters of them; those that name each matrix of a large model have 6,000
_DEEPEST = 50  # groups of a pattern
_STEPS = 5_000_000  # of all comparisons of a file; some seconds
_GROUPS = ("(", "(?:", "(?=", "(?!")
_TOKEN = re.compile(
    r"""(?P<repeat>[*+?]|\{(?!\})\d*(?:,\d*)?\})(?P<lazy>\??)(?P<possessive>\+?)
    |(?P<open>\((?:\?(?:P<\w+>|[:=!]?))?)
    |(?P<sign>[|)])
    |(?P<atom>\[\^?\]?(?:\\.|[^\]\\])*\]|\\[^0-9A-Za-z]|\\[AbBdDsSwWZ]|[^\\])""",
    re.DOTALL | re.VERBOSE,
)

# The usual key of an adapter, a literal that ends a name: `re` tries it once behind each dot.
_ENDING = re.compile(r"\(\.\*\\\.\)\?\((?:[\w.-]|\\\.)+\)\$")

# A part of a pattern: from the positions where it begins to those where it may end.
_Part = Callable[["_Subject", set[int]], set[int]]


class _Subject:
    """A text to compare, and the number of steps that are left."""

    def __init__(self, text: str, steps: int):
        self.text = text
        self.steps = steps

    def count(self, starts: set[int], more: int = 0) -> None:
        """Count a step for each position, and more; raise a ValueError if none is left."""
        self.steps -= 1 + len(starts) + more
        if self.steps < 0:
            raise ValueError("takes too long to compare: write it with fewer repetitions")


def find_keys(patterns: Mapping[str, str], texts: Iterable[str]) -> list[str | None]:
    """Return the key of the first pattern that matches the beginning of each text, or None.

    Literals, sets, groups, `|`, repetitions, anchors and looks ahead are read, and matched exactly
    as by `re.match`; what a group captured is not kept.

    Args:
        patterns: regular expressions by key, tried in this order.
        texts: the texts.

    Raises:
        ValueError: too many patterns, one that `re` refuses, or one with back references, flags and
            the like; or all comparisons together take too many steps.
    """
    matchers = _parse_all(patterns)
    steps = _STEPS
    keys = []
    for text in texts:
        subject = _Subject(text, steps)
        keys.append(_find_key(matchers, subject))
        steps = subject.steps
    return keys


def _parse_all(patterns: Mapping[str, str]) -> dict[str, _Part]:
    length = sum(len(pattern) for pattern in patterns.values())
    if len(patterns) > _MOST or length > _LONGEST:
        raise ValueError(
            f"must have at most {_MOST:,} patterns of {_LONGEST:,} characters in all, got "
            f"{len(patterns):,} of {length:,}"
        )
    matchers = {}
    for key, pattern in patterns.items():
        with _naming_key(key):
            matchers[key] = _parse(pattern)
    return matchers


def _find_key(matchers: Mapping[str, _Part], subject: _Subject) -> str | None:
    for key, matches in matchers.items():
        with _naming_key(key):
            if matches(subject, {0}):
                return key
    return None


@contextlib.contextmanager
def _naming_key(key: str) -> Iterator[None]:
    """Name the key of the pattern in a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key!r:.100} {error}") from None


def _parse(pattern: str) -> _Part:
    """Return the part that is a whole pattern; raise a ValueError if it cannot be read."""
    if pattern.count("(") > _DEEPEST:
        raise ValueError(f"must have at most {_DEEPEST} groups, got {pattern.count('('):,}")
    try:
        with warnings.catch_warnings():  # of what later versions of Python may read otherwise
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"must be a regular expression, got one with an error: {error}") from None

    if _ENDING.fullmatch(pattern):
        return _ending(re.compile(pattern))
    return _parse_branches(_split(pattern))


def _ending(pattern: re.Pattern) -> _Part:
    """Return the part of a whole pattern that `re` itself compares in little time."""

    def follow(subject: _Subject, starts: set[int]) -> set[int]:
        subject.count(starts, subject.text.count("."))
        matches = [pattern.match(subject.text, start) for start in starts]
        return {match.end() for match in matches if match}

    return follow


def _split(pattern: str) -> Iterator[re.Match]:
    """Yield the tokens of a pattern; raise a ValueError at what is not read here."""
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        group = token and token["open"]
        is_unknown_group = group and group not in _GROUPS and not group.startswith("(?P<")
        if token is None or token["possessive"] or is_unknown_group:
            raise ValueError(
                "must have literals, sets, groups, alternatives and repetitions alone, got "
                f"{pattern[position : position + 4]!r}"
            )
        yield token
        position = token.end()


def _parse_branches(tokens: Iterator[re.Match]) -> _Part:
    """Read alternatives, up to the end of their group."""
    branches: list[list[_Part]] = [[]]
    for token in tokens:
        if token["sign"] == ")":
            break
        if token["sign"] == "|":
            branches.append([])
        elif token["repeat"]:
            last = branches[-1].pop()
            branches[-1].append(_repeat(last, token["repeat"]))
        elif token["open"]:
            inner = _parse_branches(tokens)
            branches[-1].append(_group(inner, token["open"]))
        else:
            branches[-1].append(_atom(token["atom"]))
    return _alternatives(branches)


def _alternatives(branches: list[list[_Part]]) -> _Part:
    def follow(subject: _Subject, starts: set[int]) -> set[int]:
        ends: set[int] = set()
        for branch in branches:
            subject.count(starts)  # an empty branch too: there may be very many
            ends |= _follow_all(branch, subject, starts)
        return ends

    return follow


def _follow_all(elements: Iterable[_Part], subject: _Subject, starts: set[int]) -> set[int]:
    for part in elements:
        if not starts:
            break
        subject.count(starts)  # here, for parts such as `a{0}` do nothing that they could count
        starts = part(subject, starts)
    return starts


def _group(part: _Part, opening: str) -> _Part:
    """Return a group's part: the part itself, or a look ahead, which stays where it begins."""
    if opening not in ("(?=", "(?!"):
        return part

    def look_ahead(subject: _Subject, starts: set[int]) -> set[int]:
        is_positive = opening == "(?="
        return {start for start in starts if bool(part(subject, {start})) == is_positive}

    return look_ahead


def _atom(text: str) -> _Part:
    """Return the part of one character, one set of characters, or an anchor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        atom = re.compile(text)

    def follow(subject: _Subject, starts: set[int]) -> set[int]:
        matches = [atom.match(subject.text, start) for start in starts]
        return {match.end() for match in matches if match}

    return follow


def _repeat(part: _Part, count: str) -> _Part:
    """Return the part of a repetition: `*`, `+`, `?` or `{least,most}`."""
    signs = {"*": "0,", "+": "1,", "?": "0,1"}
    numbers = signs.get(count, count.strip("{}"))
    low, comma, high = numbers.partition(",")
    least = int(low or 0)
    most = int(high) if high else least
    is_unlimited = bool(comma) and not high

    def follow(subject: _Subject, starts: set[int]) -> set[int]:
        # Positions only grow, so that after as many rounds as there are positions all stay.
        rounds = len(subject.text) + 1
        for _ in range(min(least, rounds)):
            subject.count(starts)
            starts = part(subject, starts)

        ends = set(starts)
        for _ in range(rounds if is_unlimited else min(most - least, rounds)):
            subject.count(starts)
            starts = part(subject, starts) - ends
            if not starts:
                break
            ends |= starts
        return ends

    return follow
