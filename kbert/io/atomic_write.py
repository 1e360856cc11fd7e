"""Atomic writes of files and folders: to a temporary path, then renamed."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kbert.io.leftovers import part_of


def write_atomically(path: str | os.PathLike, content: bytes) -> None:
    """Write a file whole or not at all: beside its place, then renamed into it.

    Raises:
        OSError: it cannot be written; names the path that was asked for.
    """
    with atomic_file(path) as part:
        part.write_bytes(content)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[Path]:
    """Give a path to write a file to; without an error, it replaces `path` at the end.

    Raises:
        OSError: it cannot be written; names the path that was asked for.
    """
    path = Path(path)
    _refuse_folder(path)
    if path.exists() and not path.is_file():  # a renamed file would be there instead of a device
        raise OSError(f"{path}: a device or a pipe, not a regular file")
    try:
        with part_of(path) as part:
            yield part
            os.replace(part, path)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None


def check_new_file(path: Path) -> None:
    """Raise an OSError if no file can be written: its folder is missing, or it exists."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such folder. Create it first")
    _refuse_folder(path)


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path}: a folder, not a file")
