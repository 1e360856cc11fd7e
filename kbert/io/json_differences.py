"""Differences between two values of JSON, in words."""

import json
import re
from collections.abc import Callable, Iterator

_HASH = re.compile("[0-9a-f]{40,}")


def iterate_differences(
    old, new, name: str = "", label: Callable = lambda number, entry: number
) -> Iterator[tuple[str, object, object]]:
    """Yield (name, old value, new value) of each difference; a missing value is None.

    `label` names an entry of a list of objects, by its number and the new entry.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            inner = f"{name}.{key}" if name else key
            before = old.get(key)
            now = new.get(key)
            yield from iterate_differences(before, now, inner, label)
    elif _are_objects(old) and _are_objects(new) and len(old) == len(new):
        for number, (before, now) in enumerate(zip(old, new, strict=True)):
            inner = f"{name}[{label(number, now)}]"
            yield from iterate_differences(before, now, inner, label)
    elif old != new and (old == old or new == new):  # NaN is NaN
        yield name, old, new


def differences(old, new, name: str = "") -> list[str]:
    """Describe each difference between a run's value and the present one, both called `name`."""
    return [
        f"{inner}: the run has {_abbreviate(before)}, now {_abbreviate(now)}"
        for inner, before, now in iterate_differences(old, new, name)
    ]


def _are_objects(value) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(entry, dict) for entry in value)


def _abbreviate(value) -> str:
    if isinstance(value, str) and _HASH.fullmatch(value):
        value = f"{value[:8]}…"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"
