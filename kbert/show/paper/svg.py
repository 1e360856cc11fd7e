"""A figure as SVG, with texts that can be searched and edited."""

from collections.abc import Sequence
from html import escape

from kbert.io import printable
from kbert.show.paper.shapes import (
    FILLS,
    INK,
    LETTER_RISE,
    LETTER_SIZE,
    LINE_WIDTH,
    POINTS_PER_MM,
    SUBSCRIPT_DROP,
    TEXT_SIZE,
    Box,
    Circle,
    Drawing,
    Line,
    Point,
    Shape,
    Text,
    arrow_head,
    baselines,
    round_corners,
)

_FONTS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


def to_svg(drawing: Drawing) -> bytes:
    """Return a drawing as an SVG file of its size in millimetres."""
    height = drawing.height
    sides = [side * drawing.scale / POINTS_PER_MM for side in (drawing.width, height)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{sides[0]:.2f}mm" '
        f'height="{sides[1]:.2f}mm" viewBox="0 0 {_number(drawing.width)} {_number(height)}" '
        f'role="img" font-family="{_FONTS}" font-size="{TEXT_SIZE:g}" fill="{INK}">',
        f"<title>{_escape(drawing.title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for shape in drawing.shapes:
        lines += _write_shape(shape, height)
    return "\n".join([*lines, "</svg>", ""]).encode()


def _write_shape(shape: Shape, height: float) -> list[str]:
    outline = f'stroke="{INK}" stroke-width="{LINE_WIDTH:g}"'
    if isinstance(shape, Box):
        origin = f'x="{_number(shape.left)}" y="{_number(height - shape.top)}"'
        size = f'width="{_number(shape.width)}" height="{_number(shape.height)}"'
        box = f'<rect class="{shape.kind}" {origin} {size} rx="{shape.corner:g}"'
        box += f' fill="{FILLS[shape.kind]}" {outline}/>'
        subscript = shape.subscript
        texts = _write_lines(shape.lines, shape.x, shape.y, height, "middle", subscript)
        return [box, *texts]
    if isinstance(shape, Text):
        return _write_lines(shape.lines, shape.x, shape.y, height, shape.align)
    if isinstance(shape, Circle):
        origin = f'cx="{_number(shape.x)}" cy="{_number(height - shape.y)}"'
        return [f'<circle {origin} r="{shape.radius:g}" fill="#ffffff" {outline}/>']
    return _write_line(shape, height, outline)


def _write_line(line: Line, height: float, outline: str) -> list[str]:
    steps = []
    for letter, points in round_corners(line):
        steps.append(letter + _write_points(points, height))
    written = [f'<path d="{" ".join(steps)}" fill="none" {outline}/>']
    if line.arrow:
        written.append(f'<polygon points="{_write_points(arrow_head(line), height)}"/>')
    return written


def _write_points(points: Sequence[Point], height: float) -> str:
    """Return points as SVG counts, from the top."""
    return " ".join(f"{_number(x)},{_number(height - y)}" for x, y in points)


def _write_lines(
    lines: tuple[str, ...], x: float, y: float, height: float, align: str, subscript: str = ""
) -> list[str]:
    size = LETTER_SIZE if subscript else TEXT_SIZE
    anchor = f'text-anchor="{align}"'
    if subscript:
        y += LETTER_RISE
        anchor += f' font-size="{size:g}"'
        subscript = (
            f'<tspan dy="{SUBSCRIPT_DROP:g}" font-size="{TEXT_SIZE:g}">{_escape(subscript)}</tspan>'
        )
    return [
        f'<text x="{_number(x)}" y="{_number(height - baseline)}" {anchor}>'
        f"{_escape(line)}{subscript}</text>"
        for line, baseline in zip(lines, baselines(y, len(lines), size), strict=True)
    ]


def _escape(text: str) -> str:
    return escape(printable.line(text), quote=False)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
