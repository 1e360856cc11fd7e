"""States of a run as files: complete or absent, refused if changed, removed once superseded.

One safetensors file a state, which any safetensors reader opens. Its metadata hold the number of
steps, what run it is of and a SHA-256 of all of it, since a truncated or overwritten file can
still have a header that reads well.
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kbert.io import json_schema as js
from kbert.io.atomic_write import atomic_file

_logger = logging.getLogger("kbert")
_NUMBER = js.number(-np.inf, np.inf)
_SCORE = js.or_null(_NUMBER)
_FACTS = js.fields(
    {"step": js.whole(0, 2**62), "score": _SCORE, "tie": _SCORE}
    | {"settings": js.OBJECT, "fingerprint": js.OBJECT}
)
_NAME = re.compile(r"step-(\d{8,})\.safetensors")
MOST_STATES = 2  # beside the best
_FORMAT = "kbert-state-1"


class DamagedState(ValueError):
    """A file that is not, or no longer, one of `write_state`."""


def write_state(path: str | os.PathLike, arrays: dict[str, np.ndarray], facts: dict) -> None:
    """Write a state, with facts as JSON; an OSError leaves an old file as it is."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = Path(path)
    # safetensors requires C order; np.ascontiguousarray would give a scalar a dimension
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(facts, sort_keys=True)
    checksum = _checksum(arrays, text)
    metadata = {"format": _FORMAT, "facts": text, "sha256": checksum}

    with atomic_file(path) as part:
        try:
            save_file(arrays, part, metadata=metadata)
        except SafetensorError as error:
            raise _as_os_error(error, path) from None
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)  # safetensors' files are the owner's alone
        _flush(part)
    _flush(path.parent)


def _as_os_error(error: Exception, path: Path) -> OSError:
    """Return the OSError of an error of safetensors, which says a full disk as text."""
    match = re.search(r"os error (\d+)", str(error))  # … (os error 28)
    if match is None:
        return OSError(errno.EIO, str(error), str(path))
    number = int(match[1])
    return OSError(number, os.strerror(number), str(path))


def read_state(path: str | os.PathLike, whole: bool = True) -> tuple[dict[str, np.ndarray], dict]:
    """Return a state's arrays and facts, if its checksum is right; or the facts in its header.

    Raises:
        OSError: the file cannot be read.
        DamagedState: it is not what `write_state` wrote.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            names = file.keys() if whole else ()
            arrays = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise DamagedState(f"{path} is damaged or no checkpoint: {error}") from None
    is_complete = {"facts", "sha256"} <= set(metadata)
    if metadata.get("format") != _FORMAT or not is_complete:
        raise DamagedState(f"{path} is not a checkpoint of a kbert run")
    try:
        facts = js.parse(metadata["facts"], js.OBJECT, str(path), any_number=True)
    except ValueError:
        raise DamagedState(f"{path} is damaged: its metadata are not JSON") from None
    if whole and _checksum(arrays, metadata["facts"]) != metadata["sha256"]:
        raise DamagedState(f"{path} is damaged: its content does not have the checksum it names")
    return arrays, facts


def _checksum(arrays: dict[str, np.ndarray], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
        flat = np.ascontiguousarray(array).reshape(-1)
        digest.update(flat.view("uint8").data)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """To the disk; a folder too, since the new name is in it."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class State(NamedTuple):
    """A whole state after `step` steps; `score` is its evaluation's, higher is better."""

    step: int
    arrays: dict[str, np.ndarray]
    score: float | None


class States:
    """The states of the run with an id, in a folder; `check` refuses those of other settings."""

    def __init__(self, folder: Path, run: str, check: Callable[[dict, dict], None]):
        self.folder = folder
        self._run = run
        self._check = check

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}.safetensors"

    def last(self) -> State | None:
        """Return the last whole one of this run, None without; a ValueError for other settings."""
        for path in reversed(self._files().values()):
            state = self._read(path)
            if state is not None:
                return state
            _logger.warning("%s: using the state before it instead", path.name)
        return None

    def best(self) -> State | None:
        """Return the whole one with the highest score; None where none has one."""
        for path in _rank(self._files().values()):
            state = self._read(path)
            if state is not None:
                return state
        return None

    def remove_superseded(self, step: int) -> None:
        """Remove those up to a step that are neither of the last two nor the best one."""
        files = [file for number, file in self._files().items() if number <= step]
        best = _rank(files)[:1]
        for file in files[:-MOST_STATES]:
            if file not in best:
                file.unlink()

    def remove_all(self) -> None:
        """Remove every state, those that were set aside too, and the folder once it is empty."""
        for file in self.folder.glob("step-*.safetensors*"):
            if _NAME.fullmatch(file.name.removesuffix(".refused")):
                file.unlink()
        with contextlib.suppress(OSError):  # not there, or with files that are not ours
            self.folder.rmdir()

    def set_aside_after(self, step: int) -> None:
        """Rename the states of later steps to `….refused`."""
        for number, file in self._files().items():
            if number > step:
                file.rename(file.with_name(f"{file.name}.refused"))

    def _files(self) -> dict[int, Path]:
        """Return them by step, ascending."""
        files = {}
        for file in self.folder.glob("step-*.safetensors"):
            match = _NAME.fullmatch(file.name)
            if match:
                files[int(match[1])] = file
        return dict(sorted(files.items()))

    def _read(self, path: Path) -> State | None:
        try:
            arrays, facts = read_state(path)
        except (DamagedState, OSError) as error:
            _logger.warning("%s", error)
            return None
        if facts.get("run") != self._run:
            _logger.warning("%s belongs to another run", path)
            return None
        if not js.matches(facts, _FACTS):
            _logger.warning("%s is damaged: its metadata are not those of a training state", path)
            return None
        self._check(facts["fingerprint"], facts["settings"])
        return State(facts["step"], arrays, facts["score"])


def _rank(paths: Iterable[Path]) -> list[Path]:
    """Return the states with a score, the best first; of equals the first."""
    scores: dict[Path, tuple[float, float]] = {}
    for path in paths:
        with contextlib.suppress(ValueError, OSError):  # damaged
            _, facts = read_state(path, whole=False)
            js.check(facts, _FACTS, str(path))
            score, tie = facts["score"], facts["tie"]
            if score is not None and score > -np.inf:
                scores[path] = score, -np.inf if tie is None else tie
    return sorted(scores, key=scores.__getitem__, reverse=True)
