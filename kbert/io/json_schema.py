"""Strict parsing of JSON files, and checks of each key's value.

    LENGTHS = fields(optional={"max_seq_length": or_null(whole(1))})
    values = read(path, LENGTHS)

What is not as told raises one ValueError, `FILE: KEY must be …, got …`, so that no use of a value
asks for its type again. Keys that are not named may hold anything.
"""

import json
import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kbert.io import bounds

LARGEST = 2**26  # bytes of a file; the largest tokenizer.json of a BERT has 9 million
DEEPEST = 64  # levels; a model within a model of Keras has about 20
LONGEST_NUMBER = 64  # digits; transformers' "no limit" has 31
MOST = 2**31 - 1  # of a size: what indexes have room for on every backend

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAYBE_INFINITE = re.compile(r"NaN|Infinity|[0-9][eE]\+?[0-9]{2}|[0-9]{200}")
_SHOWN = 60  # characters of a value in an error
_NOTHING = object()  # the value of a key that is not there


@dataclass(frozen=True)
class Kind:
    """A kind of JSON value.

    Attributes:
        what: its name in errors.
        fits: returns whether a value is of the kind, without looking at its parts.
        parts: returns (place, value, kind) of the parts of a value that fits; a place is `.key` or
            `[0]`.
    """

    what: str
    fits: Callable[[Any], bool]
    parts: Callable[[Any], Iterable[tuple[str, Any, "Kind"]]] = lambda value: ()


ANYTHING = Kind("a value", lambda value: value is not _NOTHING)
TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
LIST = Kind("a list", lambda value: isinstance(value, list))
OBJECT = Kind("a JSON object", lambda value: isinstance(value, dict))


def whole(least: int = 0, most: int = MOST) -> Kind:
    """Return a whole number of a range, 3 and not 3.0."""
    upper = "" if most == MOST else f" and at most {most}"
    return Kind(
        f"a whole number of at least {least}{upper}",
        lambda value: (
            isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        ),
    )


def number(least: float, most: float) -> Kind:
    """Return a number of a range, both ends included."""
    return Kind(
        f"a number of {least:g} to {most:g}",
        lambda value: (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and least <= value <= most
        ),
    )


def one_of(*values) -> Kind:
    """Return one of some texts, or true or false or null."""
    words = [value if isinstance(value, str) else json.dumps(value) for value in values]
    what = " or ".join([", ".join(words[:-1]), words[-1]]) if words[1:] else words[0]
    return Kind(what, lambda found: any(type(found) is type(v) and found == v for v in values))


def or_null(kind: Kind) -> Kind:
    """Return a kind that also accepts null, which errors do not mention."""
    return Kind(
        kind.what,
        lambda value: value is None or kind.fits(value),
        lambda value: () if value is None else kind.parts(value),
    )


def either(*kinds: Kind) -> Kind:
    """Return the first of the kinds that fits, its parts left aside."""
    return Kind(
        " or ".join(kind.what for kind in kinds),
        lambda value: any(kind.fits(value) for kind in kinds),
        lambda value: next(kind for kind in kinds if kind.fits(value)).parts(value),
    )


def list_of(kind: Kind, what: str = "a list") -> Kind:
    """Return a list of one kind."""
    return Kind(
        what,
        LIST.fits,
        lambda value: ((f"[{place}]", entry, kind) for place, entry in enumerate(value)),
    )


def mapping_of(kind: Kind, what: str = OBJECT.what, keys: str = "(?s:.*)") -> Kind:
    """Return an object with any keys, those that match a pattern, whose values are of one kind."""
    pattern = re.compile(keys)
    return Kind(
        what,
        lambda value: isinstance(value, dict) and all(map(pattern.fullmatch, value)),
        lambda value: ((f".{key}", entry, kind) for key, entry in value.items()),
    )


def fields(required: dict | None = None, optional: dict | None = None, closed=False) -> Kind:
    """Return an object with some keys and the kind of each; `closed`: with no others."""
    required, optional = required or {}, optional or {}
    known = required | optional
    what = f"an object with {', '.join(known)} alone" if closed else OBJECT.what

    def parts(value: dict):
        for key, kind in known.items():
            if key in required or key in value:
                yield f".{key}", value.get(key, _NOTHING), kind

    def fits(value) -> bool:
        return isinstance(value, dict) and not (closed and set(value) - set(known))

    return Kind(what, fits, parts)


def check(value, kind: Kind, source: str, place: str = ""):
    """Return the value, which is of the kind.

    Raise a ValueError that names the source and the place if not.
    """
    if not kind.fits(value):
        where = f"{source}: {place.removeprefix('.')}" if place else source
        got = shown(value) if place else type(value).__name__
        raise ValueError(f"{where} must be {kind.what}, got {got}")
    for inner, part, part_kind in kind.parts(value):
        check(part, part_kind, source, place + inner)
    return value


def matches(value, kind: Kind) -> bool:
    """Return whether a value is of a kind, with all its parts."""
    return kind.fits(value) and all(matches(part, inner) for _, part, inner in kind.parts(value))


def read(
    path: str | os.PathLike, kind: Kind = ANYTHING, what: str = "JSON", *, largest: int = LARGEST
):
    """Return the content of a file of JSON.

    Args:
        path: the file.
        kind: what the content must be.
        what: what an error says that the file must be, where it is no JSON.
        largest: bytes that it may have.

    Raises:
        OSError: it cannot be read.
        ValueError: larger than that, not UTF-8, not JSON, a key that stands twice, a number
            that is not finite, a lone surrogate, levels beyond `DEEPEST`, or not of the kind.
    """
    bounds.check_regular(path)
    with open(path, "rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"{path} must be JSON of at most {largest >> 20} MiB, got more")
    return parse(content, kind, str(path), what)


def read_object(path: str | os.PathLike) -> dict:
    """Return a file of JSON that must hold an object; raises as `read`."""
    return read(path, OBJECT)


def parse(
    content: bytes | str, kind: Kind, source: str, what: str = "JSON", *, any_number: bool = False
):
    """Parse a text or bytes as `read` does a file.

    Args:
        content: the text.
        kind: the expected kind.
        source: its name in errors.
        what: the expectation that an error names if it is not JSON.
        any_number: whether to accept NaN and infinities, which Python writes into rows of data.
    """
    try:
        if isinstance(content, bytes):
            content = content.decode("utf-8-sig")  # Windows begins a file with a mark
        value = json.loads(
            content,
            object_pairs_hook=_without_duplicates,
            parse_int=_integer,
        )
    except UnicodeDecodeError:
        raise ValueError(f"{source} must be UTF-8 text in JSON, got other bytes") from None
    except RecursionError:
        raise ValueError(f"{source} must be {what} of at most {DEEPEST} levels") from None
    except ValueError as error:
        got = f": {error}"
        if isinstance(error, json.JSONDecodeError) and error.doc.strip()[:1] not in ("{", "["):
            begin = error.doc.strip()[:40].splitlines()
            got = f" text that begins with {begin[0]!r}" if begin else " an empty file"
        raise ValueError(f"{source} must be {what}, got{got}") from None
    _check_levels(value, source, bool(_ESCAPED_SURROGATE.search(content)))
    if not any_number and _MAYBE_INFINITE.search(content):
        _refuse_infinite(value, source)
    return check(value, kind, source)


def shown(value) -> str:
    """Return a value in an error: short, however large or deep it is."""
    if value is _NOTHING:
        return "nothing"
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = _SHOWN
    short.maxlevel, short.maxlist, short.maxdict = 2, 4, 4
    text = short.repr(value)
    return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}…"


def _check_levels(value, source: str, look_for_surrogates: bool) -> None:
    """Raise a ValueError for too many levels, and for half of a character, which no file holds."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"{source} must be JSON of at most {DEEPEST} levels, got more")
        if look_for_surrogates:
            _refuse_surrogates(level, source)
        inner: list = []
        for entry in level:
            entries = entry.values() if isinstance(entry, dict) else entry
            if isinstance(entry, (dict, list)):
                inner += entries
        level = [
            entry
            for entry in inner
            if isinstance(entry, (dict, list)) or (look_for_surrogates and isinstance(entry, str))
        ]


def _refuse_surrogates(values: list, source: str) -> None:
    for value in values:
        texts = [value] if isinstance(value, str) else value if isinstance(value, dict) else ()
        for text in texts:
            if found := _SURROGATE.search(text):
                raise ValueError(
                    f"{source} must be Unicode text, got a lone surrogate {found[0]!r} in "
                    f"{shown(text)}"
                )


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shown(key)} stands twice")
            seen.add(key)
    return values


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _refuse_infinite(value, source: str, place: str = "") -> None:
    if isinstance(value, float) and not math.isfinite(value):
        where = f"{source}: {place.removeprefix('.')}" if place else source
        raise ValueError(f"{where} must be a finite number, got {value}")
    if isinstance(value, dict):
        for key, entry in value.items():
            _refuse_infinite(entry, source, f"{place}.{key}")
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            _refuse_infinite(entry, source, f"{place}[{number}]")
