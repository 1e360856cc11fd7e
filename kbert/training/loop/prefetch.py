"""Batches made in a thread while the accelerator works on those before them."""

import queue
import threading
from collections.abc import Iterator

from kbert.data.training_batch import Batches, TrainingBatch

AHEAD = 2  # batches that wait: one would do where all take the same time


class Prefetched:
    """The batches of the steps `start` … `stop` − 1, in order; a context, which ends its thread.

    Args:
        batches: makes them.
        part: the rows of each that this process is for.
        start, stop: numbers of steps.
        ahead: batches that wait at most.

    Raises:
        Exception: what making a batch raised, where that batch is taken.
    """

    def __init__(self, batches: Batches, part: slice, start: int, stop: int, ahead: int = AHEAD):
        self._make, self._steps = (lambda step: batches.batch(step, part)), range(start, stop)
        self._ready: queue.Queue = queue.Queue(max(ahead, AHEAD))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="kbert-batches", daemon=True)

    def __enter__(self) -> Iterator[tuple[int, TrainingBatch]]:
        self._thread.start()
        return self._batches()

    def __exit__(self, *_) -> None:
        self._ended.set()
        while not self._ready.empty():  # the thread may wait for a place
            self._ready.get_nowait()
        self._thread.join(timeout=5)

    def _batches(self):
        for step in self._steps:
            batch = self._ready.get()
            if isinstance(batch, BaseException):
                raise batch
            yield step, batch

    def _work(self) -> None:
        for step in self._steps:
            try:
                batch: TrainingBatch | BaseException = self._make(step)
            except BaseException as error:
                batch = error
            while not self._ended.is_set():
                try:
                    self._ready.put(batch, timeout=0.1)
                    break
                except queue.Full:
                    continue
            if self._ended.is_set() or isinstance(batch, BaseException):
                return
