"""A lock on a run's folder: one process at a time trains the run in it.

The system releases the lock when its process ends, killed or not. The open file also tells where
the folder is now: somebody may move it while the run trains.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None  # type: ignore[assignment]

_NAME = ".lock"
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


class FolderLock:
    """The lock of one folder, held by this process; from `hold`."""

    def __init__(self, folder: Path, file: int):
        self._folder, self._file = folder, file

    def find_folder(self) -> Path | None:
        """Return the folder's path as it is now; None where it was removed, or cannot be found."""
        own = os.fstat(self._file)
        places = [self._folder / _NAME]
        with contextlib.suppress(OSError):  # Linux knows
            places.append(Path(os.readlink(f"/proc/self/fd/{self._file}")))
        for place in places:
            with contextlib.suppress(OSError):
                if os.path.samestat(place.stat(), own):
                    return place.parent
        return None

    def remove_file(self) -> None:
        """Remove the lock's file, once nothing more is trained in the folder."""
        if (folder := self.find_folder()) is not None:
            (folder / _NAME).unlink(missing_ok=True)


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[FolderLock]:
    """Hold the folder's lock, if the file system has any; a BlockingIOError if another does."""
    file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _HELD:
                    text = "another process is training this run: wait until it ends, or stop it"
                    raise BlockingIOError(f"{folder}: {text}") from None
        yield FolderLock(folder, file)
    finally:
        os.close(file)
