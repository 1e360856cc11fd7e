"""Description of a run's folder in words: the size of each part."""

import os
from pathlib import Path

PARTS = ("model", "model.keras", "checkpoints")  # beside them there are small files


def described(folder: str | os.PathLike) -> str:
    """Its size and that of its parts, in megabytes of 10⁶ bytes, on one line."""
    sizes = {entry.name: _size(entry) for entry in Path(folder).iterdir()}
    shown = {name: sizes[name] for name in PARTS if name in sizes}
    total = sum(sizes.values())
    shown["the records"] = total - sum(shown.values())
    parts = ", ".join(f"{name} {_megabytes(size)}" for name, size in shown.items())
    gone = "" if "checkpoints" in sizes else "; --keep-checkpoints keeps the training states"
    return f"{_megabytes(total)}: {parts}{gone}"


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
