"""Where shapes stand: their bounds, and figures and slides with them in the middle."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kbert.show.paper.shapes import LINE_HEIGHT, Box, Circle, Drawing, Line, Shape, Text, measure

_MARGIN = 1.0  # around a figure, for half a line's width
_SLIDE_WIDTH = 960.0  # points: 13.33 inches
_ASPECT = 16 / 9


class Bounds(NamedTuple):
    """The sides of shapes."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.top - self.bottom


def compose_figure(title: str, shapes: Sequence[Shape], width: float | None = None) -> Drawing:
    """Return a figure with shapes in its middle; None: as wide as they are."""
    bounds = find_bounds(shapes)
    if width is None:
        width = bounds.width + 2 * _MARGIN
    height = bounds.height + 2 * _MARGIN
    return _compose(title, shapes, width, height)


def compose_slide(title: str, shapes: Sequence[Shape], margin: float) -> Drawing:
    """Return a slide of 16:9 with shapes in its middle, as large as the margin allows."""
    bounds = find_bounds(shapes)
    least_width = bounds.width + 2 * margin
    least_height = bounds.height + 2 * margin
    height = max(least_height, least_width / _ASPECT)
    width = height * _ASPECT
    return _compose(title, shapes, width, height, _SLIDE_WIDTH / width)


def move(shape: Shape, right: float, up: float) -> Shape:
    """Return a shape at another place."""
    if isinstance(shape, Line):
        points = [(x + right, y + up) for x, y in shape.points]
        return replace(shape, points=tuple(points))
    if isinstance(shape, Box):
        left = shape.left + right
        bottom = shape.bottom + up
        return replace(shape, left=left, bottom=bottom)
    return replace(shape, x=shape.x + right, y=shape.y + up)


def find_bounds(shapes: Sequence[Shape]) -> Bounds:
    """Return the sides of all shapes together."""
    sides = [_find_sides(shape) for shape in shapes]
    lefts, bottoms, rights, tops = zip(*sides, strict=True)
    return Bounds(min(lefts), min(bottoms), max(rights), max(tops))


def _compose(
    title: str, shapes: Sequence[Shape], width: float, height: float, scale: float = 1.0
) -> Drawing:
    bounds = find_bounds(shapes)
    right = (width - bounds.width) / 2 - bounds.left
    up = (height - bounds.height) / 2 - bounds.bottom
    moved = [move(shape, right, up) for shape in shapes]
    return Drawing(title, width, height, scale, moved)


def _find_sides(shape: Shape) -> Bounds:
    if isinstance(shape, Line):
        xs, ys = zip(*shape.points, strict=True)
        return Bounds(min(xs), min(ys), max(xs), max(ys))
    if isinstance(shape, Box):
        return Bounds(shape.left, shape.bottom, shape.right, shape.top)
    if isinstance(shape, Circle):
        return Bounds(
            shape.x - shape.radius,
            shape.y - shape.radius,
            shape.x + shape.radius,
            shape.y + shape.radius,
        )
    return _find_text_sides(shape)


def _find_text_sides(text: Text) -> Bounds:
    widths = [measure(line) for line in text.lines]
    width = max(widths)
    share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.align]  # of it, left of the point
    left = text.x - share * width
    half = len(text.lines) * LINE_HEIGHT / 2
    return Bounds(left, text.y - half, left + width, text.y + half)
