"""Batches that grow over the first part of a run, by whole micro-batches."""

import math
import threading
from collections.abc import Sequence

from kbert.data.pretraining.pretraining_batches import PretrainingBatches
from kbert.data.training_batch import Batches, TrainingBatch

# Steps between a share of the time budget and the batch whose size it gives. Batches are made ahead
# of their steps, and other hosts know a share once its step is computed: in all four calls of the
# device, and a batch, are between.
DELAY = 64
MOST_TOGETHER = DELAY // 4 - 1  # steps of a call


class RampedBatches(Batches):
    """Pretraining batches whose size grows linearly over a share of the run.

    The micro-batches of a step all have one size, so no step is compiled anew. A step's examples
    follow those of the step before. As the other batches, each is a function of its step, and of
    the recorded shares of a time budget, if the run has one.

    Args:
        batches: those of the whole size.
        first_size: examples of the first step.
        micro_batch_size: examples of a micro-batch over all devices; both sizes are multiples.
        ratio: share of the run at whose end the batches have the whole size.
        steps: of the run; None: it has a time budget, see `fractions`.

    Attributes:
        batch_size, fingerprint: as in `Batches`; a batch is never larger.
        fractions: of a time budget, by step, as `kbert.training.time_budget.TimeBudget` has them.
    """

    def __init__(
        self,
        batches: PretrainingBatches,
        first_size: int,
        micro_batch_size: int,
        ratio: float,
        steps: int | None = None,
    ):
        self._batches = batches
        self._first = first_size // micro_batch_size
        self._last = batches.batch_size // micro_batch_size
        self._micro_batch_size = micro_batch_size
        self._ratio = ratio
        self._steps = steps
        self.fractions: Sequence[float] = ()
        self._starts = [0]  # the first example of each step, and of the one after them
        self._lock = threading.Lock()  # the loop asks for batches in a thread of its own
        self.batch_size = batches.batch_size
        self.fingerprint = batches.fingerprint | {"ramp": [first_size, micro_batch_size, ratio]}

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """Return the examples `part` of a step's batch, where `part` is of the whole batch size."""
        first = self.count_examples(step)
        size = self.count_examples(step + 1) - first
        if part.start is not None:
            part = slice(part.start * size // self.batch_size, part.stop * size // self.batch_size)
        return self._batches.make_batch(first, size, part)

    def count_examples(self, steps: int) -> int:
        with self._lock:
            while len(self._starts) <= steps:
                size = self._find_size(len(self._starts) - 1)
                self._starts.append(self._starts[-1] + size)
            return self._starts[steps]

    def count_steps(self, whole_steps: float) -> int:
        """See `Batches.count_steps`: 1 / size, averaged over the linear growth of the size."""
        first, last = self._first, self._last
        while_growing = last * math.log(last / first) / (last - first)
        return int(whole_steps * (self._ratio * while_growing + 1 - self._ratio))

    def make_largest(self, part: slice = slice(None)) -> TrainingBatch:
        return self._batches.batch(0, part)

    def _find_size(self, step: int) -> int:
        if self._steps is not None:
            share = step / self._steps
        elif step < DELAY:
            share = 0.0
        else:
            share = self.fractions[step - DELAY]
        grown = (self._last - self._first) * min(share / self._ratio, 1.0)
        return (self._first + int(grown)) * self._micro_batch_size
