"""URLs that are given as paths: `hf://google/bert`, `s3://bucket/run`, `https://…`."""

import os
import re

# A Path makes one slash of two. One letter is a drive of Windows.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


def refuse_url(path: str | os.PathLike, *, to_write: bool = False) -> None:
    """Refuse an address, unless a file or folder has that name.

    Args:
        path: the path, or the address.
        to_write: whether it is to be written; else it is read.

    Raises:
        ValueError: it is one; the message has it as it was written, and what to do instead.
    """
    text = os.fspath(path)
    match = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if match is None or os.path.exists(text):
        return
    scheme, rest = match.groups()
    what, way = "opens local paths only", "copy what it names here first"
    if to_write:
        what, way = "writes to local paths here", "write to one, and copy that"
        way = f"write a folder, then kbert push FOLDER {rest}" if scheme == "hf" else way
    elif scheme == "hf":
        way = f"download it first, hf download {rest} --local-dir FOLDER, and give the folder"
    raise ValueError(f"{scheme}://{rest} is an address, and kbert {what}: {way}")
