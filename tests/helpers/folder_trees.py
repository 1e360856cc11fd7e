"""All that a test may find changed in a folder."""

import os
from pathlib import Path


def read_tree(folder: Path) -> dict[str, tuple]:
    """Return rights, inode, size, time of change and content of each entry, by path.

    No link is followed.
    """
    tree = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = os.lstat(path)
        content: bytes | str | None = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        facts = status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns
        tree[path.relative_to(folder).as_posix()] = (*facts, content)
    return tree
