"""What a work must show: each claim is a ratio, above 1 where kbert takes less than it is held to.

What it is held to is another's figure (`Claim`), the products of matrices alone (`Share`), a number
of seconds (`Bound`), or the growth that the accounting counts (`Growth`).
"""

from dataclasses import dataclass

from benchmarks.figures import exponent, middle, of

NO_GROWTH = 0.01  # the smallest exponent that is told from none


@dataclass(frozen=True)
class Claim:
    """The best peer's figure over ours.

    Attributes:
        row: its number in docs/benchmarks/speed.md.
        ours: name of a contender.
        peers: names; the one with the smallest median counts.
        at_least, aim: of the ratio.
        figure: "seconds", "memory", or "first": seconds of the first time.
    """

    row: str
    ours: str
    peers: tuple[str, ...]
    at_least: float
    aim: float
    figure: str = "seconds"

    @property
    def names(self) -> tuple[str, ...]:
        """Who takes turns for it."""
        return (self.ours, *self.peers)

    @property
    def question(self) -> str:
        return f"{self.figure}, {' or '.join(self.peers)} / {self.ours}"

    def measured(self, turns: list[dict], work) -> tuple[str, list[float]]:
        """The peer that it is beside, and the ratio of each round; ("", []): not measured.

        Args:
            turns: of one heat.
            work: the `Work` that they are of.
        """
        found = {name: self._held_to(name, turns, work) for name in self.peers}
        there = [name for name in found if found[name]]
        ours = of(turns, self.ours, self.figure)
        if not there or not ours:
            return "", []
        best = min(there, key=lambda name: middle(found[name]))
        return best, [theirs / own for theirs, own in zip(found[best], ours, strict=False)]

    def _held_to(self, name: str, turns: list[dict], work) -> list[float]:
        return of(turns, name, self.figure)


@dataclass(frozen=True)
class Share(Claim):
    """How much of the rate of bare matrix products ours has: `peers` are of the work's peaks."""

    @property
    def question(self) -> str:
        return f"share of the rate of {' or '.join(self.peers)}, {self.ours}"

    def _held_to(self, name: str, turns: list[dict], work) -> list[float]:
        """Seconds that the work's own products take at that rate."""
        return [work.flops / work.peaks[name] * seconds for seconds in of(turns, name)]


@dataclass(frozen=True)
class Bound:
    """No more than a number of seconds: the bound over ours.

    Attributes:
        row, ours, figure: as of `Claim`.
        most: seconds.
    """

    row: str
    ours: str
    most: float
    figure: str = "seconds"
    at_least: float = 1.0
    aim: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        return (self.ours,)

    @property
    def question(self) -> str:
        return f"{self.figure}, {self.most} s / {self.ours}"

    def measured(self, turns: list[dict], work) -> tuple[str, list[float]]:
        """As of `Claim`."""
        return f"{self.most} s", [self.most / own for own in of(turns, self.ours, self.figure)]


@dataclass(frozen=True)
class Growth:
    """Ours grows with a size no faster than is counted: the exponent counted over that measured.

    Attributes:
        row, figure: as of `Claim`.
        ours: what is said of it.
        sizes: by the name of a contender, its size.
        counted: by the same names, what the accounting counts.
        floor: a contender whose figure is taken off: what is there without any model.
    """

    row: str
    ours: str
    sizes: dict[str, float]
    counted: dict[str, float]
    floor: str
    figure: str = "seconds"
    at_least: float = 0.95  # of an exponent; closer is not measured
    aim: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        return (self.floor, *self.sizes)

    @property
    def question(self) -> str:
        return f"exponent of {self.figure}, counted / measured, by {self.ours}"

    def measured(self, turns: list[dict], work) -> tuple[str, list[float]]:
        """As of `Claim`; beside the exponent that is counted."""
        found = [of(turns, name, self.figure) for name in self.sizes]
        floors = of(turns, self.floor, self.figure)
        if not floors or not all(found):
            return "", []
        sizes = list(self.sizes.values())
        wanted = exponent(sizes, [self.counted[name] for name in self.sizes])
        rounds = zip(floors, zip(*found, strict=False), strict=False)
        above = [[value - floor for value in values] for floor, values in rounds]
        if not all(value > 0 for values in above for value in values):
            return "", []  # noise alone
        measured = [max(exponent(sizes, values), NO_GROWTH) for values in above]
        return f"{wanted:.2f} counted", [wanted / one for one in measured]
