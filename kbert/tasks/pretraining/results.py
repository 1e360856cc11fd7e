"""The result of a pretraining run."""

from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints.bert import Bert
from kbert.training.loop.history import History
from kbert.training.runner import RunResult


@dataclass(frozen=True)
class Trained:
    """The result of a pretraining run.

    Attributes:
        bert: the model, for sequences of any length, with the shards' tokenizer.
        history: a `kbert.types.History`.
        folder: the run's folder.
    """

    bert: Bert
    history: History
    folder: Path

    def __repr__(self) -> str:
        return f"Trained({self.bert}, {self.history}, {self.folder.name!r})"


def make_trained(result: RunResult) -> Trained:
    """Return the result of a run as its user gets it."""
    assert result.folder is not None  # `pretrain` asks for one
    return Trained(result.bert, result.history, result.folder)
