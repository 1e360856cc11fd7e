"""Batches made ahead in a thread, and grouped into calls to the device."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from kbert.data.training_batch import Batches, TrainingBatch

AHEAD = 3  # batches made ahead at least: one would do where all take the same time
Call = tuple[int, list[TrainingBatch]]  # the number of its first update, and its batches


@contextlib.contextmanager
def prefetch(
    batches: Batches, part: slice, start: int, stop: int, ahead: int
) -> Iterator[Iterator[tuple[int, TrainingBatch]]]:
    """Give numbers and batches of steps, or an error in making one; a thread makes them ahead."""
    thread = ThreadPoolExecutor(1, "kbert-batches")
    steps = range(start, stop)
    ahead = max(ahead + 1, AHEAD)

    def take():
        made: deque[Future[TrainingBatch]] = deque()
        for step in steps[:ahead]:
            made.append(thread.submit(batches.batch, step, part))
        for step in steps:
            if step + ahead < stop:
                future = thread.submit(batches.batch, step + ahead, part)
                made.append(future)
            batch = made.popleft().result()
            yield step, batch

    try:
        yield take()
    finally:
        thread.shutdown(cancel_futures=True)


def calls(
    batches: Iterator[tuple[int, TrainingBatch]], most: int, pauses: Callable[[int], bool]
) -> Iterator[Call]:
    """Yield batches in order, those of a call together: at most `most`, up to the run's next pause.

    A call's batches have one shape. Every host, and a resumed run, makes the same calls. An error
    of a batch is raised after a call of those before it.
    """
    together: list[TrainingBatch] = []
    try:
        for step, batch in batches:
            if together and _shapes(batch) != _shapes(together[0]):
                yield step - len(together), together
                together = []
            together.append(batch)
            if (step + 1) % most == 0 or pauses(step + 1):
                yield step + 1 - len(together), together
                together = []
    except Exception:
        if together:
            yield step + 1 - len(together), together
        raise


def _shapes(batch: TrainingBatch) -> list[tuple[int, ...]]:
    shapes = []
    for group in (batch.inputs, batch.labels, batch.weights):
        shapes += [array.shape for array in group.values()]
    return shapes
