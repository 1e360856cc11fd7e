"""How fast a run is: tokens a second, and the share of the machine's peak that it uses (MFU)."""

import statistics
import time
from collections import deque

import numpy as np

from kbert.data.training_batch import Batches

_WINDOW = 20  # steps over which speeds are averaged
_SIDE, _PRODUCTS = 8192, 10  # of the matrices whose product is timed
_CALLS = 4  # of the device, to measure a step
_OUTLIER = 5  # times the median: a step that compiled something for a new length


class Speed:
    """The speed of the last steps; the first one, which compiles, is left out."""

    def __init__(self, flops: float | None = None, peak: float | None = None):
        self._flops = flops  # of a step over all hosts, `kbert.account`'s
        self._peak = peak  # FLOP/s of all devices together
        # tokens, updates, seconds, and the updates' size in those of a whole batch
        self._last: deque[tuple[float, int, float, float]] = deque()
        self._clock: float | None = None

    def add(
        self, tokens: float, updates: int = 1, whole_updates: float | None = None
    ) -> dict[str, float]:
        """Take steps of so many tokens, padding included.

        `whole_updates` is the number of steps of the whole batch size that have as many examples;
        None: they have the whole size.
        Return tokens_per_second, and mfu where FLOPs and peak are known.
        """
        now = time.perf_counter()
        if self._clock is not None:
            seconds = now - self._clock
            size = updates if whole_updates is None else whole_updates
            self._last.append((tokens, updates, seconds, size))
        while len(self._last) > 1 and self._updates() - self._last[0][1] >= _WINDOW:
            self._last.popleft()
        self._clock = now

        seconds = sum(duration for _, _, duration, _ in self._last)
        if not seconds:
            return {}
        total = sum(tokens for tokens, _, _, _ in self._last)
        rates = {"tokens_per_second": total / seconds}
        if self._flops and self._peak:
            flops = self._flops * sum(size for _, _, _, size in self._last)
            rates["mfu"] = flops / seconds / self._peak
        return rates

    def _updates(self) -> int:
        return sum(updates for _, updates, _, _ in self._last)

    def pause(self) -> None:
        """Stop the clock until the next step begins."""
        self._clock = time.perf_counter() if self._last else None

    def seconds_for(self, updates: int) -> float | None:
        """Estimate how long so many steps take; steps that compiled something do not count."""
        if not self._last:
            return None
        seconds = [duration / count for _, count, duration, _ in self._last]
        most = _OUTLIER * statistics.median(seconds)
        usual = [duration for duration in seconds if duration <= most]
        return updates * statistics.mean(usual)


def measure_step(engine, batches: Batches) -> float:
    """Return the seconds of a training step of the whole batch; the engine is as it was before."""
    part = engine.slice_examples(batches.batch_size)
    count = engine.steps_per_execution
    together = [batches.make_largest(part)] * count
    state = engine.state.all()

    times = []
    for _ in range(_CALLS):  # every process makes the same calls
        start = time.perf_counter()
        engine.updates(together, 0)()
        times.append(time.perf_counter() - start)
    engine.state.restore(state)
    return min(times[1:]) / count  # the first one compiles


def measure_peak(precision: str, replicas: int) -> tuple[float | None, str]:
    """Measure the FLOP/s of a big matrix product on these devices; say how, in words.

    None on a CPU: there one product may take a minute (float16 on torch), and steps beat it where
    their products run in another library or have a better shape.
    """
    import keras

    from kbert.ops.devices import device_names, on_accelerator

    kind = device_names()[0]
    if kind == "CPU":
        return None, "not measured on a CPU"

    dtypes = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
    dtype = dtypes.get(precision, "float32")
    with on_accelerator():
        values = np.ones((_SIDE, _SIDE), "float32") / _SIDE
        matrix = keras.ops.cast(values, dtype)
        times = []
        for _ in range(_PRODUCTS):
            start = time.perf_counter()
            product = keras.ops.matmul(matrix, matrix)
            float(keras.ops.cast(product[0, 0], "float32"))  # waits for it
            times.append(time.perf_counter() - start)

    how = f"the fastest of {_PRODUCTS} {dtype} products of {_SIDE} × {_SIDE} matrices on one {kind}"
    if replicas > 1:
        how += f", times {replicas}"
    return 2 * _SIDE**3 / min(times) * replicas, how
