"""Curves of a run in its page: SVG with the page's own colours and fonts."""

import html
import math
import re
import statistics
from dataclasses import dataclass

POINTS = 150  # of a curve: each is the mean over an equal stretch of updates
WIDTH, HEIGHT = 460, 230
LEFT, RIGHT, TOP, BOTTOM = 54, 20, 8, 36  # what surrounds the axes' rectangle
_SCORES = ("f1", "matthews", "precision", "recall", "exact_match")


@dataclass(frozen=True)
class Curve:
    """One figure of metrics.jsonl over the steps.

    Attributes:
        name: its key.
        label: what the legend calls it.
        points: (update, value), at least one; means where there are many.
    """

    name: str
    label: str
    points: list[tuple[float, float]]


def figures(records: list[dict]) -> str:
    """Return all pictures, each curve in one of them: losses, accuracies, scores, norm, rate.

    Args:
        records: the lines of metrics.jsonl.
    """
    seen: list[list[tuple[float, float]]] = []
    found: list[str] = []
    for title, names in _panels(records):
        curves = []
        for name, label in names:
            points = _points(records, name)
            if points and points not in seen:
                seen.append(points)
                curves.append(Curve(name, label, _thinned(points)))
        if curves:
            found.append(_figure(title, curves, len(found)))
    return "".join(found)


def _panels(records: list[dict]):
    """(title, [(key, label)]) of each picture there may be."""
    names = list(dict.fromkeys(name for line in records for name in line))
    outputs = [match[1] for name in names if (match := re.fullmatch(r"([^_]+)_loss", name))]
    outputs = [output for output in outputs if output != "val"]
    yield "Loss", [("loss", "training"), ("val_loss", "dev")]
    for output in outputs if len(outputs) > 1 else ():  # the loss of one output is the loss
        both = [(f"{output}_loss", "training"), (f"val_{output}_loss", "dev")]
        yield f"{output}: loss", both
    for output in outputs:
        dev = "val_accuracy" if len(outputs) == 1 else f"val_{output}_accuracy"
        title = "Accuracy" if len(outputs) == 1 else f"{output}: accuracy"
        dev = dev if dev in names else f"val_{output}_accuracy"
        yield title, [(f"{output}_accuracy", "training"), (dev, "dev")]
    scores = [(f"val_{name}", name.replace("_", " ")) for name in _SCORES]
    yield "Other scores on dev", scores
    yield "Gradient norm, before the clip", [("gradient_norm", "training")]
    yield "Learning rate", [("learning_rate", "training")]


def _points(records: list[dict], name: str) -> list[tuple[float, float]]:
    found = ((line["step"], line.get(name, math.nan)) for line in records)
    return [(step, value) for step, value in found if math.isfinite(value)]


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    size = -(-len(points) // POINTS)
    stretches = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        (stretch[-1][0], statistics.fmean(value for _, value in stretch)) for stretch in stretches
    ]


def _figure(title: str, curves: list[Curve], number: int) -> str:
    low = min(value for curve in curves for _, value in curve.points)
    high = max(value for curve in curves for _, value in curve.points)
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    low = 0.0 if 0 <= low < 0.3 * high else low - margin
    last = max(curve.points[-1][0] for curve in curves)
    place = _Axes((0.0, float(last)), (low, high + margin))
    keys = "".join(f'<span class="key k{n}">{c.label}</span>' for n, c in enumerate(curves))
    said = "; ".join(f"{c.label}: {_ends(c.points)}" for c in curves)
    return (
        f"<figure><figcaption><b>{html.escape(title)}</b>{keys}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t{number} d{number}">'
        f'<title id="t{number}">{html.escape(title)} over the steps</title>'
        f'<desc id="d{number}">{html.escape(said)}</desc>{place.drawn()}'
        + "".join(_drawn(curve, place, n) for n, curve in enumerate(curves))
        + "</svg></figure>"
    )


def _ends(points: list[tuple[float, float]]) -> str:
    (first, begin), (last, end) = points[0], points[-1]
    return f"{begin:.4g} at step {first:,}, {end:.4g} at step {last:,}"


def _drawn(curve: Curve, place: "_Axes", number: int) -> str:
    line = " ".join(f"{place.x(step):.1f},{place.y(value):.1f}" for step, value in curve.points)
    text = f'<polyline class="c{number}" data-name="{html.escape(curve.name)}" points="{line}"/>'
    if not curve.name.startswith("val_") and len(curve.points) > 1:
        return text
    return text + "".join(
        f'<circle class="k{number}" cx="{place.x(step):.1f}" cy="{place.y(value):.1f}" r="3">'
        f"<title>step {step:,}: {value:.4g}</title></circle>"
        for step, value in curve.points
    )


class _Axes:
    """Axes of a picture: positions of steps and values, lines and numbers."""

    def __init__(self, steps: tuple[float, float], values: tuple[float, float]):
        self.steps, self.values = steps, values

    def x(self, step: float) -> float:
        low, high = self.steps
        return LEFT + (step - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.values
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def drawn(self) -> str:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = []
        for value in ticks(*self.values):
            y = f"{self.y(value):.1f}"
            parts.append(f'<path class="grid" d="M{LEFT} {y}H{right}"/>')
            parts.append(f'<text class="end" x="{LEFT - 6}" y="{y}" dy="4">{value:g}</text>')
        for step in ticks(*self.steps, whole=True):
            parts.append(
                f'<text class="mid" x="{self.x(step):.1f}" y="{bottom + 16}">{step:,}</text>'
            )
        middle = (LEFT + right) / 2
        parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
        parts.append(f'<text class="mid" x="{middle}" y="{HEIGHT - 4}">steps</text>')
        return "".join(parts)


def ticks(low: float, high: float, most: int = 5, whole: bool = False) -> list[float]:
    """Round numbers within a range, in steps of 1, 2 or 5 times a power of ten.

    Args:
        low, high: the range, low below high.
        most: intervals.
        whole: integers alone.
    """
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= most)
    step = max(1, round(step)) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [
        number * step if whole else round(number * step, 12) for number in range(first, last + 1)
    ]
