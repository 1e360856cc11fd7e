"""Curves of a run in its page: SVG with the page's own colours and fonts."""

import html
import math
import re
import statistics
from typing import NamedTuple

POINTS = 150  # of a curve: each is the mean over an equal stretch of updates
WIDTH, HEIGHT = 460, 230
LEFT, RIGHT, TOP, BOTTOM = 54, 20, 8, 36  # what surrounds the axes' rectangle
_SCORES = ("f1", "matthews", "precision", "recall", "exact_match")
Points = list[tuple[float, float]]  # (step, value)


class _Curve(NamedTuple):
    """A metric of metrics.jsonl over the steps."""

    name: str
    label: str  # in the legend
    points: Points


def draw_curves(records: list[dict]) -> str:
    """Return pictures of the lines of metrics.jsonl, as SVG, each curve in one of them."""
    seen: list[Points] = []
    pictures: list[str] = []
    for title, names in _panels(records):
        curves = []
        for name, label in names:
            values = ((line["step"], line.get(name, math.nan)) for line in records)
            points = [(step, value) for step, value in values if math.isfinite(value)]
            if points and points not in seen:
                seen.append(points)
                size = -(-len(points) // POINTS)
                groups = [points[n : n + size] for n in range(0, len(points), size)]
                thin = [(one[-1][0], statistics.fmean(value for _, value in one)) for one in groups]
                curves.append(_Curve(name, label, thin))
        if curves:
            pictures.append(_draw_figure(title, curves, len(pictures)))
    return "".join(pictures)


def _panels(records: list[dict]):
    """Yield (title, [(key, label)]) of each picture there may be."""
    names = list(dict.fromkeys(name for line in records for name in line))
    matches = (re.fullmatch(r"(?!val_)([^_]+)_loss", name) for name in names)
    outputs = [match[1] for match in matches if match]
    yield "Loss", [("loss", "training"), ("val_loss", "dev")]
    for output in outputs if len(outputs) > 1 else ():  # the loss of one output is the loss
        yield f"{output}: loss", [(f"{output}_loss", "training"), (f"val_{output}_loss", "dev")]
    for output in outputs:
        title, dev = f"{output}: accuracy", f"val_{output}_accuracy"
        if len(outputs) == 1:
            title, dev = "Accuracy", "val_accuracy" if "val_accuracy" in names else dev
        yield title, [(f"{output}_accuracy", "training"), (dev, "dev")]
    yield "Other scores on dev", [(f"val_{name}", name.replace("_", " ")) for name in _SCORES]
    yield "Gradient norm, before the clip", [("gradient_norm", "training")]
    yield "Learning rate", [("learning_rate", "training")]


def _draw_figure(title: str, curves: list[_Curve], number: int) -> str:
    values = [value for curve in curves for _, value in curve.points]
    low, high = min(values), max(values)
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    low, high = 0.0 if 0 <= low < 0.3 * high else low - margin, high + margin
    last = float(max(curve.points[-1][0] for curve in curves))

    def x(step: float) -> str:
        return f"{LEFT + step / last * (WIDTH - LEFT - RIGHT):.1f}"

    def y(value: float) -> str:
        return f"{HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM):.1f}"

    elements, right, bottom = [], WIDTH - RIGHT, HEIGHT - BOTTOM
    for value in ticks(low, high):
        elements.append(f'<path class="grid" d="M{LEFT} {y(value)}H{right}"/>')
        elements.append(f'<text class="end" x="{LEFT - 6}" y="{y(value)}" dy="4">{value:g}</text>')
    for step in ticks(0.0, last, whole=True):
        elements.append(f'<text class="mid" x="{x(step)}" y="{bottom + 16}">{step:,.0f}</text>')
    elements.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    elements.append(f'<text class="mid" x="{(LEFT + right) / 2}" y="{HEIGHT - 4}">steps</text>')
    keys, texts = "", []
    for n, curve in enumerate(curves):
        name, points = html.escape(curve.name), " ".join(f"{x(s)},{y(v)}" for s, v in curve.points)
        elements.append(f'<polyline class="c{n}" data-name="{name}" points="{points}"/>')
        if curve.name.startswith("val_") or len(curve.points) == 1:
            elements += [
                f'<circle class="k{n}" cx="{x(step)}" cy="{y(value)}" r="3">'
                f"<title>step {step:,}: {value:.4g}</title></circle>"
                for step, value in curve.points
            ]
        keys += f'<span class="key k{n}">{curve.label}</span>'
        (start, begin), (stop, end) = curve.points[0], curve.points[-1]
        texts.append(f"{curve.label}: {begin:.4g} at step {start:,}, {end:.4g} at step {stop:,}")
    return (
        f"<figure><figcaption><b>{html.escape(title)}</b>{keys}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t{number} d{number}">'
        f'<title id="t{number}">{html.escape(title)} over the steps</title>'
        f'<desc id="d{number}">{html.escape("; ".join(texts))}</desc>'
        f"{''.join(elements)}</svg></figure>"
    )


def ticks(low: float, high: float, most: int = 5, whole: bool = False) -> list[float]:
    """Return round numbers in a range, in at most `most` steps of 1, 2 or 5 times 10ⁿ."""
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= most)
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]
