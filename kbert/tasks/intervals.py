"""How much metrics depend on which examples the dev data have: 95 % bootstrap intervals.

Efron and Tibshirani 1993, chapter 13: the percentiles of the metrics of resampled examples.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

RESAMPLES = 200
_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True)
class Scores:
    """Per-example data of metrics, in a form that can be resampled.

    Attributes:
        columns: arrays of N entries, one per example.
        compute: returns the metrics of such columns.
    """

    columns: tuple[np.ndarray, ...]
    compute: Callable[..., dict[str, float]]

    def metrics(self) -> dict[str, float]:
        """Compute the metrics of all examples."""
        return self.compute(*self.columns)


def find_intervals(scores: Mapping[str, Scores]) -> dict[str, tuple[float, float]]:
    """Compute the 95 % interval of each metric: the same one in each call.

    Args:
        scores: by what stands behind the metrics' names, most often "" alone.
    """
    found: dict[str, tuple[float, float]] = {}
    for suffix, one in scores.items():
        count, rng = len(one.columns[0]), np.random.default_rng(0)
        values: dict[str, list[float]] = {}
        for _ in range(RESAMPLES):
            places = rng.integers(count, size=count)
            for name, value in one.compute(*(column[places] for column in one.columns)).items():
                values.setdefault(name + suffix, []).append(value)
        for name, row in values.items():
            low, high = np.percentile(row, _PERCENTILES)
            found[name] = float(low), float(high)
    return found
