"""Names of settings that older releases used: read from their files, refused from a user.

The table is aliases.tsv's, kind "old setting".
"""

from typing import Any

from kbert.graph import aliases

_KEEP = {"model": False, "all": True}  # the values that `keep` had


def renamed(content: dict[str, Any]) -> dict[str, Any]:
    """Rename the keys of what an older run wrote, in the objects within too.

    Args:
        content: of settings.json, or of a training state; it stays as it is.
    """
    names = aliases.table()["old setting"]
    return {names.get(name, name): _value(name, value) for name, value in content.items()}


def _value(name: str, value):
    if name == "keep" and isinstance(value, str):
        return _KEEP.get(value, value)
    return renamed(value) if isinstance(value, dict) else value
