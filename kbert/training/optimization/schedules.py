"""Learning rate schedules by name: the learning rate of a step, as a share of the peak rate.

Functions of an `Optimizer` and the iteration, the number of earlier steps, in float32 tensors. Each
share is computed from the number of steps that are left, which float32 has exactly, so that it is
also exact near the end of a run of a million steps.
"""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

# How many times less one_cycle begins with than the peak, and ends with than its beginning:
# the defaults of torch.optim.lr_scheduler.OneCycleLR.
_DIV_FACTOR, _FINAL_DIV_FACTOR = 25.0, 1e4
# of triangle, as budget-triangle2 of JonasGeiping/cramming (backend/optimizers/schedulers.py)
_TRIANGLE_START = 0.25
_TIMESCALE = 10_000  # of inverse_sqrt without warm-up, as in transformers


def compute_share(settings: Any, iteration):
    """Return a step's share of the peak learning rate, float32.

    The rate grows linearly from 0 over the warm-up, and then follows the schedule to
    `total_steps`. In one_cycle the warm-up is the growing half of its cosine; in triangle it begins
    at a quarter.
    """
    if settings.schedule == "one_cycle":
        return _compute_one_cycle(settings, iteration)
    warmup = float(settings.warmup_steps)
    after = _AFTER_WARMUP[settings.schedule](settings, iteration)
    first = _TRIANGLE_START if settings.schedule == "triangle" else 0.0
    rise = first + (1.0 - first) * (iteration / max(warmup, 1.0))
    return ops.where(iteration < warmup, rise, after)


def _count_left(settings: Any, iteration, end: float):
    """Return the share of the steps after warm-up that are left before the end."""
    after_warmup = max(float(settings.total_steps) - float(settings.warmup_steps), 1.0)
    return ops.maximum(end - iteration, 0.0) / after_warmup


def _stop_at_minimum(settings: Any, share):
    """Return a share that falls from 1 to 0 as one that falls from 1 to the minimum."""
    minimum = settings.min_learning_rate_ratio
    return minimum + (1.0 - minimum) * share if minimum else share


def _compute_linear(settings: Any, iteration):
    """Return the share of Google's BERT, and of Keras's PolynomialDecay of the power 1."""
    left = _count_left(settings, iteration, float(settings.total_steps))
    return _stop_at_minimum(settings, left)


def _compute_constant(settings: Any, iteration):
    return ops.ones_like(iteration)


def _compute_cosine(settings: Any, iteration):
    """Return the share of Keras's CosineDecay and transformers' cosine_with_min_lr."""
    left = _count_left(settings, iteration, float(settings.total_steps))
    return _stop_at_minimum(settings, _fall(left))


def _compute_polynomial(settings: Any, iteration):
    """Return the share of Keras's PolynomialDecay and transformers' polynomial."""
    left = _count_left(settings, iteration, float(settings.total_steps))
    return _stop_at_minimum(settings, ops.power(left, settings.schedule_power))


def _compute_inverse_sqrt(settings: Any, iteration):
    """Return the share of transformers' inverse_sqrt."""
    timescale = float(settings.schedule_timescale or settings.warmup_steps or _TIMESCALE)
    steps = iteration + (timescale - float(settings.warmup_steps))
    # within the warm-up, whose share is another one, it may be 0 or less
    return ops.sqrt(timescale / ops.maximum(steps, 1.0))


def _compute_one_cycle(settings: Any, iteration):
    """Return the share of torch's OneCycleLR; its pct_start is the warm-up's share of the steps.

    The cosine reaches the peak in the last step of the warm-up, and the minimum in the run's last.
    """
    first = 1.0 / _DIV_FACTOR
    last = first / _FINAL_DIV_FACTOR
    end_of_warmup = float(settings.warmup_steps) - 1.0
    rise = _fall(ops.minimum(iteration / max(end_of_warmup, 1.0), 1.0))

    left = _count_left(settings, iteration, float(settings.total_steps) - 1.0)
    fall = _fall(ops.minimum(left, 1.0))
    return ops.where(
        iteration < end_of_warmup,
        first + (1.0 - first) * rise,
        last + (1.0 - last) * fall,
    )


def _fall(left):
    """Return (1 − cos(π · left)) / 2: a cosine that falls from 1 to 0 as `left` does.

    Written as a square of a sine: 1 − cos would lose all digits near the end.
    """
    return ops.square(ops.sin(left * (math.pi / 2)))


_AFTER_WARMUP: dict[str, Callable] = {
    "linear": _compute_linear,
    "constant": _compute_constant,
    "cosine": _compute_cosine,
    "polynomial": _compute_polynomial,
    "inverse_sqrt": _compute_inverse_sqrt,
    "triangle": _compute_linear,
}
