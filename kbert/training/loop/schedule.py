"""Schedule of a run's evaluations, states and records, and choice of the best state."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WORST = (-math.inf, -math.inf)


def rank(value: float, loss: float | None) -> tuple[float, float]:
    """Rank an evaluation: by its score, higher is better, then by its loss; NaN is the worst."""
    first, second = (-math.inf if math.isnan(one) else one for one in (value, -(loss or 0.0)))
    return first, second


@dataclass(frozen=True)
class Plan:
    """Plan of a run's evaluations, states and records; see `kbert.training.loop.loop.train`."""

    steps: int
    evaluate: Callable[[], dict[str, float]] | None
    epoch: int  # updates between two evaluations, which is an epoch of the callbacks
    save_every: int | None
    score: str
    log_every: int
    patience: int | None = None

    def evaluates(self, done: int) -> bool:
        return self.evaluate is not None and self.ends_epoch(done)

    def ends_epoch(self, done: int) -> bool:
        return done % self.epoch == 0 or done == self.steps

    def pauses(self, done: int) -> bool:
        """Return whether something is done between this step and the next."""
        return self.ends_epoch(done) or self.saves(done)

    def saves(self, done: int) -> bool:
        return bool(self.save_every and done % self.save_every == 0)

    def records(self, done: int) -> bool:
        return done % self.log_every == 0 or done == self.steps

    def score_of(self, figures: dict[str, float]) -> tuple[float, float]:
        """Rank an evaluation's metrics, see `rank`."""
        value = figures[f"val_{self.score.removeprefix('-')}"]
        return rank(-value if self.score.startswith("-") else value, figures.get("val_loss"))

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
