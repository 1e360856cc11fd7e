"""Table of the keys in a checkpoint's JSON files, and of what kbert does with each.

The table is `checkpoints/setting_keys.tsv`. A key is "obeyed", or "refused" because it changes the
numbers and kbert cannot do it, or "ignored" because it changes nothing. A key without a row is
ignored. The rows of config.json hold for bert_config.json too.
"""

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from kbert.io import json_schema as js
from kbert.io.row_formats import read_package_table

_ALIKE = {"bert_config.json": "config.json"}  # files with the rows of another


@dataclass(frozen=True)
class SettingKey:
    """A row of the table."""

    file: str
    key: str  # "a.b" is the key b of the object a; a * stands for any letters
    handling: str  # "obeyed", "refused" or "ignored"
    allowed: tuple  # of a refused key, the values that change nothing and are taken
    why: str  # what the key does, or why it is refused or ignored


@cache
def setting_keys(file: str | None = None) -> tuple[SettingKey, ...]:
    """Return the rows of a file; None: the whole table."""
    table = read_package_table("kbert", "checkpoints/setting_keys.tsv")
    keys = []
    for name, key, handling, allowed, why in table:
        if file in (None, name):
            values = tuple(json.loads(allowed or "[]"))
            keys.append(SettingKey(name, key, handling, values, why))
    return tuple(keys)


def check_settings(file: str, values: dict, source: str) -> None:
    """Raise a ValueError if a refused key of a file has a value that is not allowed.

    `source` is the file's name in the error.
    """
    for row in setting_keys(file):
        if row.handling != "refused":
            continue
        value: Any = values
        for key in row.key.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if not js.is_one_of(value, (None, *row.allowed)):
            wanted = json.dumps(row.allowed[0])
            got = js.short_repr(value)
            raise ValueError(f"{source}: {row.key} must be {wanted}, got {got}. {row.why}")


def list_ignored_keys(folder: Path) -> tuple[str, ...]:
    """List the keys in a folder's files that kbert ignores, as "FILE: key, key"."""
    files = {row.file: row.file for row in setting_keys()} | _ALIKE
    lines = []
    for file, name in files.items():
        path = folder / file
        values = js.read(path) if path.is_file() else None
        if isinstance(values, dict):
            known = setting_keys(name)
            patterns = [row.key for row in known if row.handling != "ignored"]
            keys = [key for key in values if not _matches_any(key, patterns)]
            if keys:
                lines.append(f"{file}: {', '.join(keys)}")
    return tuple(lines)


def _matches_any(key: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)
