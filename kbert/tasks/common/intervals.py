"""How much metrics depend on which examples the dev data have: 95 % bootstrap intervals.

Efron and Tibshirani 1993, chapter 13: the percentiles of the metrics of resampled examples. Where
all examples are right, or all wrong, resamples do not differ: accuracies and recalls then have
Wilson's interval (Wilson 1927), and other metrics have none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

RESAMPLES = 200
FEWEST_RESAMPLES, FEWEST_EXAMPLES = 50, 10  # with fewer there are no intervals
_VALUES = 40_000_000  # that are resampled in all: about 10 s, 0.25 µs each for the slowest metrics
_PERCENTILES = (2.5, 97.5)
_Z = 1.959964  # 97.5 % of a normal distribution are below it
_PROPORTIONS = ("accuracy", "exact_match", "recall@")  # beginnings of names


@dataclass(frozen=True)
class Scores:
    """Per-example data of metrics, in a form that can be resampled.

    Attributes:
        columns: arrays of N entries, one per example; of dtype object: arrays.
        compute: returns the metrics of such columns, and of `counts`, if there are any.
        counts: int (N,), the number of examples that each entry stands for; None: one each.
        warning: a sentence on predictions that are probably useless; "": there is nothing to say.
    """

    columns: tuple[np.ndarray, ...]
    compute: Callable[..., dict[str, float]]
    counts: np.ndarray | None = None
    warning: str = ""

    def __len__(self) -> int:
        if self.counts is None:
            return len(self.columns[0])
        return int(self.counts.sum())

    def metrics(self) -> dict[str, float]:
        """Compute the metrics of all examples."""
        if self.counts is None:
            return self.compute(*self.columns)
        return self.compute(*self.columns, self.counts)

    def resample(self, rng: np.random.Generator) -> dict[str, float]:
        """Compute the metrics of as many examples, sampled with replacement."""
        if self.counts is not None:  # the same distribution, sampled at once
            counts = rng.multinomial(len(self), self.counts / len(self))
            return self.compute(*self.columns, counts)
        indices = rng.integers(len(self), size=len(self))
        return self.compute(*(column[indices] for column in self.columns))

    def count_resamples(self) -> int:
        """Count the resamples: fewer of many examples, by their size alone, so it is repeatable."""
        values = sum(_count_values(column) for column in self.columns)
        count = min(RESAMPLES, _VALUES // max(1, values))
        if count < FEWEST_RESAMPLES or len(self) < FEWEST_EXAMPLES:
            return 0
        return count


def _count_values(column: np.ndarray) -> int:
    if column.dtype == object:
        return sum(np.size(array) for array in column)
    return column.size


def find_intervals(scores: Mapping[str, Scores]) -> dict[str, tuple[float, float]]:
    """Compute the 95 % interval of each metric; every call returns the same.

    A metric has no interval if it is NaN in a resample, or the same in all resamples, except for an
    accuracy or recall of 0 or 1, which has Wilson's. Fewer than 10 examples have no intervals, nor
    do so many that 50 resamples would take more than about 10 seconds. `scores` are by the suffix
    of the metrics' names, mostly "" alone.
    """
    intervals: dict[str, tuple[float, float]] = {}
    for suffix, metric_scores in scores.items():
        rng = np.random.default_rng(0)
        samples: dict[str, list[float]] = {}
        for _ in range(metric_scores.count_resamples()):
            for name, value in metric_scores.resample(rng).items():
                samples.setdefault(name + suffix, []).append(value)

        for name, values in samples.items():
            interval = _find_interval(name, values, len(metric_scores))
            if interval is not None:
                intervals[name] = interval
    return intervals


def _find_interval(name: str, values: list[float], count: int) -> tuple[float, float] | None:
    """Return the interval of a metric of `count` examples by its resampled values; None: none."""
    if not np.isfinite(values).all():
        return None
    low, high = np.percentile(values, _PERCENTILES).tolist()
    if low < high:
        return low, high

    if name.startswith(_PROPORTIONS) and low in (0, 1):
        width = _Z**2 / (count + _Z**2)  # Wilson's interval of a proportion of 0 or 1
        return (1 - width, 1.0) if low else (0.0, width)
    return None
