"""Files and folders written whole or not at all: beside their place, then renamed."""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_beside(path: str | os.PathLike, content: bytes) -> None:
    """Writes a file whole or not at all: beside its place, then renamed into it.

    Raises:
        OSError: it cannot be written; names the path that was asked for.
    """
    with beside(path) as part:
        part.write_bytes(content)


@contextlib.contextmanager
def beside(path: str | os.PathLike) -> Iterator[Path]:
    """A path to write a file to, which takes the place of `path` at the end, if all went well.

    Raises:
        OSError: it cannot be written; names the path that was asked for.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file", str(path))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def folder_beside(path: str | os.PathLike) -> Iterator[Path]:
    """A folder to write to; at the end, if all went well, its files take their places in `path`.

    What else `path` holds stays.

    Raises:
        OSError: it cannot be written; names the path that was asked for.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file, not a folder", str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        yield part
        mask = _umask()  # mkdtemp's folder is the owner's alone, and so are safetensors' files
        for entry in (part, *part.rglob("*")):
            os.chmod(entry, (0o777 if entry.is_dir() else 0o666) & ~mask)
        if not path.exists():
            os.rename(part, path)
            return
        for file in sorted(part.rglob("*")):
            place = path / file.relative_to(part)
            if file.is_dir():
                place.mkdir(exist_ok=True)
            else:
                os.replace(file, place)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
