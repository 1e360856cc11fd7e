"""Report of a run as one page: its result, its curves, its data, settings and environment.

HTML with everything in it: one file that opens anywhere, light or dark, wide or narrow. While the
run trains, the page loads itself again.
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape as _escape
from importlib import resources
from typing import Any

from kbert.checkpoints.bert import Bert
from kbert.checkpoints.hub.names import ModelName
from kbert.graph.accounting import account
from kbert.graph.spec import GraphSpec
from kbert.io import json_schema as js
from kbert.io import palette, printable
from kbert.io.atomic_write import write_atomically
from kbert.io.file_kinds import PAGE_MARK
from kbert.io.json_values import as_json
from kbert.io.units import duration, short
from kbert.training.run import predictions_html
from kbert.training.run.curves import draw_curves
from kbert.training.run.predictions import Baseline, Predictions
from kbert.training.run.record_summary import RecordSummary
from kbert.training.run.usage import write_usage
from kbert.training.setting_rules import RATE_SETTINGS

REFRESH = 10  # seconds until a page of a run that trains loads itself again
FILE = "report.html"

# Settings that kbert chooses where they are None. Others are off then.
_AUTOMATIC = (
    *("jit", "lengths", "max_predictions", "dev_ratio", "evaluate_every", "save_every"),
    *("log_every", "warmup_steps", "head_learning_rate", "lora_alpha", "schedule_timescale"),
)
# Settings that do nothing without another one.
_ONLY_WITH = dict.fromkeys(("lora_targets", "lora_alpha", "lora_dropout"), "lora_rank")
_ONLY_WITH |= {"hidden_loss_weight": "hidden_loss"}
_IN_SIGHT = (  # settings that are not folded; besides those that differ from their defaults
    *("task", "epochs", "steps", "batch_size", "learning_rate", "max_length", "seq_len"),
    *("optimizer", "schedule", "warmup_ratio", "warmup_steps", "weight_decay", "precision"),
    "seed",
)
_IN_DATA = ("labels", "config", "lengths")  # settings that are facts of data and model
_RATIOS = ("accuracy", "f1", "precision", "recall", "match", "exact")  # ends of metrics' names
_MOST_EVALUATIONS = 100  # of the table
_LONGEST_VALUE = 2000  # characters of a setting, such as thousands of labels
_LOGO = (
    '<svg class="mark" viewBox="0 0 28 28" aria-hidden="true">'
    '<rect class="k-mlm" x="4" y="2" width="20" height="6" rx="2"/>'
    '<rect class="k-feedforward" x="2" y="10" width="24" height="5" rx="2"/>'
    '<rect class="k-attention" x="2" y="16" width="24" height="5" rx="2"/>'
    '<rect class="k-embedding" x="6" y="23" width="16" height="4" rx="2"/></svg>'
)


def write_report(
    run,
    records: RecordSummary,
    result: dict,
    plan,
    *,
    predictions: tuple[Predictions, int] | None = None,
    bert: Bert | None = None,
) -> None:
    """Write RUN/report.html from the lines of metrics.jsonl and a result as in result.json.

    Args:
        result: without "stopped" while the run trains; with "interrupted", which says by what,
            where it was stopped and can be resumed.
        predictions: those for the dev data, and the step after which they were made. None: those in
            the page that is there, of an earlier start.
        bert: the run's model, once it is finished.
    """
    environment_file = run.path / "environment.json"
    environment = js.read(environment_file, js.OBJECT) if environment_file.exists() else {}
    facts = _list_facts(records, run.settings, environment, plan.model.spec)
    facts |= _name_base(plan.describe_training(result["steps"]))
    settings = _describe_settings(run.settings)
    in_sight = _pick_settings(settings, run, plan)
    tables = {"All settings": _flatten(settings), "Environment": _flatten(environment)}
    if predictions is None:
        section = _keep_section(run)
    else:
        section = predictions_html.write_section(*predictions, run.report_examples)
    sections = [
        _write_head(run, plan.title, result, environment, records),
        _write_cards(records, result, plan),
        f"<h2>Curves</h2><div class=curves>{draw_curves(records, plan.baseline)}</div>"
        if records.curves
        else "",
        '<div class="two"><section><h2>Run</h2>'
        f"<dl>{_join('<dt>{}</dt><dd>{}</dd>', facts.items())}</dl></section>"
        f"<section><h2>Settings</h2>{in_sight}</section></div>",
        section,
        write_usage(bert, run.name, plan.card.pairs) if bert is not None else "",
        _write_evaluations(records, result.get("weights_of_update")),
        *(
            f'<details data-name="{title}"><summary>{title}</summary><div class=table><table>'
            f"{_join('<tr><th scope=row>{}</th><td>{}</td></tr>', pairs)}</table></div></details>"
            for title, pairs in tables.items()
        ),
    ]
    is_running = "stopped" not in result
    title = f"{run.name}: a kbert run"
    write_page(run.path / FILE, title, sections, refresh=REFRESH if is_running else 0)


def write_page(
    path: str | os.PathLike, title: str, sections: Sequence[str], refresh: int = 0
) -> None:
    """Write sections of HTML as one page, with a title, in the style of a run's report.

    The page loads itself again every `refresh` seconds; 0: it does not.
    """
    folder = resources.files(__package__)
    style, script = (
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
    )
    # without scripts a reader stays at the top
    again = f'<noscript><meta http-equiv="refresh" content="{3 * refresh}"></noscript>'
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'{PAGE_MARK}<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"{again if refresh else ''}"
        f"<title>{_escape(title)}</title>"
        f"<style>{palette.write_css()}\n{palette.write_series_css()}\n{style}</style></head>"
        f'<body data-refresh="{refresh}" data-written="{time.time():.0f}">'
        f"<main>{''.join(sections)}</main>\n<script>{script}</script></body></html>\n"
    )
    write_atomically(path, printable.lines(page).encode())


def _keep_section(run) -> str:
    """Return the predictions in the page that is there; "" if there are none to show."""
    path = run.path / FILE
    if not run.report_examples or not path.is_file():
        return ""
    return predictions_html.find_section(path.read_text(encoding="utf-8", errors="replace"))


def _join(template: str, lines: Iterable[Sequence]) -> str:
    """Return the template once per line, filled with its escaped cells."""
    return "".join(template.format(*map(_escape, cells)) for cells in lines)


def _write_head(run, title: str, result: dict, environment: dict, records: RecordSummary) -> str:
    """Return the name of the run, its dates, and how far it is."""
    dates = []
    if "started" in environment:
        dates.append(f"started {environment['started']}")
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    dates.append(f"{'finished' if 'stopped' in result else 'written'} {now}")
    done, total = result["steps"], result["asked"]
    state, word = _name_state(result)
    progress = ""
    if state == "running":
        left = records.estimate_seconds(total - done)
        text = f"about {duration(left)} left" if left is not None else "the first steps"
        progress = (
            f'<progress max="{total}" value="{done}" aria-label="steps done"></progress>'
            f'<p class="small">{text} · <span data-updates>this page is updated while the run '
            'trains</span> <button type="button" hidden data-pause aria-pressed="false">Pause'
            "</button></p>"
        )
    if state != "finished":
        way = _escape(run.write_resume_command(run.name))
        resume = f"To resume the run: <code>{way}</code>"
        hidden = " hidden data-silent" if state == "running" else ""
        why = "<span data-age></span> The run may have ended. "
        if state == "interrupted":
            why = f"Stopped by {_escape(result['interrupted'])}. "
        progress += f'<p class="warning"{hidden}>{why}{resume}</p>'
    return (
        f'<header>{_LOGO}<div><h1>{_escape(run.name)}</h1><p class="dim">{_escape(title)} · '
        f'{_escape(" · ".join(dates))}</p></div><p class="state {state}"><b>{word}</b> '
        f"{_describe_end(result)}</p></header>{progress}"
    )


def _name_state(result: dict) -> tuple[str, str]:
    """Return the state of a run, and the word for it."""
    if "stopped" in result:
        return "finished", "Finished"
    return ("interrupted", "Interrupted") if "interrupted" in result else ("running", "Training")


def _describe_end(result: dict) -> str:
    done, total = result["steps"], result["asked"]
    if "stopped" not in result:
        return f"{done:,} of {total:,} steps done"
    text = f"all {done:,} steps done"
    if result["stopped"]:
        text = f"{_escape(result['stopped'])}, of {total:,}"
    best = result.get("weights_of_update", done)
    return text if best == done else f"{text}; the weights are from step {best:,}"


def _write_cards(records: RecordSummary, result: dict, plan) -> str:
    """Return the metrics that say how good the model is: on dev data where there are any."""
    score, baseline = plan.score.removeprefix("-"), plan.baseline
    last = records.evaluations[-1:]
    metrics = result.get("metrics") or {
        name[4:]: line[name] for line in last for name in line if name.startswith("val_")
    }
    cards = []
    compared_with = baseline.metric if baseline else None
    order = sorted(metrics, key=lambda name: (name != score, name != compared_with))
    for name in order[:8]:
        value, lines = metrics[name], [f"dev {name.replace('_', ' ')}"]
        ends = result.get("intervals", {}).get(name)
        if ends:
            low, high = (_write_score(name, end) for end in ends)
            lines.append(f"95 % interval {low} to {high}")
        if name == score and "stopped" not in result:
            lines += _describe_best(records, score, is_loss=plan.score.startswith("-"))
        compared = baseline if baseline and baseline.metric == name else None
        if compared:
            lines.append(f"baseline {_write_score(name, compared.value)}: {compared.text}")
        bar = _draw_bar(value, ends, compared) if _is_ratio(name) and 0 <= value <= 1 else ""
        cards.append((_write_score(name, value), bar, lines))
    if not metrics and "loss" in records.curves:
        loss, count = records.curves["loss"].average_last(0.1)
        over = "the last step" if count == 1 else f"mean of the last {count:,} recorded"
        cards = [(f"{loss:.3f}", "", [f"training loss, {over}"])]
    if not cards:
        return '<p class="dim">There are no numbers yet: the first step is being prepared.</p>'
    html = "".join(
        f"<div class=card><b>{value}</b>{bar}{_join('<span>{}</span>', zip(lines))}</div>"
        for value, bar, lines in cards
    )
    return f"<div class=cards>{html}</div>"


def _describe_best(records: RecordSummary, score: str, is_loss: bool) -> list[str]:
    """Return a line on the best evaluation so far; none if it is the last one."""
    column = f"val_{score}"
    finite = [line for line in records.evaluations if math.isfinite(line.get(column, math.nan))]
    if not finite:
        return []
    best = (min if is_loss else max)(finite, key=lambda line: line[column])
    if best["step"] == records.evaluations[-1]["step"]:
        return []
    return [f"best so far {_write_score(score, best[column])}, after step {best['step']:,}"]


def _draw_bar(value: float, interval: Sequence[float] | None, baseline: Baseline | None) -> str:
    """Return a bar from 0 to 1, with the interval and a mark at the baseline."""
    shapes = [f'<rect class="value" width="{100 * value:.1f}" height="6"/>']
    if interval:
        low, high = (100 * end for end in interval)
        shapes.append(f'<rect class="interval" x="{low:.1f}" width="{high - low:.1f}" height="6"/>')
    if baseline:
        shapes.append(
            f'<rect class="tick" x="{100 * baseline.value - 0.4:.1f}" width="0.8" height="6"/>'
        )
    return (
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="6"/>{"".join(shapes)}</svg>'
    )


def _is_ratio(name: str) -> bool:
    return name.rpartition("_")[2] in _RATIOS or name.startswith("recall@")


def _write_score(name: str, value: float) -> str:
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.1%}" if _is_ratio(name) else f"{value:.3f}"


def _list_facts(
    records: RecordSummary, settings: dict, environment: dict, spec: GraphSpec
) -> dict[str, str]:
    """Return the model's size and how fast it trained, on what, in words by name."""
    last, config = records.last, spec.config
    layers = config.num_hidden_layers
    params = account(config, 1, head=spec.head, num_labels=spec.num_labels).params
    facts = {
        "Model": f"{layers} layer{'s' if layers > 1 else ''} × {config.hidden_size}, "
        f"{config.num_attention_heads} heads; {params:,} parameters"
    }
    if "seconds" in last:
        facts["Duration"] = f"{duration(last['seconds'])}, evaluations and compiling included"
    if speed := records.median("tokens_per_second"):
        facts["Speed"] = f"{short(speed)} tokens a second, padding included"
    if environment:
        devices = ", ".join(environment["devices"])
        text = f"CPU, {environment['cpu_cores']} cores" if devices == "CPU" else devices
        if environment["replicas"] > 1:
            text += f"; {environment['replicas']} replicas"
        if environment["processes"] > 1:
            text += f" in {environment['processes']} processes"
        facts["Device"] = f"{text}; {environment['backend']}, {settings['precision']}"
    mfu = records.median("mfu")
    if mfu and environment.get("peak_flops"):  # a run that goes on may have no peak any more
        peak = f"{environment['peak_flops'] / 1e9:,.3g} GFLOP/s"
        facts["Utilization"] = (
            f"{mfu:.0%} of the peak: the model's matrix products, done in the time of a "
            f"step, against {peak} ({environment['peak_flops_source']})"
        )
    return facts


def _name_base(facts: Mapping[str, str]) -> dict[str, str]:
    """Return facts with the models' names and commits, in place of their addresses."""
    facts = dict(facts)
    for title in ("Started from", "Teacher"):
        if "://" in facts.get(title, ""):
            name = ModelName.parse(facts[title])
            if name is not None:
                kind = "commit" if name.hub == "hf" else "version"
                facts[title] = name.repo + (f", {kind} {name.revision}" if name.revision else "")
    return facts


def _describe_settings(settings: dict) -> dict[str, Any]:
    """Return the settings, with words where None stands for a choice or for off."""
    texts = {name: "automatic" for name in _AUTOMATIC if settings.get(name, 0) is None}
    for name, needed in _ONLY_WITH.items():
        if name in settings and not settings.get(needed):
            texts[name] = "off"
    if isinstance(settings.get("schedule"), dict):
        texts |= {name: "by the schedule" for name in RATE_SETTINGS if name in settings}
    return settings | texts


def _pick_settings(settings: dict[str, Any], run, plan) -> str:
    """Return the settings in sight: the usual ones, and in bold those that the user has chosen."""
    defaults = {}
    if dataclasses.is_dataclass(plan.settings):
        defaults = {
            field.name: field.default
            for field in dataclasses.fields(plan.settings)
            if field.default is not dataclasses.MISSING
        }
    chosen = {
        name
        for name, value in run.settings.items()
        if name in defaults
        and name not in (*run.derived, *_IN_DATA)
        and as_json(defaults[name]) != value
    }
    names = [name for name in _IN_SIGHT if name in settings]
    names += [name for name in settings if name in chosen and name not in names]
    entries = "".join(
        f"<dt>{_escape(name)}</dt>"
        f"<dd{' class=chosen' if name in chosen else ''}>{_escape(_value(settings[name]))}</dd>"
        for name in names
        if not isinstance(settings[name], dict)
    )
    note = "<p class=small>Bold: not the default.</p>" if chosen else ""
    return f"<dl>{entries}</dl>{note}"


def _write_evaluations(records: RecordSummary, best: int | None) -> str:
    evaluations = records.evaluations
    if not evaluations:
        return ""
    lines = evaluations[-_MOST_EVALUATIONS:]
    if len(lines) < len(evaluations):
        kept = [line for line in evaluations[: -len(lines)] if line["step"] == best]
        lines = kept + lines
    names = list(dict.fromkeys(name for line in lines for name in line if name.startswith("val_")))
    titles = ["step", *(name[4:].replace("_", " ") for name in names)]
    head = _join('<th class=n scope="col">{}</th>', zip(titles))
    body = "".join(
        f"<tr{' class=best' if line['step'] == best else ''}><td class=n>{line['step']:,}</td>"
        + _join("<td class=n>{}</td>", ([_value(line.get(name))] for name in names))
        + "</tr>"
        for line in lines
    )
    note = "Bold: the weights that were kept." if best is not None else ""
    if len(lines) < len(evaluations):
        last = f"The last {_MOST_EVALUATIONS} of {len(evaluations):,}: all are in metrics.jsonl."
        note = f"{last} {note}"
    note = f"<p class=small>{note}</p>" if note else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h2>Evaluations</h2><div class="table" tabindex="0">{table}</div>{note}'


def _flatten(values: dict, before: str = "") -> list[tuple[str, str]]:
    """List (name, text) of everything within."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        inner = isinstance(value, dict)
        pairs += _flatten(value, f"{before}{name}.") if inner else [(before + name, _value(value))]
    return pairs


def _value(value) -> str:
    if value is None:
        return "off"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return "not finite"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable.cut(text, _LONGEST_VALUE)
