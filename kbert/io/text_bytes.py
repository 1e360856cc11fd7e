"""Bytes of text files: compressed ones are unpacked, UTF-16 is converted, other files are refused.

A file is recognized by its first bytes, not by its name.
"""

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from kbert.io import extras

ENDINGS = (".gz", ".bz2", ".xz", ".zst")  # of compressed files that are read
PARQUET = b"PAR1"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"  # and a length; files of `datasets` begin so

_HEAD = 1 << 12  # bytes that tell a text from other files
_MARK = 16  # bytes that tell whether a file is compressed
# Python has it since 3.14; before, it is the package of that name.
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_PACKED = (  # first bytes, ending, module; a Python may have been built without one of these
    (re.compile(rb"\x1f\x8b"), ".gz", "gzip"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), ".bz2", "bz2"),
    (re.compile(rb"\xfd7zXZ\x00"), ".xz", "lzma"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), ".zst", ZSTD),
)
_WIDE = (  # longer marks first
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_UNPACK = "unpack it first"
_OTHERS = (  # first bytes, what they begin, what to do
    (PARQUET, "a Parquet file", "save its texts as .txt, one per line, or as JSON lines"),
    (ARROW_FILE, "an Arrow file", "save it as .csv or as JSON lines"),
    (b"\x04\x22\x4d\x18", "an .lz4 file", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a .7z file", _UNPACK),
    (b"PK\x03\x04", "a .zip file, as Excel's and Word's are too", "unpack it, or save it as text"),
    (b"%PDF-", "a PDF file", "save its text as .txt"),
)
_TAR = slice(257, 262)  # where an archive of tar says "ustar"
_NUL_SHARE = 0.01  # of the first bytes; UTF-16 has a NUL in each blank and line end at least


def read_text(path: str | os.PathLike) -> bytes:
    """Return a file's text, in UTF-8 if it is valid, without a byte order mark."""
    data = Path(path).read_bytes()
    return convert_text(data, os.fspath(path))


def convert_text(data: bytes, name: str) -> bytes:
    """Return a text unpacked and in UTF-8; raise a ValueError for bytes of another kind of file.

    `name` is the file's, for errors. Bytes that are no UTF-8 are left to the reader of the lines.
    """
    with _unpack(io.BytesIO(data), name) as file:
        data = file.read()
    encodings = [encoding for mark, encoding in _WIDE if data.startswith(mark)]
    encoding = encodings[0] if encodings else None
    if encoding is not None:
        try:
            data = data.decode(encoding).encode()
        except UnicodeError as error:
            raise ValueError(f"{name}: expected {encoding.upper()} text, got: {error}") from None
    _refuse_others(data[:_HEAD], name)
    return data.removeprefix(b"\xef\xbb\xbf")


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """Open a file's bytes, unpacked; raise a ValueError for a file that is not UTF-8 text."""
    with path.open("rb") as raw, _unpack(cast(BinaryIO, raw), str(path)) as file:
        head = file.read(_HEAD)
        if head.startswith(tuple(mark for mark, _ in _WIDE)):
            raise _convert_first(str(path))
        _refuse_others(head, str(path))
        file.seek(0)
        yield file


def is_packed(path: Path) -> bool:
    """Return whether a file is compressed, in a way that is read."""
    with path.open("rb") as file:
        head = file.read(_MARK)
    return any(mark.match(head) for mark, _, _ in _PACKED)


def drop_ending(path: Path) -> Path:
    """Return a path without the ending of a compressed file: a.csv for a.csv.gz."""
    if path.suffix.lower() in ENDINGS:
        return path.with_suffix("")
    return path


@contextlib.contextmanager
def _unpack(raw: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Yield the unpacked bytes of an open file; it says by its first bytes whether it is packed."""
    head = raw.read(_MARK)
    raw.seek(0)
    suffix = Path(name).suffix.lower()
    for mark, ending, module in _PACKED:
        if mark.match(head) or (suffix == ending and head):
            if module == "backports.zstd":
                what = f"{name}, a .zst file,"
                extras.require(what, "corpora", "backports.zstd", instead="or unpack it")
            with importlib.import_module(module).open(raw, "rb") as file:
                unpacked = _Unpacked(file, f"{name}: must be a whole {ending} file")
                yield cast(BinaryIO, unpacked)
            return
    yield raw


class _Unpacked(io.RawIOBase):
    """An unpacked file, with one line for damage."""

    def __init__(self, file, expected: str):
        self._file, self._expected = file, expected

    def read(self, size: int = -1) -> bytes:
        with self._damage_in_one_line():
            return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        with self._damage_in_one_line():
            return self._file.seek(offset, whence)

    @contextlib.contextmanager
    def _damage_in_one_line(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each module has its own
            raise OSError(f"{self._expected}, got: {error}") from None


def _refuse_others(head: bytes, name: str) -> None:
    """Raise a ValueError for the first bytes of a file that is no UTF-8 text."""
    for mark, what, way in _OTHERS:
        if head.startswith(mark):
            raise ValueError(f"{name}: expected UTF-8 text, got {what}: {way}")
    if head[_TAR] == b"ustar":
        raise ValueError(f"{name}: expected UTF-8 text, got a .tar archive: {_UNPACK}")
    if head.count(0) > _NUL_SHARE * len(head):
        raise _convert_first(name)


def _convert_first(name: str) -> ValueError:
    return ValueError(
        f"{name}, line 1: must be UTF-8, got UTF-16 or no text at all: save it as UTF-8, or "
        "convert it, iconv -f UTF-16 -t UTF-8 FILE > NEW"
    )
