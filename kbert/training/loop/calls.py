"""Grouping of steps into calls to the device: as many as it takes, up to the run's next pause."""

from collections.abc import Callable, Iterator

from kbert.data.training_batch import TrainingBatch

Call = tuple[int, list[TrainingBatch]]  # the number of its first update, and its batches


def calls(
    batches: Iterator[tuple[int, TrainingBatch]], most: int, pauses: Callable[[int], bool]
) -> Iterator[Call]:
    """Yield batches in order, those of a call together.

    A call's batches have one shape. Where it ends depends on the steps' numbers and shapes alone:
    every host, and a run that is resumed from a state, makes the same ones.

    Args:
        batches: each step's number and its batch.
        most: steps of a call.
        pauses: whether the run does something else after so many steps.

    Raises:
        Exception: what taking a batch raises, after a call of those that were made before it.
    """
    step = 0
    together: list[TrainingBatch] = []
    try:
        for number, batch in batches:
            if together and _shapes(batch) != _shapes(together[0]):
                yield step, together
                together = []
            if not together:
                step = number
            together.append(batch)
            if (number + 1) % most == 0 or pauses(number + 1):
                yield step, together
                together = []
    except Exception:
        if together:
            yield step, together
        raise
    if together:
        yield step, together


def _shapes(batch: TrainingBatch) -> list[tuple[int, ...]]:
    groups = (batch.inputs, batch.labels, batch.weights)
    return [array.shape for group in groups for array in group.values()]
