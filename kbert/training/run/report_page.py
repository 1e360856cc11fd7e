"""Report of a run as one page: its result, its curves, its data, settings and environment.

HTML with everything in it: one file that opens anywhere, light or dark, wide or narrow.
"""

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from html import escape as _escape
from importlib import resources

from kbert.graph.accounting import account
from kbert.graph.spec import GraphSpec
from kbert.io import json_schema as js
from kbert.io import printable
from kbert.io.atomic_write import write_atomically
from kbert.io.file_kinds import PAGE_MARK
from kbert.io.units import duration, short
from kbert.training.run.curves import draw_curves
from kbert.training.setting_rules import RATE_SETTINGS

# Settings that kbert chooses where they are None. Others are off then.
_AUTOMATIC = (
    *("jit", "lengths", "max_predictions", "dev_ratio", "evaluate_every", "save_every"),
    *("log_every", "warmup_steps", "head_learning_rate", "lora_alpha", "schedule_timescale"),
)
# Settings that do nothing without another one.
_ONLY_WITH = dict.fromkeys(("lora_targets", "lora_alpha", "lora_dropout"), "lora_rank")
_ONLY_WITH |= {"hidden_loss_weight": "hidden_loss"}
_RATIOS = ("accuracy", "f1", "precision", "recall", "match", "exact")  # ends of metrics' names


def write_report(run, records: list[dict], result: dict, plan) -> None:
    """Write RUN/report.html from the lines of metrics.jsonl and a result as in result.json."""
    file, settings = run.path / "environment.json", run.settings
    environment = js.read(file, js.OBJECT) if file.exists() else {}
    facts = _facts(records, settings, environment, plan.model.spec)
    facts |= plan.describe_training(result["steps"])
    chosen = {name: "automatic" for name in _AUTOMATIC if settings.get(name, 0) is None}
    for name, needed in _ONLY_WITH.items():
        if name in settings and not settings.get(needed):
            chosen[name] = "off"
    if isinstance(settings.get("schedule"), dict):
        chosen |= {name: "by the schedule" for name in RATE_SETTINGS if name in settings}
    folded = {"Settings": _flat(settings | chosen), "Environment": _flat(environment)}
    sections = [
        f"<h1>{plan.title}</h1><p class=dim>{_escape(run.path.name)} · {_ending(result)}</p>",
        _cards(records, result, plan.score.removeprefix("-")),
        f"<dl>{_join('<dt>{}</dt><dd>{}</dd>', facts.items())}</dl>",
        f"<h2>Curves</h2><div class=curves>{draw_curves(records)}</div>",
        _evaluations(records, result.get("weights_of_update")),
        *(
            f"<details><summary>{title}</summary><div class=wide><table>"
            f"{_join('<tr><th>{}</th><td>{}</td></tr>', pairs)}</table></div></details>"
            for title, pairs in folded.items()
        ),
    ]
    write_page(run.path / "report.html", f"{run.path.name}: a kbert run", sections)


def write_page(path: str | os.PathLike, title: str, sections: Sequence[str]) -> None:
    """Write sections of HTML as one page, with a title, in the style of a run's report."""
    style = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'{PAGE_MARK}<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_escape(title)}</title><style>{style}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )
    write_atomically(path, printable.lines(page).encode())


def _join(template: str, lines: Iterable[Sequence]) -> str:
    """Return the template once per line, filled with its escaped cells."""
    return "".join(template.format(*map(_escape, cells)) for cells in lines)


def _ending(result: dict) -> str:
    done, total = result["steps"], result["asked"]
    if "stopped" not in result:
        return f"it trains: {done:,} of {total:,} steps done"
    text = f"all {done:,} steps done"
    if result["stopped"]:
        text = f"{_escape(result['stopped'])}, of {total:,}"
    best = result.get("weights_of_update", done)
    return text if best == done else f"{text}; the weights are from step {best:,}"


def _cards(records: list[dict], result: dict, score: str) -> str:
    """Return the metrics that say how good the model is: on dev data where there are any."""
    last = _select_evaluations(records)[-1:]
    metrics = result.get("metrics") or {
        name[4:]: line[name] for line in last for name in line if name.startswith("val_")
    }
    cards = []
    for name in sorted(metrics, key=lambda name: name != score):
        label = f"dev {name.replace('_', ' ')}"
        if name in result.get("intervals", {}):
            low, high = (_score_text(name, value) for value in result["intervals"][name])
            label += f" (95 % interval {low} to {high})"
        cards.append((_score_text(name, metrics[name]), label))
    if not metrics:
        losses = [line["loss"] for line in records[-max(1, len(records) // 10) :]]
        over = "the last step" if len(losses) == 1 else f"mean of the last {len(losses)} recorded"
        cards = [(f"{statistics.fmean(losses):.3f}", f"training loss, {over}")]
    return f"<div class=cards>{_join('<div class=card><b>{}</b>{}</div>', cards[:8])}</div>"


def _score_text(name: str, value: float) -> str:
    is_ratio = name.rpartition("_")[2] in _RATIOS
    return f"{value:.1%}" if is_ratio else f"{value:.3f}"


def _facts(records: list[dict], settings: dict, environment: dict, spec: GraphSpec) -> dict:
    last, config = records[-1] if records else {}, spec.config
    params = account(config, 1, head=spec.head, num_labels=spec.num_labels).params
    facts = {
        "Model": f"{config.num_hidden_layers} layers × {config.hidden_size}, "
        f"{config.num_attention_heads} heads; {params:,} parameters"
    }
    if "seconds" in last:
        facts["Duration"] = f"{duration(last['seconds'])}, evaluations and compiling included"
    if speed := _median(records, "tokens_per_second"):
        facts["Speed"] = f"{short(speed)} tokens a second, padding included"
    if environment:
        devices = ", ".join(environment["devices"])
        text = f"CPU, {environment['cpu_cores']} cores" if devices == "CPU" else devices
        if environment["replicas"] > 1:
            text += f"; {environment['replicas']} replicas"
        if environment["processes"] > 1:
            text += f" in {environment['processes']} processes"
        facts["Device"] = f"{text}; {environment['backend']}, {settings['precision']}"
    mfu = _median(records, "mfu")
    if mfu and environment.get("peak_flops"):  # a run that goes on may have no peak any more
        peak = f"{environment['peak_flops'] / 1e9:,.3g} GFLOP/s"
        facts["Utilization"] = (
            f"{mfu:.0%} of the peak: the model's matrix products, done in the time of a "
            f"step, against {peak} ({environment['peak_flops_source']})"
        )
    return facts


def _median(records: list[dict], name: str) -> float | None:
    values = [line[name] for line in records if name in line]
    return statistics.median(values) if values else None


def _select_evaluations(records: list[dict]) -> list[dict]:
    return [line for line in records if any(name.startswith("val_") for name in line)]


def _evaluations(records: list[dict], best: int | None) -> str:
    lines = _select_evaluations(records)
    if not lines:
        return ""
    names = list(dict.fromkeys(name for line in lines for name in line if name.startswith("val_")))
    titles = ["step", *(name[4:].replace("_", " ") for name in names)]
    head = _join("<th class=n>{}</th>", zip(titles))
    body = "".join(
        f"<tr{' class=best' if line['step'] == best else ''}><td class=n>{line['step']:,}</td>"
        + _join("<td class=n>{}</td>", ([_value(line.get(name))] for name in names))
        + "</tr>"
        for line in lines
    )
    note = "<p class=small>Bold: the weights that were kept.</p>" if best is not None else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<h2>Evaluations</h2><div class=wide>{table}</div>{note}"


def _flat(values: dict, before: str = "") -> list[tuple[str, str]]:
    """List (name, text) of everything within."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        inner = isinstance(value, dict)
        pairs += _flat(value, f"{before}{name}.") if inner else [(before + name, _value(value))]
    return pairs


def _value(value) -> str:
    if value is None:
        return "off"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
