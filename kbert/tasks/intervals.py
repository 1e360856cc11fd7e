"""How much metrics depend on which examples the dev data have: 95 % bootstrap intervals.

Efron and Tibshirani 1993, chapter 13: the percentiles of the metrics of resampled examples. Where
all examples are right, or all wrong, resamples do not differ: accuracies and recalls then have
Wilson's interval (Wilson 1927), and other metrics have none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

RESAMPLES = 200
FEWEST_RESAMPLES, FEWEST_EXAMPLES = 50, 10  # below them there are no intervals
_VALUES = 40_000_000  # that may be drawn in all: about 10 s, 0.25 µs each for the slowest metrics
_PERCENTILES = (2.5, 97.5)
_Z = 1.959964  # 97.5 % of a normal distribution are below it
_SHARES_OF_EXAMPLES = ("accuracy", "exact_match", "recall@")  # beginnings of names


@dataclass(frozen=True)
class Scores:
    """Per-example data of metrics, in a form that can be resampled.

    Attributes:
        columns: arrays of N entries, one per example; of objects: arrays.
        compute: returns the metrics of such columns, and of `counts`, if they are given.
        counts: int (N,), how many examples each entry stands for; None: one each.
    """

    columns: tuple[np.ndarray, ...]
    compute: Callable[..., dict[str, float]]
    counts: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.columns[0]) if self.counts is None else int(self.counts.sum())

    def metrics(self) -> dict[str, float]:
        """Compute the metrics of all examples."""
        return self.compute(*self.columns, *(() if self.counts is None else (self.counts,)))

    def resample(self, rng: np.random.Generator) -> dict[str, float]:
        """Compute the metrics of as many examples, drawn with replacement."""
        if self.counts is not None:  # the same distribution, in one draw
            counts = rng.multinomial(len(self), self.counts / len(self))
            return self.compute(*self.columns, counts)
        places = rng.integers(len(self), size=len(self))
        return self.compute(*(column[places] for column in self.columns))

    def count_resamples(self) -> int:
        """Count the resamples: fewer of many examples, by their size alone, so it is repeatable."""
        values = sum(
            sum(map(np.size, column)) if column.dtype == object else column.size
            for column in self.columns
        )
        count = min(RESAMPLES, _VALUES // max(1, values))
        return count if count >= FEWEST_RESAMPLES and len(self) >= FEWEST_EXAMPLES else 0


def find_intervals(scores: Mapping[str, Scores]) -> dict[str, tuple[float, float]]:
    """Compute the 95 % interval of each metric: the same one in each call.

    A metric that is NaN in a resample has none, nor one that is the same in all resamples, except
    an accuracy or recall of 0 or 1: Wilson's. Nor have fewer than 10 examples, and so many
    that 50 resamples would take more than about 10 seconds.

    Args:
        scores: by what stands behind the metrics' names, most often "" alone.
    """
    found: dict[str, tuple[float, float]] = {}
    for suffix, one in scores.items():
        rng = np.random.default_rng(0)
        values: dict[str, list[float]] = {}
        for _ in range(one.count_resamples()):
            for name, value in one.resample(rng).items():
                values.setdefault(name + suffix, []).append(value)
        for name, row in values.items():
            if not np.isfinite(row).all():
                continue
            low, high = map(float, np.percentile(row, _PERCENTILES))
            if low < high:
                found[name] = low, high
            elif name.startswith(_SHARES_OF_EXAMPLES) and low in (0, 1):
                found[name] = _wilson(low, len(one))
    return found


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share that is 0 or 1 of a number of examples."""
    width = _Z**2 / (count + _Z**2)
    return (1 - width, 1.0) if share else (0.0, width)
