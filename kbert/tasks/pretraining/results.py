"""The result of a pretraining run."""

from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints.bert import Bert
from kbert.training.loop.history import History
from kbert.training.runner import Outcome


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

    @classmethod
    def from_outcome(cls, outcome: Outcome) -> "Trained":
        """Return the result of what came of a run."""
        assert outcome.folder is not None  # `pretrain` asks for one
        return cls(outcome.bert, outcome.history, outcome.folder)

    def __repr__(self) -> str:
        return f"Trained({self.bert}, {self.history}, {self.folder.name!r})"
