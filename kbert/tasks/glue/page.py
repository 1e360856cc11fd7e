"""GLUE's results as one page: the table, each task's grid and seeds, sources of metrics."""

import html
import os

from kbert.checkpoints.bert import Bert
from kbert.tasks.glue.benchmark import TASKS
from kbert.tasks.glue.results import (
    GlueResult,
    Metric,
    Run,
    TaskResult,
    header,
    make_table,
    score,
    sources,
)
from kbert.training.run.report_page import write_page

_NOTE = (
    "All metrics are percentages. Ours are means over seeds on the dev data ± the sample's "
    "standard deviation, for the setting that did best there. Most published ones are on the test "
    "data (see below), so the two are comparable but not the same."
)


def write_glue_page(result: GlueResult, bert: Bert) -> None:
    """Write report.html into the result's folder.

    Args:
        result: what the runs came to.
        bert: the checkpoint they began with.

    Raises:
        OSError: it cannot be written.
    """
    config = bert.config
    model = (
        f"{config.num_hidden_layers} layers × {config.hidden_size}, "
        f"{config.num_attention_heads} heads"
    )
    sections = [
        f"<h1>GLUE</h1><p class=dim>{html.escape(result.folder.name)} · {model}</p>",
        _cards(result.metrics),
        "<h2>Compared with published metrics</h2>",
        _table(header(), make_table(result.metrics)),
        f"<p class=small>{_NOTE}</p>",
        *(_task(task, result.folder) for task in result.tasks),
        f"<h2>Sources</h2><dl>{_sources()}</dl>",
    ]
    write_page(result.folder / "report.html", f"{result.folder.name}: GLUE", sections)


def _cards(metrics: list[Metric]) -> str:
    inner = "".join(
        f"<div class=card><b>{html.escape(str(metric))}</b>"
        f"{html.escape(f'{metric.task}, {metric.metric}')}</div>"
        for metric in metrics
    )
    return f"<div class=cards>{inner}</div>"


def _table(head: list[str], lines: list[list[str]]) -> str:
    """Return the table; task and metric, its first two columns, are left-aligned."""

    def cells(row: list[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if column >= 2 else ''}>{html.escape(cell)}</{tag}>"
            for column, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in lines)
    return (
        f"<div class=wide><table><thead><tr>{cells(head, 'th')}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _task(result: TaskResult, folder: os.PathLike) -> str:
    """Return a task's runs, folded: the grid and the seeds, with a link to each run's own page."""
    task = TASKS[result.task]
    names = list(result.runs[0].metrics)
    lines = "".join(_run(run, run.setting == result.best, names, folder) for run in result.runs)
    head = "".join(f"<th class=n>{html.escape(name)}</th>" for name in names)
    best = max(score(task, run.metrics) for run in result.runs)
    return (
        f"<details><summary>{html.escape(task.name)}: {len(result.runs)} runs, the best "
        f"{100 * best:.1f}; {html.escape(str(result.best))}</summary><div class=wide><table>"
        f"<thead><tr><th>setting</th><th class=n>seed</th>{head}<th></th></tr></thead>"
        f"<tbody>{lines}</tbody></table></div></details>"
    )


def _run(run: Run, chosen: bool, names: list[str], folder: os.PathLike) -> str:
    metrics = "".join(f"<td class=n>{100 * run.metrics[name]:.1f}</td>" for name in names)
    link = html.escape((run.folder.relative_to(folder) / "report.html").as_posix())
    return (
        f"<tr{' class=best' if chosen else ''}><td>{html.escape(str(run.setting))}</td>"
        f"<td class=n>{run.seed}</td>{metrics}<td><a href='{link}'>its curves</a></td></tr>"
    )


def _sources() -> str:
    return "".join(
        f"<dt>{html.escape(model)}</dt><dd>{html.escape(text)}</dd>"
        for model, text in sources().items()
    )
