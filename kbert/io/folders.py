"""Atomic replacement of a folder's files: all or none, even if the writer is killed.

    FOLDER/.kbert.HOST-PID.….part/  new files, being written: they count for nothing
    FOLDER/.kbert.HOST-PID.new/     all of them, complete: they count, and are moved to FOLDER

The one step between the two is a rename. If the writer is killed before all files are moved,
readers read those that are not moved yet from where they are (`interrupted_saves.open_whole`), and
the next writer moves them. So kbert always sees a whole folder, and it needs only renames within
the folder, which may be a mount, a link, or `.`. Other programs find a folder without its .json
and .pb files then: those are removed first and moved last, so no program takes new weights for
those of an old configuration or graph.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from kbert.io.atomic_write import owner, part_folder_of
from kbert.io.interrupted_saves import (
    PREFIX,
    RECORD,
    InterruptedSave,
    find_interrupted,
    find_link,
    find_matching,
    is_own,
    list_entries,
    stamp,
    write_record,
)
from kbert.io.wording import way_to_overwrite

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
_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike, *, superseded: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a folder to write to; without an error, its files are moved to `path` at the end.

    The folder is created if necessary. Old files go if they have the name of a new one, or if their
    path in it matches one of the patterns `superseded`, such as "variables/*". An OSError names
    `path`.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))  # a link stays one
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{path}: a file, not a folder")

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            finish(target)
            part_folder = part_folder_of(Path(PREFIX[1:]), target)
        else:
            part_folder = part_folder_of(target)
        with part_folder as part:
            yield part
            _open_to_all(part)
            _replace_files(part, target, superseded)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(error.errno, reason, str(path)) from None


def _open_to_all(folder: Path) -> None:
    """Give a folder and its entries the usual rights: mkdtemp's and safetensors' are narrower."""
    mask = os.umask(0)
    os.umask(mask)
    for entry in (folder, *folder.rglob("*")):
        rights = 0o777 if entry.is_dir() else 0o666
        os.chmod(entry, rights & ~mask)


def finish(path: str | os.PathLike) -> None:
    """Move the files of a writer that was killed before it could move all of them.

    Only a writer of the folder calls this. Raise a ValueError for what may be another program's.
    """
    path = Path(path)
    try:
        save = find_interrupted(path)
        while save is not None:
            with _one_at_a_time, contextlib.suppress(FileNotFoundError):  # another was faster
                _claim_and_move(save.path, save)
            save = find_interrupted(path)
        for new in path.glob(f"{PREFIX}.*.new"):
            with contextlib.suppress(OSError):  # it is not empty, or a link
                os.rmdir(new)
    except OSError as error:
        raise type(error)(
            error.errno,
            "its writer was killed before all files were in place, and they cannot be moved: "
            f"{error.strerror}. Make the folder writable, or write the checkpoint again",
            str(path),
        ) from None


def _replace_files(part: Path, target: Path, superseded: Sequence[str]) -> None:
    if not target.exists():
        os.rename(part, target)
        return
    _check_movable(part, target)
    _check_removable(target, superseded)
    finish(target)  # another writer's, since we began
    save = write_record(part, target, superseded)
    with _one_at_a_time:
        _claim_and_move(part, save)


def _check_movable(part: Path, target: Path) -> None:
    """Raise an OSError for a file that cannot be moved, before anything is moved."""
    files, folders = list_entries(part)
    link = find_link(target, files, folders)
    if link is not None:
        raise NotADirectoryError(errno.ENOTDIR, f"{link} in it is no folder", str(target))
    for name in files:
        old = target / name
        if old.exists() and not old.is_file():
            raise OSError(errno.EINVAL, f"{name} in it is no regular file", str(target))


def _check_removable(target: Path, superseded: Sequence[str]) -> None:
    """Raise an OSError for a file that cannot be removed, before anything is removed."""
    effective = os.access in os.supports_effective_ids
    files, _ = list_entries(target)
    leaving = find_matching(files, superseded)
    folders = {(target / name).parent for name in leaving}
    for folder in sorted(folders):
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
            what = f"the files of {folder.relative_to(target)} in it may not be taken away"
            raise PermissionError(errno.EACCES, what, str(target))


def _claim_and_move(source: Path, save: InterruptedSave) -> None:
    """Give a complete save the name of this process's, and move its files into the folder."""
    folder = save.folder
    new = folder / f"{PREFIX}{owner()}new"
    os.rename(source, new)
    waiting = set(list_entries(new)[0])

    # what is moved already has another stamp than the old file, and stays
    for name in _describing_first(save.replaced):
        is_leaving = name not in save.files or (name in waiting and _is_describing(name))
        if is_leaving and stamp(folder / name) == save.replaced[name]:
            os.unlink(folder / name)
    _remove_empty(folder, {*save.replaced_folders} - {*save.folders})

    for name in save.folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in reversed(_describing_first(waiting)):
        os.replace(new / name, folder / name)

    _remove_empty(new, save.folders)
    os.unlink(new / RECORD)
    os.rmdir(new)


def _describing_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (not _is_describing(name), name))


def _is_describing(name: str) -> bool:
    return PurePath(name).suffix in _DESCRIBING


def _remove_empty(folder: Path, names: Iterable[str]) -> None:
    """Remove those inner folders that are empty, the inmost first."""
    for name in sorted(names, reverse=True):
        with contextlib.suppress(OSError):  # somebody's file is in it
            os.rmdir(folder / name)


def has_files(path: Path) -> bool:
    """Return whether a path is a folder with entries that are no writer's temporary files."""
    if not path.is_dir():
        return False
    return not all(is_own(entry.name) for entry in path.iterdir())


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
