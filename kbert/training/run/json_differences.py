"""How two values of JSON differ, in words."""

import json
import re

_HASH = re.compile("[0-9a-f]{40,}")


def differences(old, new, name: str = "") -> list[str]:
    """Each place where a run's value and the one of now differ; `name` is what both are of."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{name}.{key}" if name else key
            found += differences(old.get(key), new.get(key), inner)
        return found
    if _of_objects(old) and _of_objects(new) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [text for n, (a, b) in pairs for text in differences(a, b, f"{name}[{n}]")]
    if old == new or (old != old and new != new):
        return []
    return [f"{name}: the run has {_short(old)}, now {_short(new)}"]


def _of_objects(value) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _short(value) -> str:
    if isinstance(value, str) and _HASH.fullmatch(value):
        value = f"{value[:8]}…"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"


def listed(different: list[str], most: int = 3) -> str:
    """The first of them, as one text."""
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return "; ".join(different[:most]) + more
