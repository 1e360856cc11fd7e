"""Integrated gradients (Sundararajan, Taly and Yan 2017, arXiv 1703.01365), eq. 1 to 3.

    IG_i(x) = (x_i − x'_i) · ∫₀¹ ∂F(x' + α (x − x')) / ∂x_i dα          (eq. 1)

The integral is a sum over Gauss–Legendre's points in the place of the paper's even ones (eq. 3):
as captum does by default, and nearer with as few. Completeness (their proposition 1): the sum over
all i is F(x) − F(x'); what the sum is off by is measured each time.

Dimensions: K points, S sequence, H hidden size.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

STEPS = 50  # captum's; the paper, section 5: "somewhere between 20 and 300"
MOST_STEPS = 1600
_TOLERANCE = 0.01, 1e-4  # of the difference, and beside it: what float32 leaves
_TOKENS = 2048  # computed at a time

_logger = logging.getLogger("kbert")


@dataclass(frozen=True, eq=False)
class Integrated:
    """The result of the integral.

    Attributes:
        attributions: float64 (S, H).
        value: F(x).
        baseline_value: F(x').
        error: the sum of the attributions − (F(x) − F(x')).
        steps: number of points of the sum.
    """

    attributions: np.ndarray
    value: float
    baseline_value: float
    error: float
    steps: int

    @property
    def is_near(self) -> bool:
        """True if the sum is within 1 % of the difference, or within 0.0001."""
        share, least = _TOLERANCE
        return abs(self.error) <= share * abs(self.value - self.baseline_value) + least


def integrate(
    call: Callable, x: np.ndarray, baseline: np.ndarray, others: list, steps: int | None
) -> Integrated:
    """Return the attributions of one row.

    Args:
        call: from `kbert.model.gradients.with_gradient`, of points (K, S, H), a mask (K, S) and
            `others`.
        x, baseline: float32 (S, H).
        others: the mask (S,), then arguments that every point shares.
        steps: how many points; None: `STEPS`, and twice as many until the sum is near enough.
    """
    ends = np.zeros(_rows(x))
    ends[1] = 1.0
    _, values = _evaluated(call, ends, x, baseline, others)
    baseline_value, value = map(float, values[:2])
    count = steps or STEPS
    while True:
        attributions = _summed(call, count, x, baseline, others)
        error = float(attributions.sum() - (value - baseline_value))
        integrated = Integrated(attributions, value, baseline_value, error, count)
        if integrated.is_near or steps is not None or 2 * count > MOST_STEPS:
            break
        count *= 2
    if not integrated.is_near:
        _logger.warning(
            "attribute: after %d steps the scores sum to %.4g, which is %.2g off: %s",
            *(count, attributions.sum(), error),
            "give more steps, or value='logit'" if steps else "try value='logit'",
        )
    return integrated


def _summed(call: Callable, steps: int, x, baseline, others: list) -> np.ndarray:
    """Return float64 (S, H): (x − x') times the mean gradient on the way."""
    places, weights = np.polynomial.legendre.leggauss(steps)  # within −1 … 1, sum 2
    total = np.zeros(x.shape)
    rows = _rows(x)
    for start in range(0, steps, rows):
        part = slice(start, start + rows)
        alphas = np.zeros(rows)  # as many each time: a compiled function of one shape
        alphas[: len(places[part])] = 0.5 * (1 + places[part])
        gradients, _ = _evaluated(call, alphas, x, baseline, others)
        used = gradients[: len(places[part])].astype("float64")
        total += np.einsum("k,ksh->sh", 0.5 * weights[part], used)
    return (x - baseline) * total


def _rows(x: np.ndarray) -> int:
    """Return the number of points computed at a time."""
    return max(2, min(10, _TOKENS // len(x)))


def _evaluated(call: Callable, alphas: np.ndarray, x, baseline, others: list):
    """Return gradients (K, S, H) and values (K,) at the points baseline + alpha (x − baseline)."""
    mask, *shared = others
    points = baseline + alphas[:, None, None].astype("float32") * (x - baseline)
    values, gradients = call(points, np.repeat(mask[None], len(points), axis=0), *shared)
    return gradients, values
