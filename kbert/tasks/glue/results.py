"""Results of GLUE: means and deviations over seeds, with the published metrics, and their page."""

import csv
import functools
import html
import itertools
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from kbert.graph.config import BertConfig
from kbert.tasks.glue.benchmark import TASKS, Setting
from kbert.training.run.report_page import write_page

PAGE = "report.html"
_NOTE = (
    "All metrics are percentages. Ours are means over seeds on the dev data ± the sample's "
    "standard deviation, for the setting that did best there. Most published ones are on the test "
    "data (see below), so the two are comparable but not the same."
)


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
        chosen = [run for run in self.runs if run.setting == self.best]
        metrics = []
        for suffix in task.dev:
            for name in task.metrics:
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

    def __repr__(self) -> str:
        return f"GlueResult({len(self.tasks)} tasks, {self.folder.name!r})"

    def __str__(self) -> str:
        table = make_table(self.metrics)
        widths = []
        for cells in zip(*table, strict=True):
            widths.append(max(len(cell) for cell in cells))

        lines = []
        for row in table:
            aligned = []
            for column, width in enumerate(widths):
                cell = row[column]
                is_number = column >= 2
                padded = cell.rjust(width) if is_number else cell.ljust(width)
                aligned.append(padded)
            lines.append("  ".join(aligned).rstrip())
        return "\n".join(lines)


@functools.cache
def read_published() -> list[dict[str, str]]:
    """Return the published metrics, with model, task, data and source of each, in a fixed order."""
    text = (files("kbert.tasks.glue") / "published.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def make_table(metrics: Sequence[Metric]) -> list[list[str]]:
    """Return a header, and one metric per row beside the published ones; all are percents."""
    published: dict[str, dict[tuple[str, str], str]] = {}  # by model, then by task and metric
    for row in read_published():
        values_of_model = published.setdefault(row["model"], {})
        values_of_model[row["task"], row["metric"]] = row["value"]

    table = [["task", "metric", "dev", *published]]
    for metric in metrics:
        key = metric.task, metric.metric
        values = [values_of_model.get(key, "") for values_of_model in published.values()]
        table.append([*key, str(metric), *values])
    return table


def write_glue_page(result: GlueResult, config: BertConfig) -> None:
    """Write report.html into the result's folder; `config` is the checkpoint's.

    The page has the table, each task's grid and seeds, and the sources of the published metrics.
    """
    name, escape = result.folder.name, html.escape
    cards = "".join(
        f"<div class=card><b>{escape(str(metric))}</b>{escape(f'{metric.task}, {metric.metric}')}"
        "</div>"
        for metric in result.metrics
    )
    cells = []
    for row in make_table(result.metrics):
        cells.append([escape(cell) for cell in row])
    sources = ""
    for model, text in _list_sources().items():
        sources += f"<dt>{escape(model)}</dt><dd>{escape(text)}</dd>"

    sections = [
        f"<h1>GLUE</h1><p class=dim>{escape(name)} · {config.num_hidden_layers} layers × "
        f"{config.hidden_size}, {config.num_attention_heads} heads</p>",
        f"<div class=cards>{cards}</div>",
        "<h2>Compared with published metrics</h2>",
        _make_html_table(cells[0], cells[1:], num_left=2),
        f"<p class=small>{_NOTE}</p>",
    ]
    sections += [_describe_runs(task, result.folder) for task in result.tasks]
    sections.append(f"<h2>Sources</h2><dl>{sources}</dl>")
    write_page(result.folder / PAGE, f"{name}: GLUE", sections)


def _list_sources() -> dict[str, str]:
    """Return where the published metrics of each model are from."""
    return {row["model"]: f"{row['source']}; {row['data']}" for row in read_published()}


def _make_html_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], num_left: int, best: Collection[int] = ()
) -> str:
    """Return a table of HTML cells; the first `num_left` columns are left-aligned."""

    def join(row: Sequence[str], tag: str) -> str:
        cells = []
        for column, cell in enumerate(row):
            style = " class=n" if column >= num_left else ""
            cells.append(f"<{tag}{style}>{cell}</{tag}>")
        return "".join(cells)

    body = []
    for number, row in enumerate(rows):
        style = " class=best" if number in best else ""
        body.append(f"<tr{style}>{join(row, 'td')}</tr>")
    return (
        f"<div class=wide><table><thead><tr>{join(head, 'th')}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _describe_runs(result: TaskResult, folder: Path) -> str:
    """Return a task's runs, folded: the grid and the seeds, with a link to each run's own page."""
    task, runs = TASKS[result.task], result.runs
    best = max(task.score(run.metrics) for run in runs)
    rows = []
    for run in runs:
        metrics = [f"{100 * value:.1f}" for value in run.metrics.values()]
        page = run.folder.relative_to(folder) / "report.html"
        address = html.escape(page.as_posix())
        link = f"<a href='{address}'>its curves</a>"
        setting = str(run.setting)
        seed = str(run.seed)
        rows.append([setting, seed, *metrics, link])

    metric_names = [html.escape(name) for name in runs[0].metrics]
    head = ["setting", "seed", *metric_names, ""]
    chosen = [number for number, run in enumerate(runs) if run.setting == result.best]
    return (
        f"<details><summary>{html.escape(task.name)}: {len(runs)} runs, the best "
        f"{100 * best:.1f}; {html.escape(str(result.best))}</summary>"
        f"{_make_html_table(head, rows, num_left=1, best=chosen)}</details>"
    )
