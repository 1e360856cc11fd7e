"""Short formats of numbers, and numbers that a user writes with a unit."""

import math
import re

_PREFIXES = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BINARY = {f"{prefix}i": 2 ** (10 * power) for power, prefix in enumerate("kmgtp", 1)}


def duration(seconds: float) -> str:
    """Format a duration as 3d04h, 3h05m, 2m10s or 7s."""
    seconds = max(0, round(seconds))
    units = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"))
    for size, unit, inner, inner_unit in units:
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // inner:02d}{inner_unit}"
    return f"{seconds // 60}m{seconds % 60:02d}s" if seconds >= 60 else f"{seconds}s"


def short(number: float) -> str:
    """Format a number as 1.23M, 45.6k or 789."""
    units = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
    for size, unit in units:
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"


def parse_amount(name: str, value: float | str, unit: str, least: float, example: str) -> float:
    """Return a number that may be written with a unit: 165e12, "165T", "165 TFLOP/s", "24GiB".

    `unit` is a pattern of the unit's spellings, behind the prefix. A number below `least` lacks its
    unit. A ValueError has the argument's name and an example.
    """
    pattern = rf"(\d+\.?\d*(?:e[+]?\d+)?)\s*([kmgtp]?i?)(?:{unit})?"
    text = str(value).strip().lower()
    match = re.fullmatch(pattern, text.replace(",", ""))
    factor = (_PREFIXES | _BINARY).get(match[2]) if match else None
    number = float(match[1]) * factor if match and factor else 0.0
    if isinstance(value, bool) or not least <= number < math.inf:
        raise ValueError(f"{name} must be {example}, got {value!r}")
    return number
