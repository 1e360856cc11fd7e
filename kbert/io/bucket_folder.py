"""A folder in a bucket with a local copy: what a run or a preparation writes is sent there.

An object is whole or not there. Several objects are no transaction, so `push` sends last what says
that the others are complete: states after their records, then result.json or index.json.
"""

import contextlib
import os
import re
import shutil
import tempfile
import uuid
import weakref
from pathlib import Path

from kbert.io.atomic_write import part_folder_of
from kbert.io.remote_files import failures_in_one_line, open_address

_OWNER = ".owner"  # the token of who writes there: of the last one that has begun
_SENT_LATER = re.compile(r"checkpoints/.*|part-\d+\.json")
_SENT_LAST = ("result.json", "index.json")


class BucketFolder:
    """A folder in a bucket. Its local copy is removed when the process ends.

    What a killed process has left of a copy is removed by the next one.

    Raises:
        ImportError: a package is not installed.
        OSError: from each method, if the bucket does not answer, or refuses.

    Attributes:
        address: its address, s3://bucket/folder.
        path: the local copy.
    """

    def __init__(self, address: str | os.PathLike):
        self.remote = open_address(address)
        self.address = str(self.remote).rstrip("/")
        with contextlib.ExitStack() as stack:
            temporary = Path(tempfile.gettempdir())
            copies = part_folder_of(temporary / "kbert-bucket")
            self.path = stack.enter_context(copies) / self.address.rpartition("/")[2]
            self.path.mkdir()
            weakref.finalize(self, stack.pop_all().close)
        self._sent: dict[str, tuple[int, int]] = {}  # versions of the local files that are there
        self._token = b""

    def list_files(self) -> dict[str, int]:
        """Return the sizes in bytes of its files, by their names below it, without hidden ones."""
        root = self.remote.path.rstrip("/")
        with failures_in_one_line(self.address):
            self.remote.fs.invalidate_cache()
            details = self.remote.fs.find(root, detail=True)
        sizes = {}
        for path, facts in details.items():
            name = path.removeprefix(f"{root}/")
            is_within = ".." not in name.split("/")  # else its copy would be elsewhere
            if is_within and not name.startswith("."):
                sizes[name] = facts["size"]
        return sizes

    def fetch(self, pattern: str = ".*") -> None:
        """Copy the files here whose names match and that are not here yet.

        Raise an OSError if there is no room for them.
        """
        sizes = self.list_files()
        names = [name for name in sizes if re.fullmatch(pattern, name) and name not in self._sent]
        needed = sum(sizes[name] for name in names)
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise OSError(
                f"{self.address} needs {needed:,} bytes of {tempfile.gettempdir()}, which has "
                f"{free:,}: set TMPDIR to a folder of a larger disk"
            )
        for name in names:
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with failures_in_one_line(self.address):
                self.remote.fs.get_file(str((self.remote / name).path), str(file))
            self._sent[name] = _read_version(file)

    def claim(self) -> None:
        """Say that this process writes there now: another one that does stops at its next push."""
        self._token = uuid.uuid4().bytes
        with failures_in_one_line(self.address):
            self.remote.fs.pipe_file((self.remote / _OWNER).path, self._token)

    def push(self) -> None:
        """Send what is new here, and remove there what was removed here.

        Raise a RuntimeError if another process has claimed the folder since this one did.
        """
        with failures_in_one_line(self.address):
            token = self.remote.fs.cat_file((self.remote / _OWNER).path)
        if token != self._token:
            raise RuntimeError(
                f"{self.address}: another process has begun to write there: this one stops"
            )
        here = {}
        for file in self.path.rglob("*"):
            name = file.relative_to(self.path).as_posix()
            if file.is_file() and not file.name.startswith("."):
                here[name] = file

        with failures_in_one_line(self.address):
            for name in sorted(here, key=_rank):
                version = _read_version(here[name])
                if self._sent.get(name) != version:
                    self.remote.fs.put_file(str(here[name]), (self.remote / name).path)
                    self._sent[name] = version
            for name in self._sent.keys() - here.keys():
                self.remote.fs.rm_file((self.remote / name).path)
                del self._sent[name]


def _rank(name: str) -> tuple[int, str]:
    """Return a name's place in the order of sending."""
    if name in _SENT_LAST:
        return 2, name
    return int(bool(_SENT_LATER.fullmatch(name))), name


def _read_version(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns
