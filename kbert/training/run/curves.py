"""Curves of a run in its page: SVG with the page's own colours and fonts."""

import html
import math
import re
import statistics
from collections.abc import Callable
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
                curves.append(_Curve(name, label, _thin(points)))
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


def _thin(points: Points) -> Points:
    size = -(-len(points) // POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(group[-1][0], statistics.fmean(value for _, value in group)) for group in groups]


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
    elements += [_draw_curve(curve, x, y, n) for n, curve in enumerate(curves)]
    keys = "".join(f'<span class="key k{n}">{c.label}</span>' for n, c in enumerate(curves))
    text = "; ".join(f"{c.label}: {_describe(c.points)}" for c in curves)
    return (
        f"<figure><figcaption><b>{html.escape(title)}</b>{keys}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t{number} d{number}">'
        f'<title id="t{number}">{html.escape(title)} over the steps</title>'
        f'<desc id="d{number}">{html.escape(text)}</desc>{"".join(elements)}</svg></figure>'
    )


def _describe(points: Points) -> str:
    (first, begin), (last, end) = points[0], points[-1]
    return f"{begin:.4g} at step {first:,}, {end:.4g} at step {last:,}"


def _draw_curve(curve: _Curve, x: Callable, y: Callable, number: int) -> str:
    line = " ".join(f"{x(step)},{y(value)}" for step, value in curve.points)
    text = f'<polyline class="c{number}" data-name="{html.escape(curve.name)}" points="{line}"/>'
    if not curve.name.startswith("val_") and len(curve.points) > 1:
        return text
    return text + "".join(
        f'<circle class="k{number}" cx="{x(step)}" cy="{y(value)}" r="3">'
        f"<title>step {step:,}: {value:.4g}</title></circle>"
        for step, value in curve.points
    )


def ticks(low: float, high: float, most: int = 5, whole: bool = False) -> list[float]:
    """Return round numbers in a range, in at most `most` steps of 1, 2 or 5 times 10ⁿ."""
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= most)
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]
