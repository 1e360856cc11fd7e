"""A run as one page: its curves as a picture, its result, settings and environment.

HTML with the picture in it: one file that opens anywhere and can be sent.
"""

import html
import io
import json
import re
import statistics

from kbert import printable
from kbert.files import write_beside
from kbert.json_schema import read_object

POINTS = 500  # of a curve: each is the mean over an equal stretch of updates
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;
color:#1f2328}table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #d0d7de;
padding:.25em .7em;text-align:left}td.n{text-align:right}svg{max-width:100%;height:auto}
pre{background:#f6f8fa;padding:1em;overflow:auto}"""


def write_report(run, result: dict) -> None:
    """Writes RUN/report.html from what the run's folder holds and its result."""
    records = run.read_records()
    settings = dict(run.settings)
    environment = run.path / "environment.json"
    parts = [
        f"<h1>{html.escape(run.path.name)}: {html.escape(run.task)}</h1>",
        _table(result),
        curves(records) if records else "",
        "<h2>Evaluations</h2>" + _evaluations(records) if _evaluated(records) else "",
        "<h2>Settings</h2>" + _json(settings),
        "<h2>Environment</h2>" + _json(read_object(environment)) if environment.exists() else "",
    ]
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(run.path.name)}'
        f"</title><style>{_STYLE}</style>{''.join(parts)}</html>\n"
    )
    write_beside(run.path / "report.html", printable.lines(page).encode())


def curves(records: list[dict]) -> str:
    """The losses, accuracies, learning rate and gradient norm over the updates, as an SVG."""
    import matplotlib
    from matplotlib.figure import Figure

    panels = [(title, names) for title, names in _panels(records) if names]
    rows = -(-len(panels) // 2)
    with matplotlib.rc_context({"svg.hashsalt": "kbert", "svg.fonttype": "path"}):
        figure = Figure(figsize=(11, 3.2 * rows), layout="constrained")
        for place, (title, names) in enumerate(panels, 1):
            axes = figure.add_subplot(rows, 2, place)
            for name in names:
                steps, values = _thinned(records, name)
                marker = "o-" if name.startswith("val_") else "-"
                axes.plot(steps, values, marker, label=name, linewidth=1.2, markersize=3)
            axes.set(title=title, xlabel="updates")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)


def _panels(records: list[dict]):
    names = list(dict.fromkeys(name for line in records for name in line))
    yield "loss", [name for name in names if name in ("loss", "val_loss")]
    outputs = {name.removesuffix("_loss") for name in names if re.fullmatch(r"[^_]+_loss", name)}
    for output in sorted(outputs - {"val"}):
        ours = (f"{output}_loss", f"val_{output}_loss")
        yield f"{output}: loss", [name for name in names if name in ours]
    yield "accuracy", [name for name in names if "accuracy" in name]
    yield "gradient norm, before the clip", [n for n in names if n == "gradient_norm"]
    yield "learning rate", [name for name in names if name == "learning_rate"]


def _thinned(records: list[dict], name: str) -> tuple[list[int], list[float]]:
    points = [(line["step"], line[name]) for line in records if name in line]
    size = -(-len(points) // POINTS)
    stretches = [points[start : start + size] for start in range(0, len(points), size)]
    return (
        [stretch[-1][0] for stretch in stretches],
        [statistics.fmean(value for _, value in stretch) for stretch in stretches],
    )


def _evaluated(records: list[dict]) -> list[dict]:
    return [line for line in records if any(name.startswith("val_") for name in line)]


def _evaluations(records: list[dict]) -> str:
    lines = _evaluated(records)
    names = [name for name in lines[0] if name.startswith("val_")]
    head = "".join(f"<th>{html.escape(name.removeprefix('val_'))}</th>" for name in names)
    body = "".join(
        f"<tr><td class=n>{line['step']:,}</td>"
        + "".join(f"<td class=n>{_number(line.get(name))}</td>" for name in names)
        + "</tr>"
        for line in lines
    )
    return f"<table><tr><th>updates</th>{head}</tr>{body}</table>"


def _table(values: dict) -> str:
    rows = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(_number(value))}</td></tr>"
        for name, value in values.items()
        if not isinstance(value, (dict, list))
    )
    return f"<table>{rows}</table>"


def _number(value) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _json(values: dict) -> str:
    return f"<pre>{html.escape(json.dumps(values, indent=2, ensure_ascii=False))}</pre>"
