"""Statistics of weights: shape, dtype, mean, deviation, norm, extremes and a histogram."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

BINS = 32
_AT_ONCE = 1 << 20  # numbers: what is looked at together stays in the caches


def tensor_data(arrays: Mapping[str, Callable[[], np.ndarray]]) -> dict[str, dict]:
    """Return the statistics of each tensor by name; tensors are read one after the other."""
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda read: described(read()), arrays.values())
        return dict(zip(arrays, found, strict=True))


def described(array: np.ndarray) -> dict:
    """Return the figures of one tensor, over its finite numbers, computed in float64.

    `histogram` has `BINS` counts of equally wide bins from `min` to `max`, both included;
    `notFinite` is how many numbers are NaN or infinite.
    """
    flat = np.asarray(array).reshape(-1)
    found: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    parts = [_finite(flat[start : start + _AT_ONCE]) for start in range(0, flat.size, _AT_ONCE)]
    count = sum(part.size for part in parts)
    found["notFinite"] = int(flat.size - count)
    if not count:
        return found
    mean = sum(float(part.sum(dtype="float64")) for part in parts) / count
    low = min(float(part.min()) for part in parts if part.size)
    high = max(float(part.max()) for part in parts if part.size)
    return found | {
        "mean": mean,
        "std": (_squares(parts, mean) / count) ** 0.5,
        "norm": _squares(parts, 0.0) ** 0.5,
        "min": low,
        "max": high,
        "histogram": _histogram(parts, low, high),
    }


def _squares(parts: list[np.ndarray], middle: float) -> float:
    """Return the sum of the squares of the distances from a number."""
    apart = (np.subtract(part, middle, dtype="float64") for part in parts)
    return sum(float(np.vdot(one, one)) for one in apart)


def _finite(part: np.ndarray) -> np.ndarray:
    """Return the finite numbers.

    Those of dtypes that NumPy knows little of, bfloat16, as float32.
    """
    if part.dtype not in (np.float32, np.float64):
        part = part.astype("float32")
    finite = np.isfinite(part)
    return part if finite.all() else part[finite]


def _histogram(parts: list[np.ndarray], low: float, high: float) -> list[int]:
    counts = np.zeros(BINS, "int64")
    width = (high - low) / BINS
    for part in parts:
        if width > 0:
            places = (np.subtract(part, low, dtype="float64") / width).astype("int64")
            counts += np.bincount(places.clip(0, BINS - 1), minlength=BINS)
        else:
            counts[0] += part.size
    return counts.tolist()
