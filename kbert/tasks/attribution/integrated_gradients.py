"""Integrated gradients (Sundararajan, Taly and Yan 2017, arXiv 1703.01365), eq. 1 to 3.

    IG_i(x) = (x_i − x'_i) · ∫₀¹ ∂F(x' + α (x − x')) / ∂x_i dα          (eq. 1)

The integral is a sum over Gauss–Legendre's points in the place of the paper's even ones (eq. 3):
as captum does by default, and nearer with as few. Completeness (their proposition 1): the sum over
all i is F(x) − F(x'); what the sum is off by is measured each time.

Dimensions: K points, S sequence, H hidden size.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

STEPS = 50  # captum's; the paper, section 5: "somewhere between 20 and 300"
MOST_STEPS = 1600
_TOLERANCE = 0.01, 1e-4  # of the difference, and beside it: what float32 leaves
_TOKENS = 2048  # computed at a time

_logger = logging.getLogger("kbert")


class Integral(NamedTuple):
    """Attributions, float64 (S, H), of F(x) − F(x'), from which their sum differs by `error`."""

    attributions: np.ndarray
    value: float  # F(x)
    baseline_value: float  # F(x')
    error: float
    steps: int


def integrate(
    function: Callable, x: np.ndarray, baseline: np.ndarray, others: list, steps: int | None
) -> Integral:
    """Return the attributions of one sequence, `x` float32 (S, H), against its baseline.

    `function` is from `gradients.value_and_grad`, of points (K, S, H), a mask (K, S) and arguments
    that every point shares; `others` are the mask (S,), then these. `steps` is the number of
    points; None: `STEPS`, doubled until the sum is near enough.
    """
    size = max(2, min(10, _TOKENS // len(x)))  # points per call: a compiled function of one shape
    mask, *shared = others
    masks = np.repeat(mask[None], size, axis=0)

    def evaluate(alphas: np.ndarray):
        """Return values and gradients at the points baseline + alpha (x − baseline)."""
        num_points = len(alphas)
        padded = np.pad(alphas, (0, size - num_points))
        shares = padded.astype("float32")[:, None, None]
        points = baseline + shares * (x - baseline)
        values, gradients = function(points, masks, *shared)
        return values[:num_points], gradients[:num_points]

    ends, _ = evaluate(np.array([0.0, 1.0]))
    baseline_value = float(ends[0])
    value = float(ends[1])
    difference = value - baseline_value
    relative, absolute = _TOLERANCE
    tolerance = relative * abs(difference) + absolute

    count = STEPS if steps is None else steps
    most = MOST_STEPS if steps is None else steps
    while True:
        gradients = _average_gradients(evaluate, count, size, x.shape)
        attributions = (x - baseline) * gradients
        error = float(attributions.sum() - difference)
        is_near = abs(error) <= tolerance
        if is_near or 2 * count > most:
            break
        count *= 2

    if not is_near:
        _logger.warning(
            "attribute: after %d steps the scores sum to %.4g, which is %.2g off: %s",
            count,
            attributions.sum(),
            error,
            "give more steps, or value='logit'" if steps else "try value='logit'",
        )
    return Integral(attributions, value, baseline_value, error, count)


def _average_gradients(evaluate: Callable, count: int, size: int, shape: tuple) -> np.ndarray:
    """Return the mean of the gradients from the baseline to x, float64 (S, H): ∫₀¹ ∂F/∂x dα.

    It is a sum over `count` points of Gauss–Legendre, of which `evaluate` takes `size` at a time.
    """
    points, weights = np.polynomial.legendre.leggauss(count)  # within −1 … 1, sum 2
    alphas = 0.5 * (1 + points)
    weights = 0.5 * weights

    mean = np.zeros(shape)
    for start in range(0, count, size):
        chunk = slice(start, start + size)
        _, gradients = evaluate(alphas[chunk])
        mean += np.einsum("k,ksh->sh", weights[chunk], gradients.astype("float64"))
    return mean
