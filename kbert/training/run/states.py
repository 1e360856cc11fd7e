"""The states that a run has on the disk: found, read if they are whole, removed once superseded.

checkpoints/step-00000120.safetensors      the last two, and the best where there is one
"""

import contextlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbert.io import json_schema as js
from kbert.training.run.state_files import DamagedState, read_facts, read_state

_logger = logging.getLogger("kbert")
_SCORE = js.or_null(js.number(-np.inf, np.inf))
_FACTS = js.fields(
    {"step": js.whole(0, 2**62), "score": _SCORE, "tie": _SCORE}
    | {"settings": js.OBJECT, "fingerprint": js.OBJECT}
)
_NAME = re.compile(r"step-(\d{8,})\.safetensors")
KEPT = 2  # beside the best


@dataclass(frozen=True)
class State:
    """A whole state after `step` steps; `score` is its evaluation's, higher is better."""

    step: int
    arrays: dict[str, np.ndarray]
    score: float | None


class States:
    """The states of the run with the id `run`, in a folder; those of another are passed over.

    `check` raises a ValueError for a fingerprint and settings that are not the run's.
    """

    def __init__(self, folder: Path, run: str, check: Callable[[dict, dict], None]):
        self.folder, self._run, self._check = folder, run, check

    def path(self, step: int) -> Path:
        """Return the path of a step's state."""
        return self.folder / f"step-{step:08d}.safetensors"

    def last(self) -> State | None:
        """Return the last one that is whole and of this run; None where there is none."""
        for path in reversed(self._files()):
            if state := self._read(path):
                return state
            _logger.warning("%s: using the state before it instead", path.name)
        return None

    def best(self) -> State | None:
        """Return the whole one with the highest score; None where none has one."""
        for path in sorted(self._files(), key=_score, reverse=True):  # the first of equals
            if _score(path)[0] > -np.inf and (state := self._read(path)):
                return state
        return None

    def remove_superseded(self, step: int) -> None:
        """Remove those up to a step that are neither of the last two nor the best one."""
        files = [file for file in self._files() if _step(file) <= step]
        scored = [file for file in files if _score(file)[0] > -np.inf]
        best = max(scored, key=_score, default=None)  # the first of equals
        for file in files[:-KEPT]:
            if file != best:
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
        for file in self._files():
            if _step(file) > step:
                file.rename(file.with_name(f"{file.name}.refused"))

    def _files(self) -> list[Path]:
        """By step."""
        files = self.folder.glob("step-*.safetensors")
        return sorted((file for file in files if _NAME.fullmatch(file.name)), key=_step)

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


def _score(path: Path) -> tuple[float, float]:
    """Return the score and what breaks ties, higher is better."""
    try:
        facts = js.check(read_facts(path), _FACTS, str(path))
    except (ValueError, OSError):  # damaged
        facts = {"score": None, "tie": None}
    first, second = (-np.inf if facts[key] is None else facts[key] for key in ("score", "tie"))
    return first, second


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-").removesuffix(".safetensors"))  # as `_NAME` has it
