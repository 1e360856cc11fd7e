"""Tasks for fine-tuning: a `Task` reads and encodes data, and computes metrics."""

import copy
import dataclasses
import os
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kbert.data.labelled.columns import NO_OPTIONS, ColumnOptions
from kbert.graph import aliases
from kbert.heads import HEADS
from kbert.io import printable
from kbert.io.wording import check_choice, data_of

if TYPE_CHECKING:  # the command line reads TASKS, without NumPy
    from kbert.data.labelled.length_buckets import Examples
    from kbert.tasks.common.intervals import Scores
    from kbert.training.run.predictions import Baseline, Predictions

# The module and name of a task, and what a file of its data contains.
TASKS = {
    "classify": (
        "kbert.tasks.classification.training:TASK",
        "one example per line: text, [second text,] label, separated by tabs; or .csv, .jsonl, "
        ".parquet with these columns",
    ),
    "regress": (
        "kbert.tasks.classification.training:REGRESSION",
        "the same with a number as the label",
    ),
    "multilabel": (
        "kbert.tasks.classification.training:MULTI_LABEL",
        "the same with any number of labels, separated by commas; or a column of 0 and 1 for each "
        "label (--label-columns)",
    ),
    "tag": (
        "kbert.tasks.tagging.training:TASK",
        "one word and its label per line, a blank line after each sentence",
    ),
    "qa": ("kbert.tasks.answering.training:TASK", "SQuAD's JSON, 1.1 or 2.0"),
    "choice": (
        "kbert.tasks.choosing:TASK",
        "a .csv, .tsv or .jsonl with the columns prompt, choice0, choice1, … and label (the number "
        "of the right choice, from 0), or with SWAG's columns",
    ),
    "embed": (
        "kbert.tasks.embedding.training:TASK",
        "two texts (a pair), three or more (the others are negatives), two texts and a score, or "
        "a text and a label, separated by tabs; or .csv, .jsonl",
    ),
}
_EXCEL = (".xlsx", ".xls", ".xlsm", ".ods")


class Task(ABC):
    """One kind of labelled data: its reader, its head and its metrics.

    A task that measures a model in a way of its own has a method `evaluate`: see
    `kbert.tasks.embedding.training`.

    Attributes:
        name: as in `TASKS`.
        head: the graph's, one of `kbert.heads`.
        score: which of the metrics says what is best, higher is better.
        title: what is trained, after "Fine-tuning", on the run's page.
        has_classes: whether the labels are classes, which can be smoothed and weighted.
        problem_type: as transformers' config.json has it; None: the head says it.
        read_step, plan_step: the functions that read and plan its runs, as module:name; see
            `kbert.training.run_plan`.
        takes_teacher: whether a teacher's outputs can be learned.
        takes_label_columns: whether the labels may be columns of 0 and 1.
        takes_sample_weights: whether examples may have weights.
        positive_label: the label that a classifier's f1 is of; None: the second one of two.
    """

    name: str
    head: str
    score: str
    title: str
    has_classes: bool = False
    problem_type: str | None = None
    read_step: str = "kbert.tasks.finetuning.run_request:read_labelled"
    plan_step: str = "kbert.tasks.finetuning.planning:plan_finetuning"
    takes_teacher: bool = True
    takes_label_columns: bool = False
    takes_sample_weights: bool = False
    positive_label: str | None = None

    @property
    def loss(self) -> str:
        """The loss of its outputs, of `kbert.training.losses`: its head's or another."""
        return HEADS[self.head].loss

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses that a run may have, by name; the first is the default."""
        return (self.loss,)

    @property
    def trains_embeddings(self) -> bool:
        """True if there is no head."""
        return not HEADS[self.head].layers

    def with_positive_label(self, label: str | None) -> Self:
        """Return the task with a positive label; a ValueError if it can have none."""
        if label is not None and self.name != "classify":
            raise ValueError(f"positive_label must be for the task classify, got {self.name}")
        if label is None:
            return self
        task = copy.copy(self)
        task.positive_label = label
        return task

    def load_steps(self) -> tuple[Callable, Callable]:
        """Return the functions that read and plan its runs."""
        return pkgutil.resolve_name(self.read_step), pkgutil.resolve_name(self.plan_step)

    @abstractmethod
    def read(self, data, name: str = "data", options: ColumnOptions = NO_OPTIONS) -> list:
        """Return the records of a file, or of rows in memory, in their order.

        Each knows its file and line, or its index behind `name`, as errors do. `options` are which
        columns to read, and whether there is a header. `read_table` reads tables by their format.
        """

    def labels(self, records: Sequence, /) -> tuple[str, ...] | None:
        """Return the labels of the training data, sorted; None where the head has none."""
        return None

    def check_labels(self, records: Sequence, labels: Sequence[str], /) -> None:
        """Raise a ValueError, with file and line, for a label that `labels`, of classes, lacks."""
        return None

    def count_labels(self, records: Sequence, /) -> dict[str, Any]:
        """Return what records teach, as JSON: "labels", a count by label, or other facts."""
        return {}

    def choose_score(self, labels: Sequence[str] | None) -> str:
        """Return the metric that says what is best; `labels` are the head's."""
        return self.score

    def find_positive(self, labels: Sequence[str]) -> str | None:
        """Return the label that f1 is of; None: it is of none, or of several."""
        return None

    def describe_metrics(self, labels: Sequence[str] | None) -> str:
        """Return what a metric is of, where its name does not say it, in words; else ""."""
        return ""

    @abstractmethod
    def encode(self, records: Sequence, /, tokenizer, labels, *, max_length: int) -> "Examples":
        """Encode records: the model's inputs, and the labels as numbers."""

    @abstractmethod
    def scores(self, records: Sequence, examples, outputs: dict[str, list], labels) -> "Scores":
        """Return how good outputs are, per example; its `metrics` are over all.

        `outputs` are logits by the model's output, float32, an array an example, in their order;
        those over tokens are as long as the example. `labels` are the head's, or None.
        """

    def find_baseline(self, train: Sequence, dev: Sequence, /) -> "Baseline | None":
        """Return how good, on dev records, a model is that does not read them; None: it has none.

        It knows the labels of the training records.
        """
        return None

    def describe_predictions(
        self, records: Sequence, examples, outputs: dict[str, list], labels
    ) -> "Predictions | None":
        """Return what a run's page shows of outputs, as for `scores`; None: nothing."""
        return None

    def pair_predictions(
        self, records: Sequence, examples, outputs: dict[str, list], labels
    ) -> tuple[list, list] | None:
        """Return the answers of the data and of a model, where these are not classes or numbers.

        They are for the user's functions. None: these get `user_metrics.pair_arrays`.
        """
        return None


def task_of(name: str) -> Task:
    """Return the task of a name or an alias; a ValueError lists those that there are."""
    name = aliases.resolve("task", name)
    check_choice(name, TASKS, "task", aliases.find_way("no task", name))
    return pkgutil.resolve_name(TASKS[name][0])


@printable.escape_errors()
def records_of(task: Task, data, name: str = "data", columns: ColumnOptions = NO_OPTIONS) -> list:
    """Read a task's records from a file or from rows in memory; `name` is the argument's name."""
    if columns.labels and not task.takes_label_columns:
        raise ValueError(
            f"label_columns must be for the task multilabel or classify, got {task.name}"
        )
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        if path.suffix.lower() in _EXCEL:
            raise ValueError(f"{data}: Excel files are not read: save it as .csv")
        if path.is_file() and path.stat().st_size == 0:
            raise ValueError(f"{data}: the file is empty. Expected: {TASKS[task.name][1]}")
        name = str(data)
    records = task.read(data, name, columns)
    if not records:
        raise ValueError(f"{name} for {task.name} must have one record or more, got none")
    return records


def with_known_labels(
    columns: ColumnOptions, task: Task, labels: tuple[str, ...] | None
) -> ColumnOptions:
    """Return the options with a model's labels, none of which a header has; not for regression."""
    if not labels or task.problem_type == "regression":
        return columns
    return dataclasses.replace(columns, known_labels=labels)


def read_data(
    task: Task, train, dev, columns: ColumnOptions = NO_OPTIONS
) -> tuple[list, list | None, tuple[str, ...] | None]:
    """Return the records of training and dev data, and the labels of the training data.

    Dev data must have no other labels; pairs of texts if the training data have them.
    """
    records = records_of(task, train, "train", columns)
    labels = task.labels(records)
    if dev is None:
        return records, None, labels

    columns = with_known_labels(columns, task, labels)
    multi_hot = getattr(records, "multi_hot", None)
    columns = dataclasses.replace(columns, multi_hot=multi_hot, weight=None)
    dev_records = records_of(task, dev, "dev", columns)

    kind, dev_kind = _name_kind(records[0]), _name_kind(dev_records[0])
    if kind != dev_kind:
        raise ValueError(
            "train and dev must both have pairs of texts or both single texts, got "
            f"{kind} in {data_of(records[0].location)} and {dev_kind} in "
            f"{data_of(dev_records[0].location)}"
        )
    if labels and task.problem_type != "regression":
        task.check_labels(dev_records, labels)
    return records, dev_records, labels


def _name_kind(record) -> str:
    return "single texts" if getattr(record, "pair", None) is None else "pairs"
