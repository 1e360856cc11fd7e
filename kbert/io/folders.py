"""Atomic replacement of a folder's files: all or none, even if the writer is killed.

    FOLDER/.kbert.HOST-PID.….part/    new files, being written: they count for nothing
    FOLDER/.kbert.HOST-PID.new/       all of them, complete: they count, and are moved to FOLDER
    FOLDER/.kbert.HOST-PID.alone.new/ the same, and the folder's other entries are removed first

The one step between the two is a rename. If the writer is killed before all files are moved, the
next reader or writer moves them. So kbert always sees a whole folder, and it needs only renames
within the folder, which may be a mount, a link, or `.`. Other programs find a folder without its
.json and .pb files then: those are removed first and moved last, so no program takes new weights
for those of an old configuration or graph.
"""

import contextlib
import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from kbert.io.atomic_write import is_left, owner, part_folder_of
from kbert.io.wording import way_to_overwrite

_NAME = ".kbert"
_NEW, _ALONE = "new", "alone.new"
_DESCRIBING = (".json", ".pb")  # endings of what another program opens first
_FILE_ENDINGS = (
    ".csv",
    ".gz",
    ".html",
    ".json",
    ".jsonl",
    ".keras",
    ".npy",
    ".tsv",
    ".txt",
    ".zip",
)
_WRITER_TIMEOUT_S = 5.0  # renames take far less: who takes longer was stopped on another machine
_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike, *, alone: bool = False) -> Iterator[Path]:
    """Yield a folder to write to; without an error, its files are moved to `path` at the end.

    The folder is created if necessary; `alone` removes its other entries. An OSError names `path`.
    """
    path, target = Path(path), Path(os.path.realpath(path))  # a link stays one
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{path}: a file, not a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            finish(target)
            part_folder = part_folder_of(Path(_NAME[1:]), target)
        else:
            part_folder = part_folder_of(target)
        with part_folder as part:
            yield part
            mask = os.umask(0)
            os.umask(mask)
            for entry in (part, *part.rglob("*")):  # mkdtemp's and safetensors' are their owner's
                os.chmod(entry, (0o777 if entry.is_dir() else 0o666) & ~mask)
            _replace_files(part, target, _ALONE if alone else _NEW)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None


def finish(path: str | os.PathLike) -> None:
    """Move the files of a writer that was killed before it could move all of them."""
    path = Path(path)
    until = time.monotonic() + _WRITER_TIMEOUT_S
    while unfinished := sorted(path.glob(f"{_NAME}.*.new")):
        new = unfinished[0]
        if not is_left(new) and time.monotonic() < until:  # its writer is at it
            time.sleep(0.01)
            continue
        try:
            with _one_at_a_time, contextlib.suppress(FileNotFoundError):  # another was faster
                own = path / f"{_NAME}{owner()}{_ALONE if _is_alone(new) else _NEW}"
                os.rename(new, own)
                _move(own, path)
        except OSError as error:
            raise type(error)(
                error.errno,
                "its writer was killed before all files were in place, and they cannot be moved: "
                f"{error.strerror}. Make the folder writable, or write the checkpoint again",
                str(path),
            ) from None


def _replace_files(part: Path, target: Path, kind: str) -> None:
    if not target.exists():
        os.rename(part, target)
        return
    if kind == _NEW:
        _check_movable(part, target)
    else:
        _check_clearable(target)
    finish(target)  # another writer's, since we began
    with _one_at_a_time:
        new = target / f"{_NAME}{owner()}{kind}"
        os.rename(part, new)
        _move(new, target)


def _check_movable(part: Path, target: Path) -> None:
    """Raise an OSError for a file that cannot be moved, before anything is moved."""
    for entry in part.rglob("*"):
        old = target / entry.relative_to(part)
        if entry.is_dir() and old.exists() and not old.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{old.name} in it is no folder", str(target))
        if not entry.is_dir() and old.exists() and not old.is_file():
            raise OSError(errno.EINVAL, f"{old.name} in it is no regular file", str(target))


def _check_clearable(target: Path) -> None:
    """Raise an OSError for a file that cannot be removed, before anything is removed."""
    effective = os.access in os.supports_effective_ids
    inner = (entry for entry in target.rglob("*") if entry.is_dir() and not entry.is_symlink())
    for folder in (target, *inner):
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
            what = f"the files of {folder.relative_to(target)} in it may not be taken away"
            raise PermissionError(errno.EACCES, what, str(target))


def _move(new: Path, path: Path) -> None:
    if _is_alone(new):
        for entry in sorted(path.iterdir(), key=lambda entry: entry.suffix not in _DESCRIBING):
            if not is_own(entry.name):
                shutil.rmtree(
                    entry
                ) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
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


def has_files(path: Path) -> bool:
    """Return whether a path is a folder with entries that are no writer's temporary files."""
    return path.is_dir() and not all(is_own(entry.name) for entry in path.iterdir())


def check_new_folder(path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """Return the path if a folder can be written there: a new or empty one, unless `overwrite`."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path}: a file, not a folder")
    refuse_file_name(path)
    if has_files(path) and not overwrite:
        raise FileExistsError(
            f"{path} holds files: write into it with {way_to_overwrite()}, or choose another place"
        )
    return path


def refuse_file_name(path: Path) -> None:
    """Raise a ValueError for a new folder that would be called as files are, such as vocab.txt."""
    if path.suffix.lower() in _FILE_ENDINGS and not path.exists():
        raise ValueError(f"{path} must be a folder, but ends as a file: leave {path.suffix} out")


def is_own(name: str) -> bool:
    """Return whether a folder's entry is a writer's temporary file."""
    return name.startswith(f"{_NAME}.")


def _is_alone(new: Path) -> bool:
    return new.name.endswith(f".{_ALONE}")
