"""Every parameter's name in each format, side by side."""

from from_code.table import table
from kbert.checkpoints.weight_names import COLUMNS, PARTS, TABLE


def page() -> str:
    """A table for each part of the graph; i counts layers from 0, n blocks from 1."""
    return "\n".join(f"## {part}\n\n{_table(part)}" for part in PARTS)


def _table(part: str) -> str:
    lines = []
    for row in TABLE[part]:
        named = [row.names.get(column) for column in COLUMNS]
        shape = " × ".join(row.shape)
        lines.append([*(f"`{name}`" if name else "" for name in named), shape])
    return table((*COLUMNS, "shape in transformers"), lines)
