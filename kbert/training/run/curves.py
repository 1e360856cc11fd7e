"""Curves of a run in its page: SVG with the page's own colours and fonts."""

import html
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from kbert.training.run.predictions import Baseline
from kbert.training.run.record_summary import Points, RecordSummary

WIDTH, HEIGHT = 340, 200
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 8, 34  # what surrounds the axes' rectangle
_LONGEST_TICK = 5  # characters beside the axis; more are narrower
_SCORES = (
    "f1",
    "macro_f1",
    "matthews",
    "precision",
    "recall",
    "exact_match",
    "map",
    "spearman",
    "pearson",
    "recall@1",
    "recall@10",
    "mrr@10",
)
_MOST_CURVES = 5  # of a picture: there are so many colours


class _Curve(NamedTuple):
    """A metric of metrics.jsonl over the steps."""

    name: str
    label: str  # in the legend
    points: Points


class Axes:
    """A rectangle with axes and grid lines; `x` and `y` are the positions of numbers in it."""

    def __init__(self, across: tuple[float, float], up: tuple[float, float], whole: bool = False):
        self._across = across
        self._up = up
        self._whole = whole

    def x(self, value: float) -> str:
        low, high = self._across
        share = (value - low) / (high - low)
        position = LEFT + share * (WIDTH - LEFT - RIGHT)
        return f"{position:.1f}"

    def y(self, value: float) -> str:
        low, high = self._up
        share = (value - low) / (high - low)
        position = HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
        return f"{position:.1f}"

    def draw(self, title: str) -> str:
        """Return the axes, the first of which has a title, as SVG."""
        right = WIDTH - RIGHT
        bottom = HEIGHT - BOTTOM
        elements = []
        for value in ticks(*self._up):
            y = self.y(value)
            elements.append(f'<path class="grid" d="M{LEFT} {y}H{right}"/>')
            elements.append(_write_tick(f"{value:g}", y))

        for value in ticks(*self._across, whole=self._whole):
            text = f"{value:,.0f}" if self._whole else f"{value:g}"
            elements.append(
                f'<text class="mid" x="{self.x(value)}" y="{bottom + 16}">{text}</text>'
            )

        elements.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
        middle = (LEFT + right) / 2
        text = html.escape(title)
        elements.append(f'<text class="mid" x="{middle}" y="{HEIGHT - 4}">{text}</text>')
        return "".join(elements)


def _write_tick(text: str, y: str) -> str:
    """Return a number beside the vertical axis, made narrower where it is long."""
    fit = ""
    if len(text) > _LONGEST_TICK:
        fit = f' textLength="{LEFT - 8}" lengthAdjust="spacingAndGlyphs"'
    return f'<text class="end" x="{LEFT - 6}" y="{y}" dy="4"{fit}>{text}</text>'


def draw_curves(records: RecordSummary, baseline: Baseline | None = None) -> str:
    """Return pictures of a run's records, as SVG, each curve in one of them.

    A dashed line shows the baseline of a metric.
    """
    last_step = float(records.last["step"])
    seen: list[Points] = []
    pictures: list[str] = []
    for title, names in _panels(records):
        curves = []
        for name, label in names:
            points = records.curves[name].points if name in records.curves else []
            if points and points not in seen:
                seen.append(points)
                curves.append(_Curve(name, label, points))
        if not curves:
            continue

        shown = {curve.name for curve in curves}
        line = baseline if baseline and f"val_{baseline.metric}" in shown else None
        pictures.append(_draw_figure(title, curves, len(pictures), line, last_step))
    return "".join(pictures)


def _panels(records: RecordSummary):
    """Yield (title, [(key, label)]) of each picture there may be."""
    names = list(records.curves)
    outputs = _find_outputs(names)
    has_one_output = len(outputs) == 1

    yield "Loss", [("loss", "training"), ("val_loss", "dev")]
    if not has_one_output:  # the loss of one output is the loss
        for output in outputs:
            yield f"{output}: loss", [(f"{output}_loss", "training"), (f"val_{output}_loss", "dev")]

    for output in outputs:
        title = "Accuracy" if has_one_output else f"{output}: accuracy"
        dev = f"val_{output}_accuracy"
        if has_one_output and "val_accuracy" in names:
            dev = "val_accuracy"
        yield title, [(f"{output}_accuracy", "training"), (dev, "dev")]

    scores = [name for name in _SCORES if f"val_{name}" in names][:_MOST_CURVES]
    other_scores = []
    for name in scores:
        other_scores.append((f"val_{name}", name.replace("_", " ")))
    yield "Other scores on dev", other_scores
    yield "Gradient norm, before the clip", [("gradient_norm", "training")]
    yield "Learning rate", [("learning_rate", "training")]


def _find_outputs(names: Sequence[str]) -> list[str]:
    """Return the model's outputs that have a loss among the metrics."""
    outputs = []
    for name in names:
        match = re.fullmatch(r"(?!val_)([^_]+)_loss", name)
        if match:
            outputs.append(match[1])
    return outputs


def _draw_figure(
    title: str, curves: list[_Curve], number: int, baseline: Baseline | None, last_step: float
) -> str:
    steps = (0.0, last_step)
    axes = Axes(steps, _find_range(curves, baseline), whole=True)
    elements = [axes.draw("steps")]
    keys = []
    texts = []

    if baseline:
        y = axes.y(baseline.value)
        elements.append(f'<path class="baseline" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>')
        keys.append(f'<span class="key baseline-key">{_name(baseline)}</span>')
        texts.append(f"{_name(baseline)}: {baseline.value:.4g}")
    for n, curve in enumerate(curves):
        elements += _draw_curve(curve, axes, n)
        keys.append(f'<span class="key k{n}">{curve.label}</span>')
        texts.append(_describe_curve(curve))

    heading = f"<b>{html.escape(title)}</b>{''.join(keys)}"
    text = "; ".join(texts)
    return frame_figure(heading, f"{title} over the steps", text, elements, f"{number}")


def _find_range(curves: list[_Curve], baseline: Baseline | None) -> tuple[float, float]:
    """Return the range of the vertical axis, which begins at 0 where that is near."""
    values = [baseline.value] if baseline else []
    for curve in curves:
        values += [value for _, value in curve.points]

    low, high = _add_margins(values)
    is_near_zero = 0 <= min(values) <= 0.3 * max(values)
    return (0.0 if is_near_zero else low), high


def _add_margins(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of numbers with a margin on both sides."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def _draw_curve(curve: _Curve, axes: Axes, number: int) -> list[str]:
    """Return a line through the points, and circles where they are few."""
    name = html.escape(curve.name)
    points = " ".join(f"{axes.x(step)},{axes.y(value)}" for step, value in curve.points)
    elements = [f'<polyline class="c{number}" data-name="{name}" points="{points}"/>']
    if curve.name.startswith("val_") or len(curve.points) == 1:
        for step, value in curve.points:
            elements.append(
                f'<circle class="k{number}" cx="{axes.x(step)}" cy="{axes.y(value)}" r="3">'
                f"<title>step {step:,}: {value:.4g}</title></circle>"
            )
    return elements


def _describe_curve(curve: _Curve) -> str:
    first_step, first = curve.points[0]
    last_step, last = curve.points[-1]
    return f"{curve.label}: {first:.4g} at step {first_step:,}, {last:.4g} at step {last_step:,}"


def _name(baseline: Baseline) -> str:
    is_share = 0 <= baseline.value <= 1
    return f"baseline, {baseline.value:.1%}" if is_share else "baseline"


def frame_figure(heading: str, title: str, text: str, elements: list[str], number: str) -> str:
    """Return a picture with a heading in HTML; `title` and `text` are for screen readers."""
    return (
        f"<figure><figcaption>{heading}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t{number} d{number}">'
        f'<title id="t{number}">{html.escape(title)}</title>'
        f'<desc id="d{number}">{html.escape(text)}</desc>'
        f"{''.join(elements)}</svg></figure>"
    )


def draw_points(points: Sequence[tuple[float, float]], axes: tuple[str, str]) -> str:
    """Return a picture of pairs of numbers, the first across, the second up; "" without any.

    Pairs with a number that is not finite are left out.
    """
    points = [point for point in points if all(math.isfinite(number) for number in point)]
    if not points:
        return ""

    first_numbers = [x for x, _ in points]
    second_numbers = [y for _, y in points]
    across = _add_margins(first_numbers)
    up = _add_margins(second_numbers)
    frame = Axes(across, up)
    elements = [frame.draw(axes[0])]
    elements.append(_draw_diagonal(frame, across, up))
    for x, y in points:
        elements.append(f'<circle class="k0 point" cx="{frame.x(x)}" cy="{frame.y(y)}" r="3.2"/>')

    heading = (
        f"<b>{html.escape(axes[1])} over {html.escape(axes[0])}</b>"
        '<span class="key baseline-key">equal</span>'
    )
    text = f"{len(points)} points"
    return frame_figure(heading, f"{axes[1]} over {axes[0]}", text, elements, "-points")


def _draw_diagonal(frame: Axes, across: tuple[float, float], up: tuple[float, float]) -> str:
    """Return the line where both numbers are equal; "" if the axes have none in common."""
    low = max(across[0], up[0])
    high = min(across[1], up[1])
    if low >= high:
        return ""
    start = f"{frame.x(low)} {frame.y(low)}"
    end = f"{frame.x(high)} {frame.y(high)}"
    return f'<path class="baseline" d="M{start}L{end}"/>'


def ticks(low: float, high: float, most: int = 5, whole: bool = False) -> list[float]:
    """Return round numbers in a range, in at most `most` steps of 1, 2 or 5 times 10ⁿ."""
    extent = high - low
    exponent = math.floor(math.log10(extent / most))
    size = 10.0**exponent
    steps = [size * factor for factor in (1, 2, 5, 10)]
    step = next(step for step in steps if extent / step <= most)
    if whole:
        step = max(1.0, step)

    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    numbers = range(first, last + 1)
    return [round(number * step, 12) for number in numbers]
