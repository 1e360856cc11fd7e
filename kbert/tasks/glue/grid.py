"""Runs of a task: the paper's grid with the first seed, the best point with the others."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbert.graph.config import require_positive
from kbert.training.setting_rules import check_settings


class Setting(NamedTuple):
    """Point of the hyperparameter grid."""

    batch_size: int
    learning_rate: float
    epochs: int

    def __str__(self) -> str:
        epochs = f"{self.epochs} epoch{'s' if self.epochs > 1 else ''}"
        return f"batch {self.batch_size}, rate {self.learning_rate:g}, {epochs}"

    def folder(self, seed: int) -> str:
        """Return the name of the folder of the point's run with a seed."""
        rate = f"{self.learning_rate:g}"
        return f"batch{self.batch_size}-rate{rate}-epochs{self.epochs}-seed{seed}"


@dataclass(frozen=True)
class Grid:
    """The hyperparameter grid; the default is the paper's (appendix A.3).

    Attributes:
        batch_sizes, learning_rates, epochs: every combination is trained with seed 0.
        seeds: number of seeds for the best combination.

    Raises:
        ValueError: a value out of its range, or none at all.
    """

    batch_sizes: Sequence[int] = (16, 32)
    learning_rates: Sequence[float] = (5e-5, 3e-5, 2e-5)
    epochs: Sequence[int] = (2, 3, 4)
    seeds: int = 5

    def __post_init__(self):
        require_positive("seeds", self.seeds)
        names = {"batch_sizes": "batch_size", "learning_rates": "learning_rate", "epochs": "epochs"}
        for name, of_each in names.items():
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise ValueError(f"{name} must be one number or more, in a list, got {values!r}")
            for value in values:
                check_settings({of_each: value})

    def settings(self) -> list[Setting]:
        """Return every point of the grid, in order."""
        each = self.batch_sizes, self.learning_rates, self.epochs
        return [Setting(*values) for values in dict.fromkeys(itertools.product(*each))]

    @property
    def runs(self) -> int:
        """Number of runs per task."""
        return len(self.settings()) + self.seeds - 1
