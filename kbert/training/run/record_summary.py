"""The records of a run in short, for its page: as long as the page is wide, however long the run.

Lines are added as they are recorded, so a page of a million steps is written as fast as one of ten.
"""

import math
import statistics
from collections.abc import Iterable, Mapping

MOST_POINTS = 200  # of a curve; half as many at least, once there were so many
Points = list[tuple[float, float]]  # (step, value)


class Curve:
    """A metric over the steps: each point is the mean of an equal number of records."""

    def __init__(self):
        self._sums: list[tuple[float, float, int]] = []  # (last step, sum, number of records)
        self._size = 1  # records of a point

    def add(self, step: float, value: float) -> None:
        """Add a record; two points become one where there are too many."""
        if self._sums and self._sums[-1][2] < self._size:
            _, total, count = self._sums[-1]
            self._sums[-1] = (step, total + value, count + 1)
        else:
            self._sums.append((step, value, 1))
        if len(self._sums) > MOST_POINTS:
            self._halve()

    def _halve(self) -> None:
        """Make one point of each two."""
        halved = []
        for n in range(0, len(self._sums), 2):
            pair = self._sums[n : n + 2]  # the last one may be alone
            steps, totals, counts = zip(*pair, strict=True)
            halved.append((steps[-1], sum(totals), sum(counts)))
        self._sums = halved
        self._size *= 2

    @property
    def points(self) -> Points:
        """(step, value), ascending."""
        return [(step, total / count) for step, total, count in self._sums]

    def average_last(self, share: float) -> tuple[float, int]:
        """Return the mean of about the last share of the records, and how many these are."""
        num_points = max(1, int(len(self._sums) * share))
        last_sums = self._sums[-num_points:]
        _, totals, counts = zip(*last_sums, strict=True)
        return sum(totals) / sum(counts), sum(counts)


class RecordSummary:
    """Lines of metrics.jsonl, in short.

    Attributes:
        curves: each metric over the steps, by its name; values that are not finite are left out.
        evaluations: the lines with metrics of dev data.
        last: the last line; {} before the first.
    """

    def __init__(self, lines: Iterable[Mapping] = ()):
        self.curves: dict[str, Curve] = {}
        self.evaluations: list[Mapping] = []
        self.last: Mapping = {}
        self._halfway: Mapping = {}  # a line in the middle of the run so far
        self._count = 0
        self._next = 1
        self.extend(lines)

    def extend(self, lines: Iterable[Mapping]) -> None:
        """Add lines, in their order."""
        for line in lines:
            self._add(line)

    def median(self, name: str) -> float | None:
        """Return the median of a metric; None: it was not recorded."""
        curve = self.curves.get(name)
        if curve is None:
            return None
        return statistics.median(value for _, value in curve.points)

    def estimate_seconds(self, steps: int) -> float | None:
        """Return how long so many steps take, as the last half of them did; None: unknown."""
        first, last = self._halfway, self.last
        if "seconds" not in last or "seconds" not in first or last["step"] <= first["step"]:
            return None
        seconds = last["seconds"] - first["seconds"]
        return seconds / (last["step"] - first["step"]) * steps

    def _add(self, line: Mapping) -> None:
        is_evaluation = False
        for name, value in line.items():
            is_evaluation = is_evaluation or name.startswith("val_")
            if name not in ("step", "seconds") and math.isfinite(value):
                curve = self.curves.setdefault(name, Curve())
                curve.add(line["step"], value)
        if is_evaluation:
            self.evaluations.append(line)
        self._count += 1
        if self._count == self._next:  # the 1st, 2nd, 4th, 8th …: the one before is kept
            self._halfway = self.last or line
            self._next *= 2
        self.last = line
