"""A budget of hours: the share of it at which each step of a run begins.

The schedule follows this share. Each share is recorded before its step is computed, so that a run
that was killed computes the same steps again, up to its last record.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

MOST_STEPS = 2**24  # the iterations of a training state are float32
_RECENT = 8  # steps whose durations say whether another one fits


class TimeBudget:
    """The shares of a run's budget, and the clock that gives the next one.

    Args:
        hours: the budget.
        fractions: of the steps that were recorded, in order.
        record: writes the share of a step, counted from 0; None: another process does.

    Attributes:
        fractions: the share at which each step began, 0 … 1, exact in float32.
    """

    def __init__(
        self,
        hours: float,
        fractions: Sequence[float] = (),
        record: Callable[[int, float], None] | None = None,
    ):
        self._seconds = 3600 * hours
        self._record = record
        self._start: float | None = None  # of the budget, by this process's clock
        self.fractions = list(fractions)

    def begin_steps(self, step: int, count: int) -> list[float]:
        """Return the shares of the steps of a call: those recorded, then those by the clock."""
        self._measure(step + count)
        return self.fractions[step : step + count]

    def _measure(self, end: int) -> None:
        """Add the shares of the steps up to `end`, a call that begins now."""
        first = len(self.fractions)
        if first >= end:
            return
        share = self._read_clock()
        duration = self._estimate_step(first)  # the steps of a call begin one after the other
        for step in range(first, end):
            value = share + duration * (step - first)
            self.add(step, min(value, 1.0))
            if self._record is not None:
                self._record(step, self.fractions[step])

    def add(self, step: int, share: float) -> None:
        """Add the share of a step that another process has measured, if it is not known yet."""
        if step == len(self.fractions):
            self.fractions.append(float(np.float32(share)))

    def is_spent(self, done: int) -> bool:
        """Return whether no step fits after the first `done` ones; False where that is not known.

        It depends on the recorded shares alone: all hosts, and a resumed run, get the same answer.
        """
        if not 0 < done <= len(self.fractions):
            return False
        last = self.fractions[done - 1]
        return last >= 1 or last + 2 * self._estimate_step(done) > 1

    def count_seconds_left(self) -> float:
        """Return the seconds of the budget that are left after the last step that began."""
        share = self.fractions[-1] if self.fractions else 0.0
        return self._seconds * (1 - share)

    def _read_clock(self) -> float:
        now = time.monotonic()
        if self._start is None:  # the time between a kill and the next start does not count
            last = self.fractions[-1] if self.fractions else 0.0
            self._start = now - last * self._seconds
        return (now - self._start) / self._seconds

    def _estimate_step(self, done: int) -> float:
        """Return the share of the shortest of the last steps, from the start of one to the next."""
        recent = self.fractions[max(0, done - _RECENT) : done]
        durations = np.diff(recent)
        return float(durations.min()) if len(durations) else 0.0
