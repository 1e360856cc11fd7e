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

NAME = ".lock"
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def find_folder(folder: Path, file: int) -> Path | None:
    """Return where the folder of an open lock is now; None if it was removed or cannot be found."""
    places = [folder / NAME]
    with contextlib.suppress(OSError):  # Linux knows
        places.append(Path(os.readlink(f"/proc/self/fd/{file}")))
    for place in places:
        with contextlib.suppress(OSError):
            if os.path.samestat(place.stat(), os.fstat(file)):
                return place.parent
    return None


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[int]:
    """Hold the folder's lock, if the file system has any, and give its file's descriptor.

    A BlockingIOError says that another process holds it.
    """
    file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _HELD:
                    text = "another process is training this run: wait until it ends, or stop it"
                    raise BlockingIOError(f"{folder}: {text}") from None
        yield file
    finally:
        os.close(file)
