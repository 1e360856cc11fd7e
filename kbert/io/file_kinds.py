"""Whether a file may be replaced: only one of the kind that is written in its place.

The first bytes tell. A picture is known by its type. What people write by hand too, as pages and
graphs as text, is known by how kbert begins it.
"""

import os
from collections.abc import Collection
from pathlib import Path

from kbert.io.wording import hint

PAGE_MARK = '<meta name="generator" content="kbert">'  # in the head of every page that kbert writes
DOT_BEGINNING = "digraph model {\ngraph [rankdir=BT"
# its width is in pixels: names stay on a line
MERMAID_BEGINNING = '%%{init: {"flowchart": {"wrappingWidth": 400}}}%%\nflowchart BT'

_BEGINNING_BYTES = 1024
_SIGNS = {  # what the beginning of a file must contain
    ".png": b"\x89PNG\r\n\x1a\n",
    ".pdf": b"%PDF-",
    ".svg": b"<svg",
    ".npz": b"PK\x03\x04",  # NumPy's format is a ZIP archive
    ".dot": DOT_BEGINNING.encode(),
    ".mmd": MERMAID_BEGINNING.encode(),
    ".html": PAGE_MARK.encode(),
    ".htm": PAGE_MARK.encode(),
}
_KINDS = {
    ".png": "a PNG picture",
    ".pdf": "a PDF",
    ".svg": "an SVG picture",
    ".npz": "a NumPy archive",
    ".dot": "a graph that kbert wrote",
    ".mmd": "a graph that kbert wrote",
    ".html": "a page that kbert wrote",
    ".htm": "a page that kbert wrote",
}


def is_of_kind(path: str | os.PathLike) -> bool:
    """Return whether a file is of the kind that its ending names; an empty file is of any kind."""
    with open(path, "rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    sign = _SIGNS[Path(path).suffix.lower()]
    if sign.startswith(b"<"):  # behind a declaration and a head
        return not beginning or sign in beginning
    return not beginning or beginning.startswith(sign)


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
