"""What a folder holds, to compare it with another."""

import hashlib
from pathlib import Path


def content(folder: Path) -> dict[str, str]:
    """The hash of every file, hidden ones included."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
