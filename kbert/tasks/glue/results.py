"""Results of GLUE: means and deviations over seeds, with the published metrics, and their page."""

import itertools
import statistics
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple

from kbert.io.row_formats import align, read_package_table
from kbert.tasks.glue.tasks import TASKS, Setting
from kbert.training.run.report_page import write_page

PAGE = "report.html"
_NOTE = (
    "All metrics are percentages. Ours are means over seeds on the dev data ± the sample's "
    "standard deviation, for the setting that did best there. Published ones on the test data "
    "(see below) are comparable but not the same. An average is of the first metric of each task "
    "but WNLI, with MNLI-m and MNLI-mm as two tasks."
)


# Published metrics by task and metric, a list with one per model. ("task", "metric") has the
# models' names, ("", "source") says for each whether it is on dev or test data, and its source.
PUBLISHED = {}
for _task, _metric, *_values in read_package_table(__package__, "published.tsv"):
    PUBLISHED[_task, _metric] = _values


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

    def __str__(self) -> str:
        metrics = [f"{name} {100 * value:.1f}" for name, value in self.metrics.items()]
        return f"{self.setting}, seed {self.seed}: {', '.join(metrics)}"


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
        chosen = [run for run in self.runs if run.setting == self.best]
        metrics = []
        for suffix, name in itertools.product(task.suffixes, task.metrics):
            values = tuple(run.metrics[name + suffix] for run in chosen)
            metrics.append(Metric(task.name + suffix, name, values))
        return metrics


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
        return list(itertools.chain.from_iterable(task.metrics for task in self.tasks))

    @property
    def average(self) -> Metric:
        """The GLUE score of each seed: the mean of the first metric of each task on each dev file.

        BERT's paper (with Spearman's correlation for STS-B) and cramming (target_metrics in
        cramming/config/eval/tasks of its repository) compute it so: without WNLI, and with MNLI-m
        and MNLI-mm as two tasks. All of them are nine metrics: "average of 9" is comparable.
        """
        first: dict[str, Metric] = {}
        for metric in self.metrics:
            if metric.task != "WNLI":
                first.setdefault(metric.task, metric)
        values = [metric.values for metric in first.values()]
        means = [statistics.fmean(of_seed) for of_seed in zip(*values, strict=True)]
        return Metric("average", f"of {len(first)}", tuple(means))

    def __repr__(self) -> str:
        return f"GlueResult({len(self.tasks)} tasks, {self.folder.name!r})"

    def __str__(self) -> str:
        models = PUBLISHED["task", "metric"]
        metrics = self.metrics
        if len(self.tasks) > 1:
            metrics.append(self.average)
        table = [["task", "metric", "dev", *models]]
        for metric in metrics:
            values = PUBLISHED.get(metric[:2], [""] * len(models))
            table.append([*metric[:2], str(metric), *values])
        return align(table)


def published_text() -> str:
    """Return the published metrics as a table."""
    table = [["task", "metric", *PUBLISHED["task", "metric"]]]
    for (task, metric), values in PUBLISHED.items():
        if (task, metric) not in (("task", "metric"), ("", "source")):
            table.append([task, metric, *values])
    return align(table)


def write_glue_page(result: GlueResult) -> None:
    """Write report.html into the result's folder.

    The page has the table, each task's grid and seeds, and the sources of the published metrics.
    """
    name = result.folder.name
    sections = [
        f"<h1>GLUE</h1><p class=dim>{escape(name)}</p>",
        f"<div class=table><pre>{result}</pre></div><p class=small>{_NOTE}</p>",
    ]
    for task in result.tasks:
        sections.append(f"<h2>{task.task}</h2><p>Best: {task.best}</p>")
        for run in task.runs:
            page = f"{task.task}/{run.folder.name}/report.html"
            sections.append(f"<p class=small><a href='{page}'>{run}</a></p>")

    for model, source in zip(PUBLISHED["task", "metric"], PUBLISHED["", "source"], strict=True):
        sections.append(f"<p class=small>{model}: {source}</p>")
    write_page(result.folder / PAGE, f"{name}: GLUE", sections)
