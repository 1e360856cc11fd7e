"""Strict parsing of JSON files, and checks of each key's value.

    LENGTHS = fields(optional={"max_seq_length": or_null(whole(1))})
    values = read(path, LENGTHS)

A wrong value raises one ValueError, `FILE: KEY must be …, got …`. Keys without a kind may hold
anything.
"""

import json
import math
import os
import re
import reprlib
from collections import Counter
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
    """A kind of JSON value."""

    what: str  # its name in errors
    fits: Callable[[Any], bool]  # whether a value is of the kind, whatever its entries are
    # Returns (path, value, kind) of the entries of a value that fits; a path is `.key` or `[0]`.
    entries: Callable[[Any], Iterable[tuple[str, Any, "Kind"]]] = lambda value: ()


ANYTHING = Kind("a value", lambda value: value is not _NOTHING)
TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
LIST = Kind("a list", lambda value: isinstance(value, list))
OBJECT = Kind("a JSON object", lambda value: isinstance(value, dict))
LINE = Kind("a JSON object (one object per line)", OBJECT.fits)  # of JSON lines


def whole(least: int = 0, most: int = MOST) -> Kind:
    """Return a whole number of a range, 3 and not 3.0."""
    upper = "" if most == MOST else f" and at most {most}"
    return Kind(f"a whole number of at least {least}{upper}", _is_within(int, least, most))


def number(least: float, most: float) -> Kind:
    """Return a number of a range, both ends included."""
    return Kind(f"a number of {least:g} to {most:g}", _is_within((int, float), least, most))


def _is_within(types, least: float, most: float) -> Callable[[Any], bool]:
    def fits(value) -> bool:
        if not isinstance(value, types) or isinstance(value, bool):
            return False
        return least <= value <= most

    return fits


def one_of(*values) -> Kind:
    """Return one of some texts, or true or false or null."""
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    what = texts[-1]
    if len(texts) > 1:
        what = f"{', '.join(texts[:-1])} or {what}"
    return Kind(what, lambda value: is_one_of(value, values))


def is_one_of(value, values: Iterable) -> bool:
    """Return whether a value equals one of some and has its type: True is not 1."""
    return any(type(value) is type(known) and value == known for known in values)


def text_of(pattern: str, what: str) -> Kind:
    """Return a text that matches a regular expression as a whole; `what` is its name."""
    expression = re.compile(pattern)

    def fits(value) -> bool:
        return isinstance(value, str) and bool(expression.fullmatch(value))

    return Kind(what, fits)


def or_null(kind: Kind) -> Kind:
    """Return a kind that also accepts null, which errors do not mention."""

    def fits(value) -> bool:
        return value is None or kind.fits(value)

    def entries(value):
        return () if value is None else kind.entries(value)

    return Kind(kind.what, fits, entries)


def either(*kinds: Kind) -> Kind:
    """Return a kind of values that fit one of the kinds; the first that fits checks the entries."""

    def fits(value) -> bool:
        return any(kind.fits(value) for kind in kinds)

    def entries(value):
        fitting = next(kind for kind in kinds if kind.fits(value))
        return fitting.entries(value)

    what = " or ".join(kind.what for kind in kinds)
    return Kind(what, fits, entries)


def list_of(kind: Kind, what: str = "a list") -> Kind:
    """Return a list of one kind."""

    def entries(value):
        for index, entry in enumerate(value):
            yield f"[{index}]", entry, kind

    return Kind(what, LIST.fits, entries)


def mapping_of(kind: Kind, what: str = OBJECT.what, keys: str = "(?s:.*)") -> Kind:
    """Return an object whose keys match a pattern and whose values are of one kind."""
    pattern = re.compile(keys)

    def fits(value) -> bool:
        if not isinstance(value, dict):
            return False
        return all(pattern.fullmatch(key) for key in value)

    def entries(value):
        for key, entry in value.items():
            yield f".{key}", entry, kind

    return Kind(what, fits, entries)


def fields(required: dict | None = None, optional: dict | None = None, closed=False) -> Kind:
    """Return an object with some keys and the kind of each; `closed`: with no others."""
    required, optional = required or {}, optional or {}
    known = required | optional
    what = f"an object with {', '.join(known)} alone" if closed else OBJECT.what

    def entries(value: dict):
        for key, kind in known.items():
            if key in required or key in value:
                yield f".{key}", value.get(key, _NOTHING), kind

    def fits(value) -> bool:
        if not isinstance(value, dict):
            return False
        return not closed or set(value) <= set(known)

    return Kind(what, fits, entries)


def check(value, kind: Kind, source: str, path: str = ""):
    """Return the value if it is of the kind; raise a ValueError with source and path if not."""
    if not kind.fits(value):
        got = short_repr(value) if path else type(value).__name__
        raise ValueError(f"{_locate(source, path)} must be {kind.what}, got {got}")
    for inner, entry, entry_kind in kind.entries(value):
        check(entry, entry_kind, source, path + inner)
    return value


def matches(value, kind: Kind) -> bool:
    """Return whether a value is of a kind, with all its entries."""
    return kind.fits(value) and all(
        matches(entry, inner) for _, entry, inner in kind.entries(value)
    )


def _locate(source: str, path: str) -> str:
    return f"{source}: {path.removeprefix('.')}" if path else source


def read(
    path: str | os.PathLike, kind: Kind = ANYTHING, what: str = "JSON", *, largest: int = LARGEST
):
    """Return the value in a JSON file of at most `largest` bytes; other arguments as for `parse`.

    Raise an OSError if it cannot be read, a ValueError if it is too large or `parse` refuses it.
    """
    bounds.check_regular(path)
    with open(path, "rb") as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise ValueError(f"{path} must be JSON of at most {largest >> 20} MiB, got more")
    return parse(data, kind, str(path), what)


def parse(
    text: bytes | str, kind: Kind, source: str, what: str = "JSON", *, any_number: bool = False
):
    """Parse JSON strictly, from a text or from bytes in UTF-8.

    `source` and `what` are its name, and the expectation if it is not JSON, for errors. Raise a
    ValueError for what is not UTF-8, JSON or of the kind, a key that stands twice, a lone
    surrogate, more levels than `DEEPEST`, and a number that is not finite, unless `any_number`.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")  # Windows begins a file with a mark
        value = json.loads(text, object_pairs_hook=_refuse_duplicates, parse_int=_parse_int)
    except UnicodeDecodeError:
        raise ValueError(f"{source} must be UTF-8 text in JSON, got other bytes") from None
    except RecursionError:
        raise ValueError(f"{source} must be {what} of at most {DEEPEST} levels") from None
    except ValueError as error:
        raise ValueError(f"{source} must be {what}, got{_describe_error(error)}") from None

    types: tuple[type, ...] = (dict, list)  # that need a look
    if _ESCAPED_SURROGATE.search(text):
        types += (str,)
    if not any_number and _MAYBE_INFINITE.search(text):
        types += (float,)
    if isinstance(value, types):
        _check_values(value, source, types)
    return check(value, kind, source)


def _describe_error(error: ValueError) -> str:
    """Return what json found instead of JSON, for the end of a message."""
    if not isinstance(error, json.JSONDecodeError):
        return f": {error}"
    text = error.doc.strip()
    if text[:1] in ("{", "["):
        return f": {error}"
    begin = text[:40].splitlines()
    return f" text that begins with {begin[0]!r}" if begin else " an empty file"


def short_repr(value) -> str:
    """Return a value in an error: short, however large or deep it is."""
    if value is _NOTHING:
        return "nothing"
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = _SHOWN
    short.maxlevel, short.maxlist, short.maxdict = 2, 4, 4
    text = short.repr(value)
    return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}…"


def _check_values(
    value, source: str, checked_types: tuple[type, ...], path: str = "", depth: int = 1
) -> None:
    """Raise a ValueError for too many levels, lone surrogates and numbers that are not finite.

    Of the entries below `value` only those of `checked_types` are visited.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{_locate(source, path)} must be a finite number, got {value}")
    if isinstance(value, str):
        match = _SURROGATE.search(value)
        if match:
            raise ValueError(
                f"{source} must be Unicode text, got a lone surrogate {match[0]!r} in "
                f"{short_repr(value)}"
            )
    if not isinstance(value, (dict, list)):
        return
    if depth > DEEPEST:
        raise ValueError(f"{source} must be JSON of at most {DEEPEST} levels, got more")

    if isinstance(value, list):
        for n, entry in enumerate(value):
            if isinstance(entry, checked_types):
                _check_values(entry, source, checked_types, f"{path}[{n}]", depth + 1)
        return
    if str in checked_types:  # the keys are texts of this level
        _check_values(list(value), source, (str,), path, depth)
    for key, entry in value.items():
        if isinstance(entry, checked_types):
            _check_values(entry, source, checked_types, f"{path}.{key}", depth + 1)


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = (key for key, count in counts.items() if count > 1)
        again = next(repeated)
        raise ValueError(f"the key {short_repr(again)} stands twice")
    return values


def _parse_int(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
