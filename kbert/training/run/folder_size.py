"""Description of a run's folder in words: the size of each part."""

import os
from pathlib import Path

PARTS = ("model", "model.keras", "checkpoints")  # beside them there are small files


def described(folder: str | os.PathLike) -> str:
    """Return a folder's size and that of its large parts, in megabytes of 10⁶ bytes."""
    sizes = {entry.name: _size(entry) for entry in Path(folder).iterdir()}
    parts = ", ".join(f"{name} {_megabytes(sizes[name])}" for name in PARTS if name in sizes)
    return f"{_megabytes(sum(sizes.values()))} ({parts})"


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
