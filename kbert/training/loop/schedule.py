"""When a run evaluates, saves and records, and what the best is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """What is done when; see `kbert.training.loop.loop.train`."""

    steps: int
    evaluate: Callable[[], dict[str, float]] | None
    epoch: int  # updates between two evaluations, which is an epoch of the callbacks
    save_every: int | None
    score: str
    log_every: int

    def evaluates(self, done: int) -> bool:
        return bool(self.evaluate) and (done % self.epoch == 0 or done == self.steps)

    def ends_epoch(self, done: int) -> bool:
        return done % self.epoch == 0 or done == self.steps

    def pauses(self, done: int) -> bool:
        """Whether something is done between this update and the next."""
        return self.ends_epoch(done) or self.saves(done)

    def saves(self, done: int) -> bool:
        return bool(self.save_every and done % self.save_every == 0)

    def records(self, done: int) -> bool:
        return done % self.log_every == 0 or done == self.steps

    def score_of(self, figures: dict[str, float]) -> float:
        """Higher is better."""
        name = self.score.removeprefix("-")
        if f"val_{name}" not in figures:
            known = ", ".join(key.removeprefix("val_") for key in figures)
            raise ValueError(f"score must be one of the evaluation's {known}, got {self.score!r}")
        value = figures[f"val_{name}"]
        return -value if self.score.startswith("-") else value
