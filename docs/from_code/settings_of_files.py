"""What kbert does with each key of the files beside a checkpoint's weights."""

import json

from from_code.table import table
from kbert.io.setting_keys import setting_keys

_ORDER = ("obeyed", "refused", "ignored")


def page() -> str:
    """A table for each file; keys that are handled alike for one reason share a row."""
    names = dict.fromkeys(row.file for row in setting_keys())
    return "\n".join(f"## {name}\n\n{_table(name)}" for name in names)


def _table(name: str) -> str:
    alike: dict[tuple, list[str]] = {}
    for row in sorted(setting_keys(name), key=lambda row: _ORDER.index(row.handling)):
        said = row.handling
        if row.handling == "refused":
            said += f" unless `{', '.join(map(json.dumps, row.allowed))}`"
        alike.setdefault((said, row.why), []).append(f"`{row.key}`")
    lines = [(", ".join(keys), said, why) for (said, why), keys in alike.items()]
    return table(("key", "handling", "reason"), lines)
