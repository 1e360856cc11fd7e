"""A model's first weights: those that Keras's initializers describe, drawn some four times faster.

TensorFlow draws again what is beyond two standard deviations. Here a uniform number goes through
the inverse of the distribution, once; the same seed gives the same weights on every backend.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from kbert.model import deferred, keras_internals

_AT_A_TIME = 1 << 17  # numbers: what is computed on stays in the processor's cache
_EDGE = math.erf(math.sqrt(2))  # the share of a normal distribution within two deviations
# Giles, "Approximating the erfinv function" (2012), table 5, single precision: erfinv(x) / x by
# w − 2.5, w = −log(1 − x²) < 5; here x is at most _EDGE and w at most 2.42
_INVERSE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)


def draw(model) -> None:
    """Gives a model built within `deferred.without_values` its first weights.

    Variables whose initializer is another than Keras's `TruncatedNormal` get what that gives.
    """
    import keras

    values: dict[str, Callable[[], np.ndarray]] = {}
    for variable in model.variables:
        found = keras_internals.waiting_initializer(variable)
        if type(found) is keras.initializers.TruncatedNormal:
            shape = tuple(variable.shape)
            values[variable.path] = partial(truncated_normal, shape, found.stddev, found.seed)
    deferred.fill(model, values)


def truncated_normal(shape: tuple[int, ...], stddev: float, seed: int) -> np.ndarray:
    """float32, normal around 0 and cut at two deviations, as Keras's initializer of that name."""
    array = deferred.aligned(shape)
    flat, generator = array.reshape(-1), np.random.Generator(np.random.SFC64(seed))
    for start in range(0, flat.size, _AT_A_TIME):
        part = flat[start : start + _AT_A_TIME]
        generator.random(out=part, dtype=np.float32)
        _to_normal(part, stddev)
    return array


def _to_normal(x: np.ndarray, stddev: float) -> None:
    """Uniform numbers of 0 … 1 to normal ones, in place."""
    x *= np.float32(2 * _EDGE)
    x -= np.float32(_EDGE)
    w = 1 - x * x
    np.log(w, out=w)
    w += np.float32(2.5)
    np.negative(w, out=w)
    ratio = np.full_like(x, _INVERSE[0])
    for coefficient in _INVERSE[1:]:
        ratio *= w
        ratio += np.float32(coefficient)
    ratio *= np.float32(math.sqrt(2) * stddev)
    x *= ratio
