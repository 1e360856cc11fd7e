"""A run's history, as its user gets it, and the plan of its evaluations, states and records."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
        if losses := [line["loss"] for line in self.updates if "loss" in line]:
            text += f", loss {losses[0]:.4g} … {losses[-1]:.4g}"
        if self.evaluations and "val_loss" in self.evaluations[-1]:
            text += f", val_loss {self.evaluations[-1]['val_loss']:.4g}"
        return f"History({text}{', stopped' if self.stopped else ''})"

    @property
    def evaluations(self) -> list[dict]:
        """Recorded steps after which there was an evaluation."""
        return [line for line in self.updates if any(key.startswith("val_") for key in line)]

    def find_evaluation(self, metrics: dict[str, float]) -> dict | None:
        """Return the recorded evaluation that gave these metrics; None where none did."""
        wanted = {f"val_{name}": value for name, value in metrics.items()}
        return next((one for one in self.evaluations if wanted.items() <= one.items()), None)


def rank_metrics(score: str, metrics: Mapping[str, float], prefix: str = "") -> tuple[float, float]:
    """Rank an evaluation: by its score, then by its loss; NaN is the worst.

    See `kbert.training.run_plan.RunPlan` for `score`.
    """
    value, loss = metrics[prefix + score.removeprefix("-")], metrics.get(f"{prefix}loss") or 0.0
    value = -value if score.startswith("-") else value
    first, second = (-math.inf if math.isnan(one) else one for one in (value, -loss))
    return first, second


@dataclass(frozen=True)
class LoopPlan:
    """Plan of a run's evaluations, states and records."""

    steps: int  # of the whole run
    # Computes metrics of the current weights, by name; every host calls it.
    evaluate: Callable[[], dict[str, float]] | None = None
    evaluate_every: int | None = None  # steps; None: one evaluation, at the end
    # Steps between two states; None: after each evaluation that is the best so far, and at the end.
    save_every: int | None = None
    score: str = "-loss"  # see `kbert.training.run_plan.RunPlan`
    patience: int | None = None  # see `kbert.training.run_settings.RunSettings`
    log_every: int = 1  # steps between two records

    @property
    def epoch(self) -> int:
        """Steps between two evaluations, which are an epoch of the callbacks."""
        return self.evaluate_every or self.steps

    def evaluates(self, done: int) -> bool:
        return self.evaluate is not None and self.ends_epoch(done)

    def ends_epoch(self, done: int) -> bool:
        return done % self.epoch == 0 or done == self.steps

    def pauses(self, done: int) -> bool:
        return self.ends_epoch(done) or self.saves(done)

    def saves(self, done: int) -> bool:
        return bool(self.save_every and done % self.save_every == 0)

    def records(self, done: int) -> bool:
        return done % self.log_every == 0 or done == self.steps

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
        name, step = self.score.removeprefix("-"), evaluations[best]["step"]
        return (
            f"stopped after step {evaluations[-1]['step']:,}: dev {name} was best after step "
            f"{step:,}, with no improvement in the {self.patience} evaluations since (patience)"
        )
