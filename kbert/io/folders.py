"""Atomic replacement of a folder's files: all or none, even if the writer is killed.

    FOLDER/.kbert.HOST-PID.….part/    new files, being written: they count for nothing
    FOLDER/.kbert.HOST-PID.new/       all of them, whole: they count, and take their places
    FOLDER/.kbert.HOST-PID.alone.new/ the same, and what else the folder holds goes first

The one step between the two is a rename. Files that have not taken their places when the writer is
killed do so as soon as kbert reads or writes the folder again: it is whole for every reader, and
needs nothing of the system but renames within the folder, which may be a mount, a link, or `.`.
Other programs find a folder without its .json and .pb files then: those go first and come last, so
that none takes new weights for those of an old configuration or graph.
"""

import contextlib
import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from kbert.io.leftovers import is_left, owner, part_folder_of

_NAME = ".kbert"
_NEW, _ALONE = "new", "alone.new"
_DESCRIBING = (".json", ".pb")  # endings of what another program opens first
_WRITER_TIMEOUT_S = 5.0  # renames take far less: who takes longer was stopped on another machine
_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike, *, alone: bool = False) -> Iterator[Path]:
    """Give a folder to write to; without an error, its files are moved to `path` at the end.

    Args:
        path: the folder, made where it is not there.
        alone: what else it holds goes; else it stays.

    Raises:
        OSError: it cannot be written; names the path that was asked for.
    """
    path, place = Path(path), Path(os.path.realpath(path))  # a link stays one
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(f"{path}: a file, not a folder")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            finish(place)
            made = part_folder_of(Path(_NAME[1:]), place)
        else:
            made = part_folder_of(place)
        with made as part:
            yield part
            _as_others_are(part)
            _put(part, place, _ALONE if alone else _NEW)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None


def finish(path: str | os.PathLike) -> None:
    """Give the files of a writer that was killed between them their places; most often: nothing.

    Raises:
        OSError: the folder cannot be written.
    """
    path = Path(path)
    until = time.monotonic() + _WRITER_TIMEOUT_S
    while unfinished := _unfinished(path):
        if not is_left(unfinished) and time.monotonic() < until:  # its writer is at it
            time.sleep(0.01)
            continue
        try:
            with _one_at_a_time, contextlib.suppress(FileNotFoundError):  # another was faster
                own = path / f"{_NAME}{owner()}{_ALONE if _is_alone(unfinished) else _NEW}"
                os.rename(unfinished, own)
                _move(own, path)
        except OSError as error:
            raise type(error)(
                error.errno,
                "its writer was killed before all files were in place, and they cannot be moved: "
                f"{error.strerror}. Make the folder writable, or write the checkpoint again",
                str(path),
            ) from None


def _unfinished(path: Path) -> Path | None:
    if not path.is_dir():
        return None
    return next(iter(sorted(path.glob(f"{_NAME}.*.new"))), None)


def _put(part: Path, place: Path, kind: str) -> None:
    """Make the files of a part those of the folder."""
    if not place.exists():
        os.rename(part, place)
        return
    if kind == _NEW:
        _check_places(part, place)
    else:
        _check_clearable(place)
    finish(place)  # of another, since we began
    with _one_at_a_time:
        new = place / f"{_NAME}{owner()}{kind}"
        os.rename(part, new)
        _move(new, place)


def _check_places(part: Path, place: Path) -> None:
    """Raise where a file cannot take its place: later is too late."""
    for entry in part.rglob("*"):
        there = place / entry.relative_to(part)
        if entry.is_dir() and there.exists() and not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{there.name} in it is no folder", str(place))
        if not entry.is_dir() and there.exists() and not there.is_file():
            raise OSError(errno.EINVAL, f"{there.name} in it is no regular file", str(place))


def _check_clearable(place: Path) -> None:
    """Raise where a file cannot be taken away: later it would leave the old ones in part."""
    effective = os.access in os.supports_effective_ids
    inner = (entry for entry in place.rglob("*") if entry.is_dir() and not entry.is_symlink())
    for folder in (place, *inner):
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
            what = f"the files of {folder.relative_to(place)} in it may not be taken away"
            raise PermissionError(errno.EACCES, what, str(place))


def _move(new: Path, path: Path) -> None:
    if _is_alone(new):
        _clear(path)
        new = new.rename(path / f"{_NAME}{owner()}{_NEW}")  # what is there from now on is its own
    for folder in filter(Path.is_dir, new.rglob("*")):
        (path / folder.relative_to(new)).mkdir(parents=True, exist_ok=True)
    files = sorted((f.relative_to(new) for f in new.rglob("*") if not f.is_dir()), reverse=True)
    described = [file for file in files if file.suffix in _DESCRIBING]
    for file in described:
        (path / file).unlink(missing_ok=True)
    for file in [f for f in files if f not in described] + described:
        os.replace(new / file, path / file)
    shutil.rmtree(new)


def _clear(path: Path) -> None:
    for entry in sorted(path.iterdir(), key=lambda entry: entry.suffix not in _DESCRIBING):
        if not is_own(entry.name):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def is_own(name: str) -> bool:
    """Return whether a folder's entry is a writer's temporary file, not yet moved in place."""
    return name.startswith(f"{_NAME}.")


def _is_alone(new: Path) -> bool:
    return new.name.endswith(f".{_ALONE}")


def _as_others_are(part: Path) -> None:
    """Give files and folders the usual rights: mkdtemp's and safetensors' are their owner's."""
    mask = os.umask(0)
    os.umask(mask)
    for entry in (part, *part.rglob("*")):
        os.chmod(entry, (0o777 if entry.is_dir() else 0o666) & ~mask)
