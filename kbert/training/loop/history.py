"""A run's history, as its user gets it, and the plan of its evaluations, states and records."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kbert.training.time_budget import MOST_STEPS, TimeBudget

WORST = (-math.inf, -math.inf)


@dataclass
class History:
    """A run's history.

    Attributes:
        updates: one dictionary per recorded step: "step" (steps done), "loss", each output's loss
            and accuracy, "gradient_norm", "learning_rate", "tokens_per_second", "seconds" (of the
            run so far, over all its starts, without lost work) and, if the model was evaluated, the
            evaluation's metrics with "val_" before the name.
        stopped: why it ended before its last step; None if it did not.
        restored: whether a callback set other weights at the end, as EarlyStopping does with
            `restore_best_weights`. The result has these.
    """

    updates: list[dict] = field(default_factory=list)
    stopped: str | None = None
    restored: bool = False

    def __repr__(self) -> str:
        if not self.updates:
            return "History(no steps)"
        text = f"{len(self.updates)} recorded, to step {self.updates[-1].get('step')}"
        losses = [line["loss"] for line in self.updates if "loss" in line]
        if losses:
            text += f", loss {losses[0]:.4g} … {losses[-1]:.4g}"
        if self.evaluations and "val_loss" in self.evaluations[-1]:
            text += f", val_loss {self.evaluations[-1]['val_loss']:.4g}"
        if self.stopped:
            text += ", stopped"
        return f"History({text})"

    @property
    def evaluations(self) -> list[dict]:
        """Recorded steps after which there was an evaluation."""
        return [line for line in self.updates if _has_evaluation(line)]

    def find_evaluation(self, metrics: dict[str, float]) -> dict | None:
        """Return the recorded evaluation that gave these metrics; None where none did."""
        wanted = {f"val_{name}": value for name, value in metrics.items()}
        for evaluation in self.evaluations:
            if wanted.items() <= evaluation.items():
                return evaluation
        return None


def _has_evaluation(line: dict) -> bool:
    return any(key.startswith("val_") for key in line)


def rank_metrics(score: str, metrics: Mapping[str, float], prefix: str = "") -> tuple[float, float]:
    """Rank an evaluation: by its score, then by its loss; NaN is the worst.

    See `kbert.training.run_plan.RunPlan` for `score`.
    """
    value = metrics[prefix + score.removeprefix("-")]
    if score.startswith("-"):
        value = -value
    loss = metrics.get(f"{prefix}loss") or 0.0
    return _rank_number(value), _rank_number(-loss)


def _rank_number(value: float) -> float:
    return -math.inf if math.isnan(value) else value


class Events(NamedTuple):
    """What a plan has after a step."""

    is_last: bool
    ends_epoch: bool
    evaluates: bool
    saves: bool  # whatever an evaluation's score is
    records: bool


@dataclass(frozen=True)
class LoopPlan:
    """Plan of a run's evaluations, states and records."""

    steps: int  # of the whole run; with a time budget, as many as are expected
    # Computes metrics of the current weights, by name; every host calls it.
    evaluate: Callable[[], dict[str, float]] | None = None
    evaluate_every: int | None = None  # steps; None: one evaluation, at the end
    # Steps between two states; None: after each evaluation that is the best so far, and at the end.
    save_every: int | None = None
    score: str = "-loss"  # see `kbert.training.run_plan.RunPlan`
    patience: int | None = None  # see `kbert.training.settings.run_settings.RunSettings`
    log_every: int = 1  # steps between two records
    budget: TimeBudget | None = None  # ends the run; None: the number of steps does
    profile: range = range(-1, -1)  # steps to profile, counted from 0

    @property
    def epoch(self) -> int:
        """Steps between two evaluations, which are an epoch of the callbacks."""
        return self.evaluate_every or self.steps

    @property
    def most_steps(self) -> int:
        """The largest number of steps that the run may have."""
        return MOST_STEPS if self.budget is not None else self.steps

    def is_finished(self, done: int) -> bool:
        """Return whether a run of so many steps has no further one, as far as that is known."""
        if self.budget is not None:
            return self.budget.is_spent(done)
        return done >= self.steps

    def events_after(self, done: int, is_last: bool = False) -> Events:
        """Return what the plan has after so many steps.

        `is_last`: whether the run ends there; without a time budget its number of steps says so.
        """
        is_last = is_last or done == self.most_steps
        ends_epoch = is_last or done % self.epoch == 0
        return Events(
            is_last=is_last,
            ends_epoch=ends_epoch,
            evaluates=ends_epoch and self.evaluate is not None,
            saves=is_last or bool(self.save_every and done % self.save_every == 0),
            records=is_last or done % self.log_every == 0,
        )

    def pauses(self, done: int) -> bool:
        events = self.events_after(done)
        is_bound = done in (self.profile.start, self.profile.stop)
        return events.ends_epoch or events.saves or is_bound

    def score_of(self, metrics: dict[str, float]) -> tuple[float, float]:
        """Rank an evaluation's metrics, see `rank_metrics`."""
        return rank_metrics(self.score, metrics, "val_")

    def why_to_stop(self, evaluations: Sequence[dict]) -> str | None:
        """Say why the last `patience` evaluations, without a better one, end the run; else None."""
        if self.patience is None or not evaluations:
            return None

        scores = [self.score_of(line) for line in evaluations]
        best = scores.index(max(scores))  # the first of equals
        if len(scores) - 1 - best < self.patience:
            return None

        name = self.score.removeprefix("-")
        step = evaluations[best]["step"]
        return (
            f"stopped after step {evaluations[-1]['step']:,}: dev {name} was best after step "
            f"{step:,}, with no improvement in the {self.patience} evaluations since (patience)"
        )
