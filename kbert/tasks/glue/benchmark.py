"""The nine tasks of GLUE: their files, columns, labels and official metrics.

Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language
Understanding" (arXiv 1804.07461), table 1; the files are those of its download, gluebenchmark.com.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_TWO = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")


class Columns(NamedTuple):
    """Header names of a file's text, second text and label."""

    text: str
    pair: str | None
    label: str


class Unnamed(NamedTuple):
    """A file without a header: its number of columns, and those of text and label, from 0."""

    columns: int
    text: int
    label: int


@dataclass(frozen=True)
class GlueTask:
    """One of the nine.

    Attributes:
        name: as GLUE writes it, of its folder too.
        columns: of its files.
        labels: all of them; none: numbers.
        metrics: the official ones, by their names in `kbert.tasks.metrics`; a task's score is
            their mean, as GLUE's.
        unnamed: its files where they have no header.
        dev: its dev files, by what is put behind the name.
        may_be_broken: whether its own download has lines with other columns.
    """

    name: str
    columns: Columns
    labels: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    unnamed: Unnamed | None = None
    dev: dict[str, str] = field(default_factory=lambda: {"": "dev.tsv"})
    may_be_broken: bool = False

    @property
    def kind(self) -> str:
        """The task of `kbert.finetune`."""
        return "classify" if self.labels else "regress"


_SENTENCES = ("sentence1", "sentence2")
TASKS = {
    task.name: task
    for task in (
        GlueTask(
            "CoLA",
            Columns("sentence", None, "label"),
            _TWO,
            ("matthews",),
            unnamed=Unnamed(4, text=3, label=1),
        ),
        GlueTask(
            "SST-2", Columns("sentence", None, "label"), _TWO, unnamed=Unnamed(2, text=0, label=1)
        ),
        GlueTask("MRPC", Columns("#1 String", "#2 String", "Quality"), _TWO, ("f1", "accuracy")),
        GlueTask("STS-B", Columns(*_SENTENCES, "score"), (), ("pearson", "spearman")),
        GlueTask(
            "QQP",
            Columns("question1", "question2", "is_duplicate"),
            _TWO,
            ("f1", "accuracy"),
            may_be_broken=True,
        ),
        GlueTask(
            "MNLI",
            Columns(*_SENTENCES, "gold_label"),
            _NLI,
            dev={"-m": "dev_matched.tsv", "-mm": "dev_mismatched.tsv"},
        ),
        GlueTask("QNLI", Columns("question", "sentence", "label"), _ENTAILMENT),
        GlueTask("RTE", Columns(*_SENTENCES, "label"), _ENTAILMENT),
        GlueTask("WNLI", Columns(*_SENTENCES, "label"), _TWO),
    )
}


def tasks_named(names: str | Sequence[str]) -> list[GlueTask]:
    """Return the tasks of some names, in GLUE's order.

    Args:
        names: "all", names between commas, or a list of them; "sst2" is SST-2.

    Raises:
        ValueError: one that is none of the nine.
    """
    if isinstance(names, str):
        names = list(TASKS) if names == "all" else names.split(",")
    known = {_plain(name): name for name in TASKS}
    for name in names:
        if not isinstance(name, str) or _plain(name) not in known:
            raise ValueError(f"tasks must be all, or of {', '.join(TASKS)}, got {name!r}")
    wanted = {known[_plain(name)] for name in names}
    if not wanted:
        raise ValueError(f"tasks must be all, or of {', '.join(TASKS)}, got none")
    return [task for name, task in TASKS.items() if name in wanted]


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


def is_folder_of(name: str, task: GlueTask) -> bool:
    """Return whether a folder's name is a task's: SST-2, sst2, SST2."""
    return _plain(name) == _plain(task.name)
