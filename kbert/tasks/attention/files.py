"""The files that attention maps are written to, by their endings."""

import os
from collections.abc import Sequence
from pathlib import Path

from kbert.io.atomic_write import check_new_file

PICTURES = (".png", ".svg", ".pdf")
PAGE, NUMBERS = ".html", ".npz"
ENDINGS = (*PICTURES, PAGE, NUMBERS)


def check_path(path: str | os.PathLike, endings: Sequence[str]) -> Path:
    """Return the path; an error for an ending or a folder that cannot be."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        raise ValueError(f"path must end with one of {', '.join(endings)}, got {path.name!r}")
    check_new_file(path)
    return path
