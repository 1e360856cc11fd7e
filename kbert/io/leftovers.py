"""Names of temporary files with their writer's mark, so that a killed writer's are removed."""

import contextlib
import os
import platform
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

_OWNER = re.compile(r"\.([0-9a-f]{8})-(\d{1,9})\.")
_in_use: set[str] = set()  # of this process


@contextlib.contextmanager
def part_of(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """Give a temporary path next to `path`, removed at the end; it names this process.

    What killed writers of the same path left there is cleared away first.

    Args:
        path: what is to be written.
        folder: where the part is to lie; None: in the folder of `path`.
    """
    folder = folder or path.parent
    _clear(folder, path.name)
    part = folder / f".{path.name}{owner()}part"
    with _in_use_by_us(part):
        yield part


@contextlib.contextmanager
def part_folder_of(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """Create a temporary folder, named as `part_of` names a file."""
    folder = folder or path.parent
    _clear(folder, path.name)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}{owner()}", suffix=".part", dir=folder))
    with _in_use_by_us(part):
        yield part


@contextlib.contextmanager
def _in_use_by_us(part: Path) -> Iterator[None]:
    """For as long as it lasts the part is no leftover; then it is removed."""
    place = os.path.abspath(part)
    _in_use.add(place)
    try:
        yield
    finally:
        _remove(part)
        _in_use.discard(place)


def owner() -> str:
    """Return the mark of this process in a name: its machine and its process id, between points."""
    return f".{zlib.crc32(platform.node().encode()):08x}-{os.getpid()}."


def is_left(path: Path) -> bool:
    """Return whether a path's name says that an ended process of this machine made it."""
    found = _OWNER.findall(path.name)
    if not found or os.path.abspath(path) in _in_use:
        return False
    machine, process = found[-1]
    if machine != owner()[1:9]:
        return False
    return int(process) == os.getpid() or not _is_running(int(process))


def _clear(folder: Path, name: str) -> None:
    """Remove the parts of a name that are left."""
    start = f".{name}."
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            is_part = entry.name.startswith(start) and entry.name.endswith(".part")
            if is_part and is_left(Path(entry.path)):
                _remove(Path(entry.path))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if sys.platform == "win32":  # where os.kill ends the process
        import ctypes

        handle = ctypes.windll.kernel32.OpenProcess(0x100000, False, process)  # SYNCHRONIZE
        return bool(handle and ctypes.windll.kernel32.CloseHandle(handle))
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True
