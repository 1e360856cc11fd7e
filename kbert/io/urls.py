"""Addresses where a path is meant: `hf://google/bert`, `s3://bucket/run`, `https://…`."""

import os
import re

# A Path makes one slash of two. One letter is a drive of Windows.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


def refuse_url(path: str | os.PathLike) -> None:
    """Refuse an address, unless a file or folder has that name.

    Raises:
        ValueError: it is one; the message has it as it was written, and how to get what it names.
    """
    text = os.fspath(path)
    match = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if match is None or os.path.exists(text):
        return
    scheme, rest = match.groups()
    way = "copy what it names here first"
    if scheme == "hf":
        way = f"download it first, hf download {rest} --local-dir FOLDER, and give the folder"
    raise ValueError(f"{scheme}://{rest} is an address, and kbert opens local paths only: {way}")
