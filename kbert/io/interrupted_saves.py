"""What a killed save of a folder left: found, checked, and read as if the save had ended.

    FOLDER/.kbert.HOST-PID.new/             the files of the save that are not in FOLDER yet
    FOLDER/.kbert.HOST-PID.new/.kbert.json  its record: all its files, and the files they replace

The record has a stamp of the content of each file. So a save is read, and its files are moved, only
while FOLDER is as that save left it, or is a copy of it. A folder that somebody else put there, in
an archive for example, does not know the files of the user: it is refused. A link is never
followed, since kbert makes none.
"""

import contextlib
import fnmatch
import functools
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from kbert.io import json_schema as js
from kbert.io.atomic_write import is_left
from kbert.io.bounds import rename_in_errors

_logger = logging.getLogger("kbert")

PREFIX = ".kbert"
RECORD = ".kbert.json"
WRITER_TIMEOUT_S = 5.0  # renames take far less: who takes longer was stopped on another machine

_DIGESTED = 1 << 20  # bytes at either end of a file: weights are large
_STAMPS = js.mapping_of(js.TEXT, "stamps by path")
_SCHEMA = js.fields(
    {
        "files": _STAMPS,
        "folders": js.list_of(js.TEXT),
        "replaced": _STAMPS,
        "replaced_folders": js.list_of(js.TEXT),
    },
    closed=True,
)


@dataclass(frozen=True)
class InterruptedSave:
    """A save that was killed while it moved its files from `path` into `folder`.

    Paths are relative to the folder, with "/". For stamps see `stamp`.
    """

    path: Path
    folder: Path
    files: Mapping[str, str]  # stamps of the save's files
    folders: Collection[str]  # that the save's files are in, or that it has without a file
    replaced: Mapping[str, str]  # stamps of the files that are replaced or removed
    replaced_folders: Collection[str]  # that are removed, once they are empty


def list_entries(folder: Path) -> tuple[list[str], list[str]]:
    """List the files, links included, and the folders in a folder by their paths in it.

    What temporary files kbert has in it is left out.
    """
    files, folders = [], []
    for root, names_of_folders, names_of_files in os.walk(folder):
        inner = Path(root).relative_to(folder)
        if inner == Path("."):
            names_of_folders[:] = [name for name in names_of_folders if not is_own(name)]
            names_of_files = [name for name in names_of_files if not is_own(name)]
        links: list[str] = []
        inner_folders: list[str] = []
        for name in names_of_folders:
            is_link = os.path.islink(Path(root, name))
            group = links if is_link else inner_folders
            group.append(name)
        files += [(inner / name).as_posix() for name in (*names_of_files, *links)]
        folders += [(inner / name).as_posix() for name in inner_folders]
    return sorted(files), sorted(folders)


def is_own(name: str) -> bool:
    """Return whether a folder's entry is a writer's temporary file."""
    return name.startswith(f"{PREFIX}.")


def stamp(path: Path) -> str | None:
    """Return a text that is equal for equal files, copies too; None: there is nothing.

    It has the size and a digest of the first and the last MiB, or where a link leads.
    """
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return f"link to {os.readlink(path)}"
        if not stat.S_ISREG(status.st_mode):
            return "no file"
        return f"{status.st_size} bytes, {_digest_ends(path, status.st_size)}"
    except (FileNotFoundError, NotADirectoryError):
        return None


def _digest_ends(path: Path, size: int) -> str:
    try:
        with open(path, "rb") as file:
            digest = hashlib.blake2b(file.read(_DIGESTED), digest_size=16)
            file.seek(max(_DIGESTED, size - _DIGESTED))
            digest.update(file.read(_DIGESTED))
    except PermissionError:  # it can be replaced nevertheless
        return "not readable"
    return digest.hexdigest()


def find_link(folder: Path, files: Collection[str], folders: Collection[str]) -> str | None:
    """Return the first of some inner folders, also of those above files, that is a link or a file.

    Who writes through a link writes somewhere else.
    """
    for name in sorted({*_list_parents(files), *folders}):
        path = folder / name
        is_plain_folder = path.is_dir() and not path.is_symlink()
        if os.path.lexists(path) and not is_plain_folder:
            return name
    return None


def find_matching(names: Collection[str], patterns: Sequence[str]) -> set[str]:
    """Return the names that match one of some patterns, in which * also stands for a "/"."""
    matching: set[str] = set()
    for pattern in patterns:
        matching.update(fnmatch.filter(names, pattern))
    return matching


def _list_parents(files: Collection[str]) -> set[str]:
    """Return the folders above some files by their paths, but for the one that all are in."""
    parents: set[str] = set()
    for name in files:
        paths = PurePath(name).parents
        parents.update(parent.as_posix() for parent in paths)
    return parents - {"."}


def write_record(part: Path, folder: Path, superseded: Sequence[str]) -> InterruptedSave:
    """Write the record of a save whose files are complete in `part`, and return it.

    The save replaces files of the same names, and those that match a pattern in `superseded`; the
    folders of the latter go where they are empty then.
    """
    files, folders = list_entries(part)
    there, _ = list_entries(folder)
    leaving = find_matching(there, superseded)
    replaced = [name for name in there if name in leaving.union(files)]

    new_stamps = {name: stamp(part / name) for name in files}
    old_stamps = {name: stamp(folder / name) for name in replaced}
    record: dict = {
        "files": new_stamps,
        "folders": folders,
        "replaced": old_stamps,
        "replaced_folders": sorted(_list_parents(leaving)),
    }
    text = json.dumps(record)
    (part / RECORD).write_text(text, encoding="utf-8")
    return InterruptedSave(part, folder, **record)


def find_interrupted(folder: Path) -> InterruptedSave | None:
    """Return the interrupted save in a folder, if there is one; wait for a writer that runs.

    Raise a ValueError for one that is not certain to be kbert's, or that the folder no longer fits.
    """
    until = time.monotonic() + WRITER_TIMEOUT_S
    while True:
        unfinished = _list_unfinished(folder)
        if not unfinished:
            return None
        may_wait = time.monotonic() < until
        if may_wait and any(_is_moving(new) for new in unfinished):
            time.sleep(0.01)
            continue
        if len(unfinished) > 1:
            raise _refusal(unfinished[0], "and there is another one")
        with contextlib.suppress(FileNotFoundError):  # its writer was faster
            return _read(unfinished[0], folder)


@contextlib.contextmanager
def open_whole(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a folder, or a file of one, as its last complete save made it; change nothing.

    After an interrupted save this is a temporary folder of links to the files of that save, and to
    the files of the folder that it does not replace. Errors name `path`.
    """
    path = Path(path)
    root, save = _find_save_of(path)
    if save is None:
        yield path
        return
    _warn(root, save.path.name)
    with tempfile.TemporaryDirectory(prefix="kbert-") as parent:
        view = Path(parent) / (root.name or "folder")  # Google's names say the casing
        view.mkdir()
        _link(save, view)
        with rename_in_errors(view, str(root)):
            yield view / path.absolute().relative_to(root)


def is_unmoved(path: Path) -> bool:
    """Return whether a path is none yet, but a file of an interrupted save: `open_whole` has it."""
    if path.exists():
        return False
    try:
        root, save = _find_save_of(path)
    except ValueError:  # somebody's; the path may also be a model's name
        return False
    if save is None:
        return False
    name = path.absolute().relative_to(root).as_posix()
    return name in save.files


def refuse_interrupted(folder: Path, what: str) -> None:
    """Raise a ValueError, which says the way, for a folder with an interrupted save."""
    if find_interrupted(folder) is not None:
        raise ValueError(
            f"{folder} must hold a whole save {what}, got an interrupted one: write its complete "
            f"copy to another folder with kbert convert {folder} FOLDER"
        )


@functools.cache  # once for each save: a command opens a folder several times
def _warn(folder: Path, name: str) -> None:
    _logger.warning(
        "%s: a save was interrupted when all its files were written; they are read from %s. The "
        "next save to this folder moves them to their places",
        folder,
        name,
    )


def _find_save_of(path: Path) -> tuple[Path, InterruptedSave | None]:
    """Return the folder that an interrupted save was to, and the save; None: there is none.

    The folder is `path`, or that of a file, or the one above: a SavedModel has its tokenizer in a
    folder.
    """
    folder = path.absolute()
    folder = folder if folder.is_dir() else folder.parent
    save = find_interrupted(folder)
    if save is not None:
        return folder, save

    with contextlib.suppress(ValueError):  # somebody's, and not of this folder
        save = find_interrupted(folder.parent)
        if save is None:
            return folder, None
        prefix = f"{folder.name}/"
        if any(name.startswith(prefix) for name in save.files):
            return folder.parent, save
    return folder, None


def _list_unfinished(folder: Path) -> list[Path]:
    """Return the entries of a folder that may be interrupted saves; links are none."""
    while True:
        try:
            names = sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []  # in the last case its files may be readable by their names
        own_names = [name for name in names if is_own(name)]
        paths = [folder / name for name in own_names if name.endswith(".new")]
        with contextlib.suppress(FileNotFoundError):
            return [path for path in paths if _holds_files(path)]
        # a writer has just given the save its own name, or has ended: list again


def _holds_files(path: Path) -> bool:
    """Return whether an entry is a folder with files; empty, all of them are moved.

    Raise a FileNotFoundError for an entry that is gone.
    """
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        return False
    return bool(os.listdir(path))


def _is_moving(new: Path) -> bool:
    """Return whether a writer that may still run has moved a file of its save lately."""
    try:
        age = time.time() - os.stat(new).st_mtime
    except FileNotFoundError:  # it has just ended
        return True
    return not is_left(new) and age < WRITER_TIMEOUT_S


def _read(path: Path, folder: Path) -> InterruptedSave:
    """Read an interrupted save; raise a FileNotFoundError if a writer has taken it meanwhile."""
    if stamp(path / RECORD) is None:
        if path not in _list_unfinished(folder):
            raise FileNotFoundError(path)
        raise _refusal(path, "it has no record of its files")
    record = path / RECORD
    if record.is_symlink() or not record.is_file():
        raise _refusal(path, f"{RECORD} in it is no file")
    save = InterruptedSave(path, folder, **js.read(record, _SCHEMA))
    problem = _find_problem(save)
    if problem is None:
        return save
    if path not in _list_unfinished(folder):
        raise FileNotFoundError(path)
    raise _refusal(path, problem)


def _find_problem(save: InterruptedSave) -> str | None:
    """Return why the files of a save cannot be taken for those of its folder; None: they can."""
    paths = {*save.files, *save.folders, *save.replaced, *save.replaced_folders}
    outside = sorted(path for path in paths if not _is_inside(path))
    if outside:
        return f"its record names {outside[0]!r}"
    for parent in (save.folder, save.path):
        link = find_link(parent, paths, save.folders)
        if link:
            return f"{link} is no folder"

    waiting, folders = list_entries(save.path)
    return _find_wrong_new(save, waiting, folders) or _find_wrong_old(save, waiting)


def _find_wrong_new(save: InterruptedSave, waiting: list[str], folders: list[str]) -> str | None:
    """Return what is wrong with the files that are not moved yet."""
    known = {*save.files, *save.folders}
    unknown = sorted({*waiting, *folders} - known)
    if unknown:
        return f"{unknown[0]} in it is none of its files"
    for name in waiting:
        path = save.path / name
        if path.is_symlink() or not path.is_file():
            return f"{name} in it is no regular file"
        if stamp(path) != save.files[name]:
            return f"{name} in it was changed"
    return None


def _find_wrong_old(save: InterruptedSave, waiting: list[str]) -> str | None:
    """Return what is wrong with the files of the folder, moved or to be replaced."""
    for name in sorted({*save.files, *save.replaced}):
        is_moved = name in save.files and name not in waiting
        expected = [save.files[name]] if is_moved else [None, save.replaced.get(name)]
        there = stamp(save.folder / name)
        if there not in expected:
            return f"{name} is missing" if there is None else f"{name} was changed since"
    return None


def _is_inside(path: str) -> bool:
    pure = PurePath(path)
    if not pure.parts or pure.anchor or ".." in pure.parts:
        return False
    return not is_own(pure.parts[0])


def _refusal(path: Path, why: str) -> ValueError:
    return ValueError(
        f"{path.parent} must hold one whole save, got {path.name}, of a save that did not end, "
        f"which is neither read nor moved: {why}. Move the files in it that you want into the "
        "folder, or take another folder; then delete it"
    )


def _link(save: InterruptedSave, view: Path) -> None:
    """Fill an empty folder with links to the files that a save's folder has once it is done."""
    files, folders = list_entries(save.folder)
    leaving = {*save.replaced} - {*save.files}
    leaving_folders = {*save.replaced_folders} - {*save.folders}
    staying = [name for name in files if name not in leaving]
    waiting, _ = list_entries(save.path)
    sources = {name: save.folder / name for name in staying}
    sources |= {name: save.path / name for name in waiting}

    for name in (*folders, *save.folders):
        if name not in leaving_folders:
            (view / name).mkdir(parents=True, exist_ok=True)
    for name, source in sources.items():
        (view / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.symlink(source.absolute(), view / name)
        except OSError:  # Windows allows links to few users
            shutil.copyfile(source, view / name)
