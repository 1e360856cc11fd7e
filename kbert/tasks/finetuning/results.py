"""The result of a fine-tuning run."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints.bert import Bert
from kbert.training.loop.history import History
from kbert.training.runner import RunResult


@dataclass(frozen=True)
class Finetuned:
    """The result of a fine-tuning run.

    Attributes:
        bert: the model, for sequences of any length, with the source's tokenizer and the data's
            labels.
        history: a `kbert.types.History`.
        metrics: metrics of these weights on the dev data, by name; empty without dev data.
        folder: the run's folder; None if nothing was saved.
        intervals: 95 % confidence intervals of the metrics, (lower, upper) by name; see
            `kbert.tasks.common.intervals`.
    """

    bert: Bert
    history: History
    metrics: dict[str, float]
    folder: Path | None
    intervals: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        first_metrics = list(self.metrics.items())[:4]
        metrics = [f"{name} {value:.4g}" for name, value in first_metrics]
        folder = self.folder.name if self.folder else None
        return f"Finetuned({self.bert}, {', '.join(metrics) or 'no dev data'}, {folder!r})"


def make_finetuned(result: RunResult) -> Finetuned:
    """Return the result of a run as its user gets it."""
    # a run of an older kbert has no intervals
    intervals = result.json.get("intervals", {})
    return Finetuned(
        result.bert,
        result.history,
        result.json["metrics"],
        result.folder,
        {name: tuple(pair) for name, pair in intervals.items()},
    )
