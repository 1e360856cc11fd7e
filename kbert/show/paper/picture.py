"""A figure as PDF or PNG, by matplotlib: always the same bytes."""

import io
import logging
import warnings

from kbert.io import printable
from kbert.io.latex import has_other_letters
from kbert.show.paper.shapes import (
    FILLS,
    INK,
    LETTER_RISE,
    LETTER_SIZE,
    LINE_WIDTH,
    SUBSCRIPT_DROP,
    TEXT_SIZE,
    Box,
    Circle,
    Drawing,
    Line,
    Point,
    Text,
    arrow_head,
    baselines,
    list_letters,
    measure,
    round_corners,
)

_logger = logging.getLogger("kbert")
_DOTS_PER_INCH = 600  # of one column, as journals ask; a slide has its pixels at 144
_SLIDE_DOTS_PER_INCH = 144
_MOST_PIXELS = 16_000  # a side of a PNG
# Fonts for letters that DejaVu Sans lacks, such as Chinese, where the system has one of them.
_OTHER_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Arial Unicode MS",
)
_SETTINGS = {
    "text.parse_math": False,  # a dollar is a dollar
    "pdf.fonttype": 42,  # TrueType: texts stay texts, and journals take it
}


def to_picture(drawing: Drawing, kind: str) -> bytes:
    """Return a drawing as a file of the kind "pdf" or "png"."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    inch_width = drawing.width * drawing.scale / 72
    inch_height = drawing.height * drawing.scale / 72
    size = (inch_width, inch_height)
    wanted = _SLIDE_DOTS_PER_INCH if drawing.scale > 1 else _DOTS_PER_INCH
    dpi = min(wanted, _MOST_PIXELS / max(size))
    metadata = {"CreationDate": None, "Title": drawing.title} if kind == "pdf" else {}
    file = io.BytesIO()
    fonts = {"font.family": ["DejaVu Sans", *_list_other_fonts(drawing)]}
    with (
        matplotlib.rc_context(_SETTINGS | fonts),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        figure = Figure(size)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, drawing.width)
        axes.set_ylim(0, drawing.height)
        for shape in drawing.shapes:
            _draw_shape(axes, shape, drawing.scale)
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)

    if any("missing from font" in str(warning.message) for warning in caught):
        _logger.warning(
            "no font of this machine has all letters of the text: those without one are boxes in "
            "the picture. A .svg has the letters, in the fonts of its reader"
        )
    return file.getvalue()


def _list_other_fonts(drawing: Drawing) -> list[str]:
    """Return the fonts besides DejaVu Sans; none for a figure of Latin letters alone."""
    if not has_other_letters(list_letters(drawing)):
        return []
    from matplotlib.font_manager import get_font_names

    return [name for name in _OTHER_FONTS if name in get_font_names()]


def _draw_shape(axes, shape, scale: float) -> None:
    from matplotlib.patches import Circle as CirclePatch
    from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon

    outline: dict = {"edgecolor": INK, "linewidth": LINE_WIDTH * scale}
    if isinstance(shape, Box):
        style = f"round,pad=0,rounding_size={shape.corner:g}"
        corner = (shape.left, shape.bottom)
        box = FancyBboxPatch(
            corner,
            shape.width,
            shape.height,
            boxstyle=style,
            facecolor=FILLS[shape.kind],
            **outline,
        )
        axes.add_patch(box)
        _draw_text(axes, shape.lines, shape.x, shape.y, scale, "middle", shape.subscript)
    elif isinstance(shape, Text):
        _draw_text(axes, shape.lines, shape.x, shape.y, scale, shape.align)
    elif isinstance(shape, Circle):
        middle = (shape.x, shape.y)
        circle = CirclePatch(middle, shape.radius, facecolor="#ffffff", **outline)
        axes.add_patch(circle)
    else:
        path = PathPatch(_path_of(shape), fill=False, **outline)
        axes.add_patch(path)
        if shape.arrow:
            head = Polygon(arrow_head(shape), facecolor=INK, linewidth=0)
            axes.add_patch(head)


def _path_of(line: Line):
    from matplotlib.path import Path

    codes_of_letter = {
        "M": [Path.MOVETO],
        "L": [Path.LINETO],
        "Q": [Path.CURVE3, Path.CURVE3],
    }
    points: list[Point] = []
    codes = []
    for letter, step in round_corners(line):
        points += step
        codes += codes_of_letter[letter]
    return Path(points, codes)


def _draw_text(
    axes, lines: tuple[str, ...], x: float, y: float, scale: float, align: str, subscript: str = ""
) -> None:
    if subscript:
        _draw_subscript(axes, lines[0], subscript, x, y, scale)
        return
    sides = {"start": "left", "middle": "center", "end": "right"}
    looks = {"color": INK, "ha": sides[align], "va": "baseline"}
    size = TEXT_SIZE * scale
    heights = baselines(y, len(lines))
    for line, baseline in zip(lines, heights, strict=True):
        text = printable.line(line)
        axes.text(x, baseline, text, size=size, **looks)


def _draw_subscript(axes, letter: str, subscript: str, x: float, y: float, scale: float) -> None:
    subscript = printable.line(subscript)
    (baseline,) = baselines(y + LETTER_RISE, 1, LETTER_SIZE)
    letter_width = measure(letter, LETTER_SIZE)
    width = letter_width + measure(subscript)
    left = x - width / 2
    looks = {"color": INK, "ha": "left", "va": "baseline"}
    size = LETTER_SIZE * scale
    axes.text(left, baseline, letter, size=size, **looks)

    subscript_left = left + letter_width
    subscript_baseline = baseline - SUBSCRIPT_DROP
    size = TEXT_SIZE * scale
    axes.text(subscript_left, subscript_baseline, subscript, size=size, **looks)
