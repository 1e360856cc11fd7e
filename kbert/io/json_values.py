"""Values as JSON has them: NaN and infinity, which JSON does not have, become null."""

import json
from dataclasses import asdict, is_dataclass
from fractions import Fraction


def as_json(value):
    """Convert a value to what JSON returns: tuples to lists, keys to text, NaN to None.

    Dataclasses become objects, fractions numbers; an object with `as_json` becomes what that
    returns.
    """
    return json.loads(_dump(value), parse_constant=lambda name: None)


def has_nan(value) -> bool:
    """Return whether a value that JSON can have has NaN or infinity somewhere."""
    constants: list[str] = []
    json.loads(_dump(value), parse_constant=constants.append)
    return bool(constants)


def _dump(value) -> str:
    return json.dumps(value, default=_make_plain)


def _make_plain(value):
    if hasattr(value, "as_json"):
        return value.as_json()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Fraction):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
