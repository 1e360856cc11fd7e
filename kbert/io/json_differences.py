"""How two values of JSON differ, in words."""

import json
import re
from collections.abc import Callable, Iterator

_HASH = re.compile("[0-9a-f]{40,}")


def differing(
    old, new, name: str = "", label: Callable = lambda number, entry: number
) -> Iterator[tuple[str, object, object]]:
    """Yield each place where two values differ, and what they have there.

    Null where one has nothing.

    Args:
        old, new: the values.
        name: what both are of.
        label: what an entry of a list of objects is called, by its number and the new one.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            inner = f"{name}.{key}" if name else key
            yield from differing(old.get(key), new.get(key), inner, label)
    elif _of_objects(old) and _of_objects(new) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differing(one, other, f"{name}[{label(number, other)}]", label)
    elif old != new and (old == old or new == new):  # NaN is NaN
        yield name, old, new


def differences(old, new, name: str = "") -> list[str]:
    """Return each place where a run's value and the one of now differ.

    `name` is what both are of.
    """
    return [
        f"{place}: the run has {_short(before)}, now {_short(now)}"
        for place, before, now in differing(old, new, name)
    ]


def _of_objects(value) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _short(value) -> str:
    if isinstance(value, str) and _HASH.fullmatch(value):
        value = f"{value[:8]}…"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"
