"""Whether a file may be replaced: only one that kbert wrote, of the kind that is written there.

A picture and a page carry a mark, a graph as text is known by how kbert begins it, and a NumPy
archive by the names of its arrays.
"""

import os
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

from kbert.io.latex import LATEX_MARK
from kbert.io.wording import hint

PAGE_MARK = '<meta name="generator" content="kbert">'  # in the head of every page that kbert writes
DOT_BEGINNING = "digraph model {\ngraph [rankdir=BT"
# its width is in pixels: names stay on a line
WEIGHTS_BEGINNING = "// Weights of a page that kbert wrote.\n"
MERMAID_BEGINNING = '%%{init: {"flowchart": {"wrappingWidth": 400}}}%%\nflowchart BT'

_PNG_TEXT = b"tEXtComment\0written by kbert"
_PNG_HEAD = 8 + 25  # bytes of the signature and of the first chunk, the header
_SVG_COMMENT = b"<!-- written by kbert -->\n"
_PDF_COMMENT = b"% written by kbert\n"  # at the end: the table of a PDF counts bytes from its start

_READ_BYTES = 1024  # at either end of a file
_SIGNS = {  # what an end of a file must contain
    ".png": _PNG_TEXT,
    ".pdf": _PDF_COMMENT,
    ".svg": _SVG_COMMENT,
    ".dot": DOT_BEGINNING.encode(),
    ".mmd": MERMAID_BEGINNING.encode(),
    ".tex": LATEX_MARK.encode(),
    ".html": PAGE_MARK.encode(),
    ".htm": PAGE_MARK.encode(),
    ".js": WEIGHTS_BEGINNING.encode(),
}
_ARRAYS = {"tokens.npy", "weights.npy", "layers.npy", "heads.npy"}  # of an `AttentionMap`
_KINDS = {
    ".png": "a PNG picture that kbert wrote",
    ".pdf": "a PDF that kbert wrote",
    ".svg": "an SVG picture that kbert wrote",
    ".npz": "a NumPy archive that kbert wrote",
    ".dot": "a graph that kbert wrote",
    ".mmd": "a graph that kbert wrote",
    ".tex": "a LaTeX file that kbert wrote",
    ".html": "a page that kbert wrote",
    ".htm": "a page that kbert wrote",
    ".js": "weights of a page that kbert wrote",
}


def mark_picture(picture: bytes, ending: str) -> bytes:
    """Return a .png, .svg or .pdf picture with a comment that kbert wrote it."""
    if ending == ".png":
        crc = struct.pack(">I", zlib.crc32(_PNG_TEXT))
        length = len(_PNG_TEXT) - len(b"tEXt")
        chunk = struct.pack(">I", length) + _PNG_TEXT + crc
        return picture[:_PNG_HEAD] + chunk + picture[_PNG_HEAD:]
    if ending == ".svg":
        return picture.replace(b"<svg", _SVG_COMMENT + b"<svg", 1)
    return picture.rstrip(b"\n") + b"\n" + _PDF_COMMENT


def is_of_kind(path: str | os.PathLike) -> bool:
    """Return whether kbert wrote a file, of the kind that its ending names, or it is empty."""
    path = Path(path)
    ending = path.suffix.lower()
    size = path.stat().st_size
    if size == 0:
        return True
    if ending == ".npz":
        return _has_arrays(path)

    with open(path, "rb") as file:
        if ending == ".pdf":
            file.seek(max(0, size - _READ_BYTES))
        part, sign = file.read(_READ_BYTES), _SIGNS[ending]
    if ending in (".dot", ".mmd", ".tex"):
        return part.startswith(sign)
    return sign in part


def _has_arrays(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist()) >= _ARRAYS
    except (zipfile.BadZipFile, ValueError):
        return False


def check_kind(path: str | os.PathLike) -> None:
    """Raise a FileExistsError for an existing file that must not be replaced; see `is_of_kind`."""
    path = Path(path)
    if path.is_file() and not is_of_kind(path):
        raise FileExistsError(
            f"{path} is not {_KINDS[path.suffix.lower()]}, and only such a file is replaced: "
            "choose another path, or remove the file first"
        )


def hint_of_ending(path: str | os.PathLike, endings: Collection[str]) -> str:
    """Suggest the path with the known ending that is close to its own; "" if none is."""
    path = Path(path)
    if not path.suffix:
        return ""
    known = [ending.removeprefix(".") for ending in endings]
    return hint(path.suffix.removeprefix("."), known, "", f"{path.with_suffix('')}.")
