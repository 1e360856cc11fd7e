"""A coloured text as a picture, by matplotlib: words on boxes, in lines that are filled."""

import functools
import textwrap
from collections.abc import Iterator
from pathlib import Path

from kbert.io import palette, printable
from kbert.tasks.attribution.coloured_text import Span
from kbert.tasks.pictures import draw_figure

_WIDTH = 7.5  # inches, all of it
_MARGIN = 0.25  # inches on each side
_POINTS = 13.0  # the letters' size
_LINE = 0.36  # inches from line to line
_NOTE = 9.0  # points, of the notes
_TITLE = 0.34  # inches of the title
_STRONGEST = 8  # tokens with scores in the notes
_MOST_LINES = 400


def draw(title: str, notes: list[str], texts: list[list[Span]], path: Path) -> None:
    """Write the picture: the title, texts from a line of their own, and the notes below."""
    from matplotlib.patches import Rectangle

    with draw_figure(path) as figure:
        pieces, lines = _lay_out(texts)
        strongest = [span for spans in texts for span in spans if span.tokens]
        strongest = sorted(strongest, key=lambda span: -abs(span.score))[:_STRONGEST]
        scores = ", ".join(f"{printable.line(one.text)} {one.score:+.4f}" for one in strongest)
        notes = [f"Blue counts for it, orange against: {scores}.", *notes]  # there is no table
        notes = [line for note in notes for line in textwrap.wrap(note, 100)]
        height = 2 * _MARGIN + _TITLE + _LINE * lines + 0.19 * len(notes) + 0.1
        figure.set_size_inches(_WIDTH, height)
        figure.set_facecolor(palette.PAPER.light)

        def write(
            left: float, y: float, text: str, points=_POINTS, colour=palette.INK.light, **font
        ):
            font |= {"fontsize": points, "color": colour, "va": "center_baseline"}
            figure.text(left / _WIDTH, y / height, text, parse_math=False, **font)

        top = height - _MARGIN - _TITLE
        write(_MARGIN, top + _TITLE / 2, printable.cut(title, 80), weight="bold")
        for left, line, width, text, span in pieces:
            y = top - _LINE * (line + 0.5)
            if span.tokens:
                colour = (*(channel / 255 for channel in span.colour), span.opacity)
                corner = (left / _WIDTH, (y - 0.4 * _LINE) / height)
                sides = (width / _WIDTH, 0.8 * _LINE / height)
                figure.add_artist(Rectangle(corner, *sides, facecolor=colour, linewidth=0))
            write(left, y, text)
        for number, note in enumerate(notes):
            write(
                _MARGIN, _MARGIN + 0.19 * (len(notes) - 1 - number), note, _NOTE, palette.DIM.light
            )


def _lay_out(texts: list[list[Span]]) -> tuple[list[tuple], int]:
    """Return (left, line, width, letters, span) of each piece, in inches, and the lines' number."""
    pieces: list[tuple] = []
    line, line_width = 0, _WIDTH - 2 * _MARGIN
    for spans in texts:
        left = 0.0
        for span, text in _split_pieces(spans):
            width = _measure(text)
            if text == "\n" or (left + width > line_width and left):
                line, left = line + 1, 0.0
            if line >= _MOST_LINES:
                return pieces, line
            if text.isspace() and not left:
                continue
            if not text.isspace():
                pieces.append((_MARGIN + left, line, width, text, span))
            left += width
        line += 1
    return pieces, line


def _split_pieces(spans: list[Span]) -> Iterator[tuple[Span, str]]:
    """Yield tokens unchanged, and the text between them split at ends of line and blanks."""
    for span in spans:
        if span.tokens:
            yield span, printable.line(span.text)
            continue
        text = printable.lines(span.text).replace("\t", " ")
        for number, line in enumerate(text.split("\n")):
            if number:
                yield span, "\n"
            for piece in line.replace(" ", " \0").split("\0"):
                if piece:
                    yield span, piece


@functools.lru_cache(4096)
def _measure(text: str) -> float:
    """Return the width in inches; with blanks, which a path's extents leave out at its ends."""
    if text == "\n":
        return 0.0
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    def extent(text: str) -> float:
        plain = text.replace("$", r"\$")  # no formula
        path = TextPath((0, 0), plain, size=_POINTS, prop=FontProperties(family="DejaVu Sans"))
        return float(path.get_extents().width)

    return (extent(f"|{text}|") - extent("||")) / 72
