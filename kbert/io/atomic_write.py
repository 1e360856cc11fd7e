"""Atomic writes: to a temporary path, then renamed. Its name tells who writes it.

Temporary files of a writer that was killed are removed by the next writer of the same path.
"""

import contextlib
import os
import platform
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kbert.io import file_kinds
from kbert.io.wording import way_to_overwrite

_PART = re.compile(r"\..+\.[0-9a-f]{8}-\d{1,9}\.(.+\.)?part")
_OWNER = re.compile(r"\.([0-9a-f]{8})-(\d{1,9})\.")
_in_use: set[str] = set()  # temporary paths of this process


def write_atomically(path: str | os.PathLike, data: bytes, *, through_link: bool = True) -> None:
    """Write a file whole or not at all; the arguments are those of `atomic_file`."""
    with atomic_file(path, through_link=through_link) as part:
        part.write_bytes(data)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike, *, through_link: bool = True) -> Iterator[Path]:
    """Yield a path to write a file to; without an error, it replaces `path` at the end.

    A link stays one: what it leads to is replaced. Without `through_link` the link is replaced: for
    a file that the user did not name, in a folder that may come from somebody else. An OSError
    names `path`.
    """
    path = Path(path)
    if through_link:
        target = Path(os.path.realpath(path))
    else:
        folder = os.path.realpath(path.parent)
        target = Path(folder) / path.name
    _refuse_folder(path)
    if path.exists() and not path.is_file():  # a renamed file would be there instead of a device
        raise OSError(f"{path}: a device or a pipe, not a regular file")

    try:
        _clear(target.parent, target.name)
        part = target.parent / f".{target.name}{owner()}part"
        with _use(part):
            # a new file: who knows its name could have put a link there
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            created = os.open(part, flags, 0o666)
            os.close(created)
            yield part
            os.replace(part, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(error.errno, reason, str(path)) from None


def check_new_file(
    path: str | os.PathLike,
    endings: Sequence[str] = (),
    what: str = "path",
    *,
    overwrite: bool | None = None,
) -> Path:
    """Return the path if a file can be written there, with one of the endings if there are any.

    `overwrite` says whether a file that is there may be replaced. None: if it is of its kind, see
    `file_kinds`.
    """
    path = Path(path)
    if endings and path.suffix.lower() not in endings:
        near = file_kinds.hint_of_ending(path, endings)
        raise ValueError(
            f"{what} must end in {', '.join(endings)}, got {str(path)!r}"
            + (f": {near}" if near else "")
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such folder. Create it first")
    _refuse_folder(path)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path.parent}: cannot write in this folder")

    if overwrite is None:
        file_kinds.check_kind(path)
    elif not overwrite:
        refuse_existing(path)
    return path


def refuse_existing(path: Path) -> None:
    """Raise a FileExistsError for a file that would be replaced."""
    if path.is_file():
        way = f"replace it with {way_to_overwrite()}, or choose another place"
        raise FileExistsError(f"{path} exists: {way}")


def refuse_input(path: str | os.PathLike, inputs: Iterable[str | os.PathLike | None]) -> None:
    """Raise a ValueError for a path to write to that is an input: it would be lost."""
    if not os.path.exists(path):
        return
    known = (entry for entry in inputs if entry is not None and os.path.exists(entry))
    if any(os.path.samefile(entry, path) for entry in known):
        raise ValueError(f"{path} must not be an input, got one: choose another place")


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path}: a folder, not a file")


@contextlib.contextmanager
def part_folder_of(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """Create a temporary folder for `path`, next to it or in `folder`."""
    folder = folder or path.parent
    _clear(folder, path.name)
    prefix = f".{path.name}{owner()}"
    temporary = tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=folder)
    part = Path(temporary)
    with _use(part):
        yield part


@contextlib.contextmanager
def _use(part: Path) -> Iterator[None]:
    """Protect a temporary path from `_clear`, and remove it at the end."""
    name = os.path.abspath(part)
    _in_use.add(name)
    try:
        yield
    finally:
        _remove(part)
        _in_use.discard(name)


def owner() -> str:
    """Return this process's part of a temporary name: its machine and process id, between dots."""
    return f".{zlib.crc32(platform.node().encode()):08x}-{os.getpid()}."


def is_left(path: Path) -> bool:
    """Return whether a process of this machine that has ended made this temporary path."""
    owners = _OWNER.findall(path.name)
    if not owners or os.path.abspath(path) in _in_use:
        return False
    machine, process = owners[-1]
    if machine != owner()[1:9]:
        return False
    number = int(process)
    return number == os.getpid() or not _is_running(number)


def _clear(folder: Path, name: str) -> None:
    """Remove the temporary files of a name whose writers have ended."""
    start = f".{name}."
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            file_name = entry.name
            is_part = file_name.startswith(start) and file_name.endswith(".part")
            if is_part and is_left(Path(entry.path)):
                _remove(Path(entry.path))


def clear_locked(folder: Path) -> None:
    """Remove all temporary files of kbert in a folder that one process alone may write to."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if _PART.fullmatch(entry.name):
                _remove(Path(entry.path))


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Raise a ValueError if one of a folder's entries that kbert writes or removes is a link."""
    for name in names:
        path = folder / name
        if path.is_symlink():
            raise ValueError(
                f"{path} must be no link, got one to {os.readlink(path)!r}: kbert changes nothing "
                f"outside of {folder}. Put what it leads to in its place"
            )


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
