"""State of a run as a file: complete or absent, and refused if it was changed.

One safetensors file a state, which any safetensors reader opens. Its metadata hold the number of
steps, what run it is of and a SHA-256 of all of it, since a truncated or overwritten file can
still have a header that reads well.
"""

import errno
import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np

from kbert.io import json_schema as js
from kbert.io.atomic_write import atomic_file

_FORMAT = "kbert-state-1"


class DamagedState(ValueError):
    """A file that is not, or no longer, a file of `write_state`."""


def write_state(path: str | os.PathLike, arrays: dict[str, np.ndarray], facts: dict) -> None:
    """Write a state, with facts as JSON: beside its place, flushed to the disk, then renamed.

    Raises:
        OSError: it cannot be written; an old file stays, and nothing half-written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = Path(path)
    # safetensors requires C order; np.ascontiguousarray would give a scalar a dimension
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(facts, sort_keys=True)
    metadata = {"format": _FORMAT, "facts": text, "sha256": _checksum(arrays, text)}
    with atomic_file(path) as part:
        try:
            save_file(arrays, part, metadata=metadata)
        except SafetensorError as error:  # it says a full disk as text: … (os error 28)
            found = re.search(r"os error (\d+)", str(error))
            number = int(found[1]) if found else errno.EIO
            text = os.strerror(number) if found else str(error)
            raise OSError(number, text, str(path)) from None
        os.chmod(part, 0o666 & ~_umask())  # safetensors' files are the owner's alone
        _flush(part)
    _flush(path.parent)


def read_facts(path: str | os.PathLike) -> dict:
    """Read the facts that `write_state` stored with a state, from the header alone.

    Raises:
        OSError: it cannot be read.
        DamagedState: not a state, or a damaged one.
    """
    with _open(path) as file:
        return _parse_facts(path, file.metadata())


def read_state(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict]:
    """Return the arrays and facts of a state whose checksum is right; raise as `read_facts`."""
    with _open(path) as file:
        metadata = file.metadata()
        facts = _parse_facts(path, metadata)
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if _checksum(arrays, metadata["facts"]) != metadata["sha256"]:
        raise DamagedState(f"{path} is damaged: its content does not have the checksum it names")
    return arrays, facts


def _open(path):
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise DamagedState(f"{path} is damaged or no checkpoint: {error}") from None


def _parse_facts(path, metadata: dict | None) -> dict:
    if (
        not metadata
        or metadata.get("format") != _FORMAT
        or not {"facts", "sha256"} <= set(metadata)
    ):
        raise DamagedState(f"{path} is not a checkpoint of a kbert run")
    try:
        return js.parse(metadata["facts"], js.OBJECT, str(path), any_number=True)
    except ValueError:
        raise DamagedState(f"{path} is damaged: its metadata are not JSON") from None


def _checksum(arrays: dict[str, np.ndarray], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view("uint8").data)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """To the disk; a folder too, since the new name is in it."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
