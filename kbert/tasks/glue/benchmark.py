"""The nine tasks of GLUE, with columns, labels and official metrics, and the grid of their runs.

Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language
Understanding" (arXiv 1804.07461), table 1; the files are those of its download, gluebenchmark.com.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kbert.io.wording import first_few
from kbert.training.settings.setting_rules import check_settings

_TWO = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")
_PAIR = ("sentence1", "sentence2")
_F1 = ("f1", "accuracy")
_MNLI = {"-m": "dev_matched.tsv", "-mm": "dev_mismatched.tsv"}


class Layout(NamedTuple):
    """A file's number of columns, and the indices of label, text and second text."""

    columns: int
    label: int
    text: int
    pair: int | None = None


@dataclass(frozen=True)
class GlueTask:
    """One of the nine.

    Attributes:
        name: as GLUE writes it, of its folder too.
        columns: header names of its files: label, text and, if there is one, second text.
        labels: all of them; none: numbers.
        metrics: the official ones, by name in `kbert.tasks.common.metrics`; a task's score is their
            mean, as GLUE's.
        headless: the layout of its files if they have no header.
        dev: its dev files, by what is put behind the name.
        may_be_broken: whether its own download has lines with other columns.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[str, ...] = _TWO
    metrics: tuple[str, ...] = ("accuracy",)
    headless: Layout | None = None
    dev: dict[str, str] = field(default_factory=lambda: {"": "dev.tsv"})
    may_be_broken: bool = False

    @property
    def kind(self) -> str:
        """The task of `kbert.finetune`."""
        return "classify" if self.labels else "regress"

    @property
    def positive_label(self) -> str | None:
        """The label that F1 is of: 1, whatever a checkpoint's order of labels is."""
        return "1" if "f1" in self.metrics else None

    def score(self, metrics: Mapping[str, float]) -> float:
        """Return the mean of the official metrics on the first dev file, which ranks settings."""
        first = next(iter(self.dev))
        return statistics.fmean(metrics[metric + first] for metric in self.metrics)


TASKS = {
    task.name: task
    for task in (
        GlueTask("CoLA", ("label", "sentence"), _TWO, ("matthews",), Layout(4, label=1, text=3)),
        GlueTask("SST-2", ("label", "sentence"), headless=Layout(2, label=1, text=0)),
        GlueTask("MRPC", ("Quality", "#1 String", "#2 String"), _TWO, _F1),
        GlueTask("STS-B", ("score", *_PAIR), (), ("pearson", "spearman")),
        GlueTask("QQP", ("is_duplicate", "question1", "question2"), _TWO, _F1, may_be_broken=True),
        GlueTask("MNLI", ("gold_label", *_PAIR), _NLI, dev=_MNLI),
        GlueTask("QNLI", ("label", "question", "sentence"), _ENTAILMENT),
        GlueTask("RTE", ("label", *_PAIR), _ENTAILMENT),
        GlueTask("WNLI", ("label", *_PAIR)),
    )
}


def find_tasks(names: str | Sequence[str]) -> list[GlueTask]:
    """Return the tasks of some names, in GLUE's order; "sst2" is SST-2.

    `names` are "all", names between commas, or a list of them.
    """
    if isinstance(names, str):
        names = list(TASKS) if names == "all" else names.split(",")
    if not names:
        raise ValueError(f"tasks must be all, or of {', '.join(TASKS)}, got none")

    known = {_simplify(name): task for name, task in TASKS.items()}
    wanted = []
    for name in names:
        simple_name = _simplify(str(name))
        if simple_name not in known:
            raise ValueError(f"tasks must be all, or of {', '.join(TASKS)}, got {name!r}")
        wanted.append(known[simple_name])
    return [task for task in TASKS.values() if task in wanted]


def _simplify(name: str) -> str:
    name = name.strip().lower()
    return name.replace("-", "").replace("_", "")


def find_folders(data, tasks: Sequence[GlueTask]) -> dict[str, Path]:
    """Return the folder of each task within GLUE's, by the task's name."""
    data = Path(data)
    if not data.is_dir():
        raise FileNotFoundError(f"{data}: expected one folder per task, found none")
    folders = sorted(path for path in data.iterdir() if path.is_dir())
    by_name = {_simplify(path.name): path for path in reversed(folders)}
    for task in tasks:
        if _simplify(task.name) not in by_name:
            names = first_few([path.name for path in folders], 9) or "nothing"
            raise FileNotFoundError(
                f"{data}: expected a folder {task.name}, got {names}: choose tasks that are there"
            )
    return {task.name: by_name[_simplify(task.name)] for task in tasks}


class Setting(NamedTuple):
    """Point of the hyperparameter grid.

    Attributes:
        batch_size, learning_rate, epochs: settings of its runs.
    """

    batch_size: int
    learning_rate: float
    epochs: int

    def __str__(self) -> str:
        epochs = f"{self.epochs} epoch{'s' if self.epochs > 1 else ''}"
        return f"batch {self.batch_size}, rate {self.learning_rate:g}, {epochs}"


# By the argument of `kbert.glue`, the setting of each run.
GRID = {"batch_sizes": "batch_size", "learning_rates": "learning_rate", "epochs": "epochs"}


def list_settings(**grid: Sequence) -> list[Setting]:
    """Return every combination of the values of a grid, by the names of `GRID`, in order."""
    for name, setting in GRID.items():
        values = grid[name]
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(f"{name} must be one number or more, in a list, got {values!r}")
        for value in values:
            check_settings({setting: value})

    points = itertools.product(*(grid[name] for name in GRID))
    return [Setting(*values) for values in dict.fromkeys(points)]
