"""How fast a run is: tokens a second, and the share of the machine's peak that it uses (MFU)."""

import time
from collections import deque

import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.graph import names

WINDOW = 20  # updates that a figure is the mean of
_GEMM = {"cpu": (2048, 3), "accelerator": (8192, 10)}  # side of the matrices, products


class Speed:
    """The rate of the last updates; the first one, which compiles, is left out.

    Args:
        flops: of one update, over all hosts (`kbert.account`'s training FLOPs); None: not known.
        peak: FLOP/s of all the devices together; None: not known.
    """

    def __init__(self, flops: float | None = None, peak: float | None = None):
        self._flops, self._peak = flops, peak
        self._last: deque[tuple[float, int, float]] = deque()  # tokens, updates, seconds
        self._clock: float | None = None

    def add(self, tokens: float, updates: int = 1) -> dict[str, float]:
        """More updates, of so many tokens, padding included: the rates, once there are any."""
        now = time.perf_counter()
        if self._clock is not None:
            self._last.append((tokens, updates, now - self._clock))
        while len(self._last) > 1 and self._updates() - self._last[0][1] >= WINDOW:
            self._last.popleft()
        self._clock = now
        return self.rates()

    def _updates(self) -> int:
        return sum(updates for _, updates, _ in self._last)

    def pause(self) -> None:
        """What follows is no update: the time until the next one begins is not counted."""
        self._clock = time.perf_counter() if self._last else None

    def rates(self) -> dict[str, float]:
        """tokens_per_second, and mfu where FLOPs and peak are known."""
        seconds = sum(spent for _, _, spent in self._last)
        if not seconds:
            return {}
        rates = {"tokens_per_second": sum(tokens for tokens, _, _ in self._last) / seconds}
        if self._flops and self._peak:
            rates["mfu"] = self._flops * self._updates() / seconds / self._peak
        return rates

    def seconds_for(self, updates: int) -> float | None:
        """How long so many updates take."""
        if not self._last:
            return None
        return updates * sum(spent for _, _, spent in self._last) / self._updates()


def tokens_of(batch: TrainingBatch, batch_size: int) -> float:
    """Tokens of the whole update that a process's rows are a part of, padding included."""
    return batch.inputs[names.TOKEN_IDS].size / len(batch) * batch_size


def measured_peak(precision: str, replicas: int) -> tuple[float, str]:
    """FLOP/s of a big matrix product on these devices, and how it was measured, in words.

    On CPUs, replicas on one host share its cores: they count once.
    """
    import keras

    from kbert.model.devices import device_names, on_accelerator

    kind = device_names()[0]
    side, products = _GEMM["cpu" if kind == "CPU" else "accelerator"]
    dtype = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}.get(precision, "float32")
    with on_accelerator():
        matrix = keras.ops.cast(np.ones((side, side), "float32") / side, dtype)
        best = min(_seconds(matrix) for _ in range(products))
    count = 1 if kind == "CPU" else replicas
    how = f"the fastest of {products} {dtype} products of {side} × {side} matrices on one {kind}"
    return 2 * side**3 / best * count, how + (f", times {count}" if count > 1 else "")


def _seconds(matrix) -> float:
    import keras

    matmul = keras.ops.matmul
    if keras.backend.backend() == "torch":
        from kbert.model.parts.torch_products import product as matmul  # as updates have it

    start = time.perf_counter()
    product = matmul(matrix, matrix)
    float(keras.ops.cast(product[0, 0], "float32"))  # waits for it
    return time.perf_counter() - start
