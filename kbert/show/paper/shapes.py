"""What a figure for a paper consists of: boxes, circles, texts and lines, with y going up.

Lengths are in points at a text of 8 points; a figure for slides is larger by its `scale`.
"""

import functools
import unicodedata
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

POINTS_PER_MM = 72 / 25.4
COLUMN = 89 * POINTS_PER_MM  # the width of one column of a journal
PAGE = 183 * POINTS_PER_MM  # of two columns with the space between them

TEXT_SIZE = 8.0
LETTER_SIZE = 10.0  # of a letter with a subscript, whose subscript has `TEXT_SIZE`
LETTER_RISE, SUBSCRIPT_DROP = 1.0, 2.2  # of it above the middle, and of its subscript below it
LINE_HEIGHT = 9.6
LINE_WIDTH = 0.6
CORNER = 2.5  # radius of the corners of boxes and lines
_FRAME_CORNER = 6.0
ARROW = (4.2, 3.4)  # length and width of an arrow's head

INK = "#1a1a1a"
# Fills by kind, apart in lightness too, so that they differ in grey print.
FILLS = {
    "frame": "#f5f5f5",
    "input": "#ffffff",
    "norm": "#fdf6cf",
    "embedding": "#d6ebfb",
    "feedforward": "#bfe6c5",
    "head": "#d3c6ec",
    "attention": "#f6b06c",
    "segment A": "#ddf2e0",
    "segment B": "#a3d6ab",
    "position": "#fbe0c2",
}

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A box with rounded corners and lines of text in its middle."""

    left: float
    bottom: float
    width: float
    height: float
    lines: tuple[str, ...] = ()
    kind: str = "input"
    subscript: str = ""  # of the only line, a letter

    @property
    def corner(self) -> float:
        return _FRAME_CORNER if self.kind == "frame" else CORNER

    @property
    def x(self) -> float:
        return self.left + self.width / 2

    @property
    def y(self) -> float:
        return self.bottom + self.height / 2

    @property
    def top(self) -> float:
        return self.bottom + self.height

    @property
    def right(self) -> float:
        return self.left + self.width


@dataclass(frozen=True)
class Text:
    """Lines of text around the height y; `align` says which end or part of them is at x."""

    x: float
    y: float
    lines: tuple[str, ...]
    align: Literal["start", "middle", "end"] = "middle"


@dataclass(frozen=True)
class Circle:
    """A white circle: with two lines through it the sign of a sum."""

    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Line:
    """A line through points, with rounded corners; an arrow has a head at its last point."""

    points: tuple[Point, ...]
    arrow: bool = True


Shape = Box | Text | Circle | Line


@dataclass
class Drawing:
    """A figure: shapes in the order in which they are drawn.

    Attributes:
        title: what the figure shows, for those who do not see it.
        width, height: of the figure, in points at a text of 8 points.
        scale: factor of all lengths, the text's too.
        shapes: the shapes.
    """

    title: str
    width: float
    height: float
    scale: float = 1.0
    shapes: list[Shape] = field(default_factory=list)


def list_letters(drawing: Drawing) -> str:
    """Return all letters of a figure."""
    texts: list[str] = []
    for shape in drawing.shapes:
        if isinstance(shape, (Box, Text)):
            texts += shape.lines
        if isinstance(shape, Box):
            texts.append(shape.subscript)
    return "".join(texts)


def sum_sign(x: float, y: float, radius: float = 5.5) -> list[Shape]:
    """Return a plus in a circle."""
    arm = radius * 0.6
    across = ((x - arm, y), (x + arm, y))
    upright = ((x, y - arm), (x, y + arm))
    return [
        Circle(x, y, radius),
        Line(across, arrow=False),
        Line(upright, arrow=False),
    ]


def baselines(y: float, count: int, size: float = TEXT_SIZE) -> list[float]:
    """Return the baselines of lines of text around the height y, from top to bottom."""
    first = y + (count - 1) * LINE_HEIGHT / 2
    return [first - number * LINE_HEIGHT - 0.36 * size for number in range(count)]


def arrow_head(line: Line) -> tuple[Point, Point, Point]:
    """Return the corners of an arrow's head; lines are horizontal or vertical."""
    (x0, y0), (x, y) = line.points[-2:]
    length, width = ARROW
    along = (x - x0, y - y0)
    size = abs(along[0]) + abs(along[1])
    right, up = along[0] / size, along[1] / size
    base = (x - right * length, y - up * length)
    half = width / 2
    return (
        (x, y),
        (base[0] - up * half, base[1] + right * half),
        (base[0] + up * half, base[1] - right * half),
    )


def round_corners(line: Line) -> list[tuple[str, tuple[Point, ...]]]:
    """Return a line's path: "M" and "L" with a point, "Q" with a corner and the point after it.

    An arrow's line ends within its head.
    """
    points = list(line.points)
    if line.arrow:
        head_length, _ = ARROW
        before, end = points[-2:]
        points[-1] = _step_back(end, before, head_length * 0.8)

    path: list[tuple[str, tuple[Point, ...]]] = []
    path.append(("M", (points[0],)))
    for index in range(1, len(points) - 1):
        corner = points[index]
        begin = _step_back(corner, points[index - 1], CORNER)
        end = _step_back(corner, points[index + 1], CORNER)
        path.append(("L", (begin,)))
        path.append(("Q", (corner, end)))
    path.append(("L", (points[-1],)))
    return path


def _step_back(point: Point, towards: Point, length: float) -> Point:
    """Return a point that is nearer to another one, at most halfway."""
    x, y = point
    across = towards[0] - x
    up = towards[1] - y
    distance = abs(across) + abs(up)
    share = min(length / distance, 0.5) if distance else 0.0
    return x + across * share, y + up * share


@functools.lru_cache(4096)
def measure(text: str, size: float = TEXT_SIZE) -> float:
    """Return the width of a text in DejaVu Sans, which is wider than the fonts of most readers."""
    known = "".join(letter for letter in text if not _is_wide(letter))
    known_width = _measure_face(known) * size / 100
    num_wide = len(text) - len(known)
    return known_width + size * num_wide


def _is_wide(letter: str) -> bool:
    """Return whether a letter is as wide as it is high, as Chinese is."""
    return unicodedata.east_asian_width(letter) in ("W", "F")


def _measure_face(text: str) -> float:
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    face = FT2Font(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"))
    face.set_size(100, 72)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a letter that the font lacks is a box
        face.set_text(text, 0.0)
    return face.get_width_height()[0] / 64
