"""Steps are grouped into calls of the device."""

import numpy as np
import pytest

from kbert.data.training_batch import TrainingBatch
from kbert.training.loop.calls import calls
from kbert.training.loop.history import LoopPlan


def batches(lengths, start=0):
    """A batch of each length, or what is to be raised in its place."""
    for step, length in enumerate(lengths, start=start):
        if isinstance(length, Exception):
            raise length
        yield step, TrainingBatch({"ids": np.zeros((3, length))}, {}, {})


def steps_of(found) -> list[list[int]]:
    return [[step + place for place in range(len(together))] for step, together in found]


@pytest.mark.parametrize(
    ("most", "every", "lengths", "start", "expected"),
    [
        (1, 100, [7] * 3, 0, [[0], [1], [2]]),
        (4, 100, [7] * 10, 0, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
        (4, 5, [7] * 10, 0, [[0, 1, 2, 3], [4], [5, 6, 7], [8, 9]]),  # pauses after 5
        (4, 5, [7] * 5, 5, [[5, 6, 7], [8, 9]]),  # as above, gone on with from there
        (4, 100, [7, 7, 9, 9, 9, 7], 0, [[0, 1], [2, 3], [4], [5]]),  # one shape a call
    ],
)
def test_call_ends_at_pause_and_before_another_shape(most, every, lengths, start, expected):
    plan = LoopPlan(start + len(lengths), evaluate_every=10**6, save_every=every)
    assert steps_of(calls(batches(lengths, start), most, plan.pauses)) == expected
