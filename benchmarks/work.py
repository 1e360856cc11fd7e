"""A work: who does it, in turns, and what it must show."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.claims import Bound, Claim, Growth
from benchmarks.contenders import Contender


@dataclass(frozen=True)
class Work:
    """Contenders that do the same, in turns.

    Attributes:
        name: what `--only` takes.
        title: for the table.
        contenders: who does it.
        claims: what is to be shown.
        count: how often a contender does it in a turn.
        warm: whether a turn that does not count comes first; the first time of all never counts.
        memory: MiB that a contender is expected to hold at most.
        flops: of matrix products in one unit of work, by the accounting; 0: not told.
        peaks: the contenders that only multiply matrices, and their FLOPs.
        amount, unit: of what one unit of work goes through, such as 20, "MB"; 0: not told.
        files: a `Contender` that fills the folder "folder" of its options before all others, who
            get that folder too; None: no files.
    """

    name: str
    title: str
    contenders: tuple[Contender, ...]
    claims: Sequence[Claim | Bound | Growth] = ()
    count: int = 3
    warm: bool = True
    memory: int = 4000
    flops: int = 0
    peaks: dict[str, int] = field(default_factory=dict)
    amount: float = 0
    unit: str = ""
    files: Contender | None = None
