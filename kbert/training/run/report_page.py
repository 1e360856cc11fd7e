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
from itertools import chain
from typing import Any

from kbert.checkpoints.bert import Bert
from kbert.graph.accounting import account
from kbert.graph.spec import GraphSpec
from kbert.hub.names import ModelName
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
from kbert.training.settings.run_settings import USUAL_SETTINGS
from kbert.training.settings.setting_rules import RATE_SETTINGS

REFRESH = 10  # seconds until a page of a run that trains loads itself again
FILE = "report.html"

# Settings that kbert chooses where they are None. Others are off then.
_AUTOMATIC = (
    "jit",
    "lengths",
    "max_predictions",
    "dev_ratio",
    "evaluate_every",
    "save_every",
    "log_every",
    "warmup_steps",
    "head_learning_rate",
    "lora_alpha",
    "schedule_timescale",
)
# Settings that do nothing without another one.
_ONLY_WITH = {
    "lora_targets": "lora_rank",
    "lora_alpha": "lora_rank",
    "lora_dropout": "lora_rank",
    "hidden_loss_weight": "hidden_loss",
}
# Settings that are not folded, besides those that differ from their defaults.
_IN_SIGHT = ("task", *USUAL_SETTINGS)
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
    environment = {}
    if environment_file.exists():
        environment = js.read(environment_file, js.OBJECT)
    facts = _list_facts(records, run.settings, environment, plan.model.spec)
    facts |= _name_base(plan.describe_training(result["steps"]))
    settings = _describe_settings(run.settings)

    sections = [
        _write_head(run, plan.title, result, environment, records),
        _write_cards(records, result, plan),
    ]
    if records.curves:
        curves = draw_curves(records, plan.baseline)
        sections.append(f"<h2>Curves</h2><div class=curves>{curves}</div>")
    sections.append(
        '<div class="two"><section><h2>Run</h2>'
        f"<dl>{_join('<dt>{}</dt><dd>{}</dd>', facts.items())}</dl></section>"
        f"<section><h2>Settings</h2>{_pick_settings(settings, run, plan)}</section></div>"
    )
    if predictions is None:
        sections.append(_keep_section(run))
    else:
        sections.append(predictions_html.write_section(*predictions, run.report_examples))
    if bert is not None:
        sections.append(write_usage(bert, run.name, plan.card.pairs))
    sections.append(_write_evaluations(records, result.get("weights_of_update")))
    sections.append(_fold_table("All settings", settings))
    sections.append(_fold_table("Environment", environment))

    is_running = "stopped" not in result
    title = f"{run.name}: a kbert run"
    refresh = REFRESH if is_running else 0
    write_page(run.path / FILE, title, sections, refresh=refresh)


def _fold_table(title: str, values: dict) -> str:
    """Return a table of everything within, which is folded under its title."""
    lines = _join("<tr><th scope=row>{}</th><td>{}</td></tr>", _flatten(values))
    return (
        f'<details data-name="{title}"><summary>{title}</summary><div class=table><table>'
        f"{lines}</table></div></details>"
    )


def write_page(
    path: str | os.PathLike, title: str, sections: Sequence[str], refresh: int = 0
) -> None:
    """Write sections of HTML as one page, with a title, in the style of a run's report.

    The page loads itself again every `refresh` seconds; 0: it does not.
    """
    folder = resources.files(__package__)
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    script = folder.joinpath("report.js").read_text(encoding="utf-8")
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
    text = path.read_text(encoding="utf-8", errors="replace")
    return predictions_html.find_section(text)


def _join(template: str, lines: Iterable[Sequence]) -> str:
    """Return the template once per line, filled with its escaped cells."""
    filled = []
    for cells in lines:
        escaped = [_escape(cell) for cell in cells]
        filled.append(template.format(*escaped))
    return "".join(filled)


def _write_head(run, title: str, result: dict, environment: dict, records: RecordSummary) -> str:
    """Return the name of the run, its dates, and how far it is."""
    state, word = _name_state(result)
    dates = []
    if "started" in environment:
        dates.append(f"started {environment['started']}")
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    dates.append(f"{'finished' if 'stopped' in result else 'written'} {now}")

    progress = ""
    if state == "running":
        progress += _write_progress(result, records)
    if state != "finished":
        progress += _write_warning(run, result, state)
    return (
        f'<header>{_LOGO}<div><h1>{_escape(run.name)}</h1><p class="dim">{_escape(title)} · '
        f'{_escape(" · ".join(dates))}</p></div><p class="state {state}"><b>{word}</b> '
        f"{_describe_end(result)}</p></header>{progress}"
    )


def _write_progress(result: dict, records: RecordSummary) -> str:
    """Return a bar of the steps that are done, and how long the others take."""
    done, total = result["steps"], result["asked"]
    left = records.estimate_seconds(total - done)
    text = f"about {duration(left)} left" if left is not None else "the first steps"
    return (
        f'<progress max="{total}" value="{done}" aria-label="steps done"></progress>'
        f'<p class="small">{text} · <span data-updates>this page is updated while the run '
        'trains</span> <button type="button" hidden data-pause aria-pressed="false">Pause'
        "</button></p>"
    )


def _write_warning(run, result: dict, state: str) -> str:
    """Return why a run ended or may have ended, and how to resume it."""
    way = _escape(run.write_resume_command(run.name))
    resume = f"To resume the run: <code>{way}</code>"
    if state == "interrupted":
        reason = f"Stopped by {_escape(result['interrupted'])}. "
        return f'<p class="warning">{reason}{resume}</p>'
    reason = "<span data-age></span> The run may have ended. "
    return f'<p class="warning" hidden data-silent>{reason}{resume}</p>'


def _name_state(result: dict) -> tuple[str, str]:
    """Return the state of a run, and the word for it."""
    if "stopped" in result:
        return "finished", "Finished"
    if "interrupted" in result:
        return "interrupted", "Interrupted"
    return "running", "Training"


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
    metrics = result.get("metrics") or _find_last_metrics(records)
    score = plan.score.removeprefix("-")
    baseline = plan.baseline
    compared_with = baseline.metric if baseline else None
    order = sorted(metrics, key=lambda name: (name != score, name != compared_with))

    cards = []
    for name in order[:8]:
        lines = []
        if name == score and "stopped" not in result:
            is_loss = plan.score.startswith("-")
            lines = _describe_best(records, score, is_loss=is_loss)
        interval = result.get("intervals", {}).get(name)
        compared = baseline if name == compared_with else None
        card = _write_metric(name, metrics[name], interval, lines, compared)
        cards.append(card)
    if not metrics and "loss" in records.curves:
        loss, count = records.curves["loss"].average_last(0.1)
        over = "the last step" if count == 1 else f"mean of the last {count:,} recorded"
        cards.append(_write_card(f"{loss:.3f}", "", [f"training loss, {over}"]))

    if not cards:
        return '<p class="dim">There are no numbers yet: the first step is being prepared.</p>'
    return f"<div class=cards>{''.join(cards)}</div>"


def _find_last_metrics(records: RecordSummary) -> dict[str, float]:
    """Return the metrics of the last evaluation, without the prefix; {} before the first."""
    if not records.evaluations:
        return {}
    last = records.evaluations[-1]
    names = [name for name in last if name.startswith("val_")]
    return {name.removeprefix("val_"): last[name] for name in names}


def _write_metric(
    name: str,
    value: float,
    interval: Sequence[float] | None,
    lines: Sequence[str],
    baseline: Baseline | None,
) -> str:
    """Return the card of a metric on dev data, with further lines below its interval."""
    texts = [f"dev {name.replace('_', ' ')}"]
    if interval:
        low, high = interval
        texts.append(f"95 % interval {_write_score(name, low)} to {_write_score(name, high)}")
    texts += lines
    if baseline:
        texts.append(f"baseline {_write_score(name, baseline.value)}: {baseline.text}")

    bar = ""
    if _is_ratio(name) and 0 <= value <= 1:
        bar = _draw_bar(value, interval, baseline)
    return _write_card(_write_score(name, value), bar, texts)


def _write_card(value: str, bar: str, texts: Sequence[str]) -> str:
    spans = "".join(f"<span>{_escape(text)}</span>" for text in texts)
    return f"<div class=card><b>{value}</b>{bar}{spans}</div>"


def _describe_best(records: RecordSummary, score: str, is_loss: bool) -> list[str]:
    """Return a line on the best evaluation so far; none if it is the last one."""
    column = f"val_{score}"
    evaluations = records.evaluations
    finite = [line for line in evaluations if math.isfinite(line.get(column, math.nan))]
    if not finite:
        return []
    choose = min if is_loss else max
    best = choose(finite, key=lambda line: line[column])
    if best["step"] == evaluations[-1]["step"]:
        return []
    return [f"best so far {_write_score(score, best[column])}, after step {best['step']:,}"]


def _draw_bar(value: float, interval: Sequence[float] | None, baseline: Baseline | None) -> str:
    """Return a bar from 0 to 1, with the interval and a mark at the baseline."""
    shapes = [f'<rect class="value" width="{100 * value:.1f}" height="6"/>']
    if interval:
        low = 100 * interval[0]
        high = 100 * interval[1]
        width = high - low
        shapes.append(f'<rect class="interval" x="{low:.1f}" width="{width:.1f}" height="6"/>')
    if baseline:
        shapes.append(
            f'<rect class="tick" x="{100 * baseline.value - 0.4:.1f}" width="0.8" height="6"/>'
        )
    return (
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="6"/>{"".join(shapes)}</svg>'
    )


def _is_ratio(name: str) -> bool:
    _, _, kind = name.rpartition("_")
    return kind in _RATIOS or name.startswith("recall@")


def _write_score(name: str, value: float) -> str:
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.1%}" if _is_ratio(name) else f"{value:.3f}"


def _list_facts(
    records: RecordSummary, settings: dict, environment: dict, spec: GraphSpec
) -> dict[str, str]:
    """Return the model's size and how fast it trained, on what, in words by name."""
    facts = {"Model": _describe_size(spec)}
    if "seconds" in records.last:
        total = duration(records.last["seconds"])
        facts["Duration"] = f"{total}, evaluations and compiling included"
    speed = records.median("tokens_per_second")
    if speed:
        facts["Speed"] = f"{short(speed)} tokens a second, padding included"
    if environment:
        devices = _describe_devices(environment)
        facts["Device"] = f"{devices}; {environment['backend']}, {settings['precision']}"
    mfu = records.median("mfu")
    if mfu and environment.get("peak_flops"):  # a run that goes on may have no peak any more
        peak = f"{environment['peak_flops'] / 1e9:,.3g} GFLOP/s"
        facts["Utilization"] = (
            f"{mfu:.0%} of the peak: the model's matrix products, done in the time of a "
            f"step, against {peak} ({environment['peak_flops_source']})"
        )
    return facts


def _describe_size(spec: GraphSpec) -> str:
    config = spec.config
    layers = spec.config.num_hidden_layers
    totals = account(config, 1, head=spec.head, num_labels=spec.num_labels)
    params = totals.params
    noun = "layers" if layers > 1 else "layer"
    return (
        f"{layers} {noun} × {config.hidden_size}, {config.num_attention_heads} heads; "
        f"{params:,} parameters"
    )


def _describe_devices(environment: dict) -> str:
    text = ", ".join(environment["devices"])
    if text == "CPU":
        text = f"CPU, {environment['cpu_cores']} cores"
    if environment["replicas"] > 1:
        text += f"; {environment['replicas']} replicas"
    if environment["processes"] > 1:
        text += f" in {environment['processes']} processes"
    return text


def _name_base(facts: Mapping[str, str]) -> dict[str, str]:
    """Return facts with the models' names and commits, in place of their addresses."""
    facts = dict(facts)
    for title in ("Started from", "Teacher"):
        if "://" not in facts.get(title, ""):
            continue
        name = ModelName.parse(facts[title])
        if name is None:
            continue
        facts[title] = name.repo
        if name.revision:
            kind = "commit" if name.hub == "hf" else "version"
            facts[title] += f", {kind} {name.revision}"
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
    chosen = _find_chosen(run, plan)
    names = [name for name in _IN_SIGHT if name in settings]
    names += [name for name in settings if name in chosen and name not in names]

    entries = []
    for name in names:
        if isinstance(settings[name], dict):
            continue
        mark = " class=chosen" if name in chosen else ""
        value = _escape(_value(settings[name]))
        entries.append(f"<dt>{_escape(name)}</dt><dd{mark}>{value}</dd>")
    note = "<p class=small>Bold: not the default.</p>" if chosen else ""
    return f"<dl>{''.join(entries)}</dl>{note}"


def _find_chosen(run, plan) -> set[str]:
    """Return the names of the settings whose value is not the default."""
    if not dataclasses.is_dataclass(plan.settings):
        return set()
    chosen = set()
    for field in dataclasses.fields(plan.settings):
        name = field.name
        default = field.default
        if default is dataclasses.MISSING or name not in run.settings:
            continue
        if name in run.derived or name in _IN_DATA:
            continue
        if as_json(default) != run.settings[name]:
            chosen.add(name)
    return chosen


def _write_evaluations(records: RecordSummary, best: int | None) -> str:
    evaluations = records.evaluations
    if not evaluations:
        return ""
    lines = evaluations[-_MOST_EVALUATIONS:]
    note = "Bold: the weights that were kept." if best is not None else ""
    if len(lines) < len(evaluations):
        earlier = evaluations[: -len(lines)]
        kept = [line for line in earlier if line["step"] == best]
        lines = kept + lines
    if len(lines) < len(evaluations):
        last = f"The last {_MOST_EVALUATIONS} of {len(evaluations):,}: all are in metrics.jsonl."
        note = f"{last} {note}"
    if note:
        note = f"<p class=small>{note}</p>"

    all_names = dict.fromkeys(chain.from_iterable(lines))
    names = [name for name in all_names if name.startswith("val_")]
    titles = ["step"]
    titles += [name.removeprefix("val_").replace("_", " ") for name in names]
    head = "".join(f'<th class=n scope="col">{_escape(title)}</th>' for title in titles)
    written = [_write_evaluation(line, names, best) for line in lines]
    body = "".join(written)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h2>Evaluations</h2><div class="table" tabindex="0">{table}</div>{note}'


def _write_evaluation(line: Mapping, names: Iterable[str], best: int | None) -> str:
    mark = " class=best" if line["step"] == best else ""
    values = [_escape(_value(line.get(name))) for name in names]
    cells = "".join(f"<td class=n>{value}</td>" for value in values)
    return f"<tr{mark}><td class=n>{line['step']:,}</td>{cells}</tr>"


def _flatten(values: dict, before: str = "") -> list[tuple[str, str]]:
    """List (name, text) of everything within."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            pairs += _flatten(value, f"{before}{name}.")
        else:
            pairs.append((before + name, _value(value)))
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
    text = value
    if not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    return printable.cut(text, _LONGEST_VALUE)
