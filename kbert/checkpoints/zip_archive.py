"""Zip archives: one of a checkpoint, as Google releases them, and check sums of members."""

import contextlib
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from kbert.io import bounds
from kbert.io.bounds import damage_in_one_line, rename_in_errors

_FORM = ".zip"
_CHUNK = 2**22  # bytes


@contextlib.contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """Unpack an archive to a folder; errors about its files name their path in the archive."""
    with open(path, "rb") as raw, tempfile.TemporaryDirectory(prefix="kbert-") as parent:
        name = path.stem.strip(".") or "zip"
        folder = Path(parent) / name  # Google's names say the casing
        folder.mkdir()
        with damage_in_one_line(path, _FORM):
            archive = zipfile.ZipFile(raw)
            members = archive.infolist()
        for member in members:
            _refuse_way_out(path, member)
        size = sum(member.file_size for member in members)
        bounds.check_unpacked(path, "the archive", path.stat().st_size, size)
        with damage_in_one_line(path, _FORM):
            archive.extractall(folder)

        inside = []
        for entry in folder.iterdir():
            if not entry.name.startswith((".", "__MACOSX")):
                inside.append(entry)
        is_one_folder = len(inside) == 1 and inside[0].is_dir()
        with rename_in_errors(folder, str(path)):
            yield inside[0] if is_one_folder else folder


def _refuse_way_out(path: Path, member: zipfile.ZipInfo) -> None:
    """Raise a ValueError for a member that would be written outside of the folder."""
    levels = member.filename.replace("\\", "/").split("/")
    is_link = member.external_attr >> 16 & 0o170000 == 0o120000
    if ".." in levels or levels[0] == "" or ":" in levels[0] or is_link:
        raise ValueError(
            f"{path}: an archive's members must stay within their folder, got {member.filename!r}"
        )


class CheckSums:
    """Check sums of members of a zip: who reads these in place passes the sums by."""

    def __init__(self, file: Path, members: Iterable[zipfile.ZipInfo]):
        self._file = file
        self._unread = list(members)
        self._lock = threading.Lock()
        self._damaged: str | None = None

    def find_damaged(self) -> str | None:
        """Return a member whose check sum is wrong; all are read, the first time."""
        with self._lock:
            while self._unread and self._damaged is None:
                member = self._unread.pop(0)
                try:
                    with zipfile.ZipFile(self._file) as archive, archive.open(member) as opened:
                        while opened.read(_CHUNK):
                            pass
                except (zipfile.BadZipFile, zlib.error, EOFError, OSError):
                    self._damaged = member.filename
            return self._damaged


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Make a folder that is gone afterwards; errors call it by another name."""
    with tempfile.TemporaryDirectory(prefix="kbert-") as temporary:
        folder = Path(temporary)
        with rename_in_errors(folder, name):
            yield folder
