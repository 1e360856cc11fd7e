"""Results of GLUE: means and deviations over seeds, with the published metrics."""

import csv
import functools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from kbert.tasks.glue.benchmark import TASKS, GlueTask
from kbert.tasks.glue.grid import Setting


@dataclass(frozen=True)
class Run:
    """A run of a task.

    Attributes:
        setting, seed: its point of the grid, and its seed.
        metrics: metrics on dev data, by name: "accuracy", or "accuracy-mm" for MNLI's second file.
        folder: its folder.
    """

    setting: Setting
    seed: int
    metrics: dict[str, float]
    folder: Path


class Metric(NamedTuple):
    """A metric of a task over the seeds.

    Attributes:
        task: the task's name, with the suffix of its dev file: MNLI-mm.
        metric: the metric's name.
        values: one value per seed: fractions from 0 to 1, correlations from −1.
    """

    task: str
    metric: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation (n − 1); None for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        deviation = "" if self.deviation is None else f" ± {100 * self.deviation:.1f}"
        return f"{100 * self.mean:.1f}{deviation}"


@dataclass(frozen=True)
class TaskResult:
    """The runs of a task.

    Attributes:
        task: the task's name.
        best: the point of the grid that did best on the dev data with seed 0.
        runs: all runs.
    """

    task: str
    best: Setting
    runs: tuple[Run, ...]

    @property
    def metrics(self) -> list[Metric]:
        """Each official metric on each dev file, over the seeds of the best point."""
        task = TASKS[self.task]
        chosen = sorted(
            (run for run in self.runs if run.setting == self.best), key=lambda run: run.seed
        )
        return [
            Metric(
                task.name + suffix, metric, tuple(run.metrics[metric + suffix] for run in chosen)
            )
            for suffix in task.dev
            for metric in task.metrics
        ]


def score(task: GlueTask, metrics: dict[str, float]) -> float:
    """Return the mean of the official metrics on the first dev file, which ranks settings."""
    first = next(iter(task.dev))
    return statistics.fmean(metrics[metric + first] for metric in task.metrics)


@dataclass(frozen=True)
class GlueResult:
    """The result of `kbert.glue`; printed, it is the table.

    Attributes:
        tasks: one `TaskResult` per task, in GLUE's order.
        folder: the folder with one folder per task, one folder per run in it, and report.html.
    """

    tasks: tuple[TaskResult, ...]
    folder: Path

    @property
    def metrics(self) -> list[Metric]:
        """Metrics of all tasks."""
        return [metric for task in self.tasks for metric in task.metrics]

    def __repr__(self) -> str:
        return f"GlueResult({len(self.tasks)} tasks, {self.folder.name!r})"

    def __str__(self) -> str:
        return "\n".join(_aligned([header(), *make_table(self.metrics)]))


def header() -> list[str]:
    """Return the table's header."""
    return ["task", "metric", "dev", *models()]


def make_table(metrics: Sequence[Metric]) -> list[list[str]]:
    """Return the table: one metric per row, beside the published ones; all are percents."""
    return [
        [metric.task, metric.metric, str(metric)]
        + [published().get((model, metric.task, metric.metric), "") for model in models()]
        for metric in metrics
    ]


def _aligned(lines: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = 2  # columns of words
    return [
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


@functools.cache
def _table() -> list[dict[str, str]]:
    text = (files("kbert.tasks.glue") / "published.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def published() -> dict[tuple[str, str, str], str]:
    """Percents by model, task and metric, as their authors print them."""
    return {(row["model"], row["task"], row["metric"]): row["value"] for row in _table()}


def models() -> list[str]:
    """Return the models with published metrics, in the table's order."""
    return list(dict.fromkeys(row["model"] for row in _table()))


def sources() -> dict[str, str]:
    """Return the source of each model's metrics, with the data they are on, by its name."""
    return {row["model"]: f"{row['source']}; {row['data']}" for row in _table()}
