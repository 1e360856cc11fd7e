"""Files in and out: written beside and renamed, read as JSON."""

import contextlib
import errno
import json
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


def read_json(path: str | os.PathLike, what: str = "JSON"):
    """A JSON file's content; `what` is what an error says that it must be.

    Raises:
        OSError: it cannot be read.
        ValueError: not UTF-8, not JSON, or a key that stands twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # Windows begins a file with a mark
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be UTF-8 text in JSON, got other bytes") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be {what}, got: {error}") from None


def read_object(path: str | os.PathLike) -> dict:
    """A JSON file that must hold an object; raises as `read_json`."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(values).__name__}")
    return values


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} stands twice")
    return values


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
