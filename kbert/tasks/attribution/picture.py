"""A coloured text as a picture, by matplotlib: words on boxes, in lines that are filled."""

import functools
import itertools
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kbert.io import palette, printable
from kbert.tasks.attribution.coloured_text import Span
from kbert.tasks.common.pictures import draw_figure

_WIDTH = 7.5  # inches, all of it
_MARGIN = 0.25  # inches on each side
_POINTS = 13.0  # the letters' size
_LINE = 0.36  # inches from line to line
_NOTE = 9.0  # points, of the notes
_NOTE_LINE = 0.19  # inches from line to line of the notes
_TITLE = 0.34  # inches of the title
_STRONGEST = 8  # tokens with scores in the notes
_MOST_LINES = 400


class _Piece(NamedTuple):
    """A piece of a line: its left edge and its width in inches, and the number of its line."""

    left: float
    line: int
    width: float
    text: str
    span: Span


def draw(title: str, notes: list[str], texts: list[list[Span]], path: Path) -> None:
    """Write the picture: the title, texts from a line of their own, and the notes below."""
    note_lines: list[str] = []
    for note in (_describe_strongest(texts), *notes):  # there is no table
        note_lines += textwrap.wrap(note, 100)

    with draw_figure(path) as figure:
        pieces, lines = _lay_out(texts)
        texts_height = _LINE * lines
        notes_height = _NOTE_LINE * len(note_lines)
        height = 2 * _MARGIN + _TITLE + texts_height + notes_height + 0.1
        figure.set_size_inches(_WIDTH, height)
        figure.set_facecolor(palette.PAPER.light)

        top = height - _MARGIN - _TITLE
        short_title = printable.cut(title, 80)
        _write(figure, _MARGIN, top + _TITLE / 2, short_title, weight="bold")
        for piece in pieces:
            y = top - _LINE * (piece.line + 0.5)
            if piece.span.tokens:
                _draw_box(figure, piece, y)
            _write(figure, piece.left, y, piece.text)

        for number, note in enumerate(note_lines):
            y = _MARGIN + _NOTE_LINE * (len(note_lines) - 1 - number)
            looks = {"fontsize": _NOTE, "color": palette.DIM.light}
            _write(figure, _MARGIN, y, note, **looks)


def _describe_strongest(texts: list[list[Span]]) -> str:
    """Return a note on the tokens with the largest scores."""
    tokens = [span for span in itertools.chain.from_iterable(texts) if span.tokens]
    tokens.sort(key=lambda span: -abs(span.score))
    scores = [f"{printable.line(span.text)} {span.score:+.4f}" for span in tokens[:_STRONGEST]]
    return f"Blue counts for it, orange against: {', '.join(scores)}."


def _write(figure, left: float, y: float, text: str, **font) -> None:
    """Write a line at a place in inches, from the lower left corner."""
    width, height = figure.get_size_inches()
    looks = {
        "fontsize": _POINTS,
        "color": palette.INK.light,
        "va": "center_baseline",
    }
    looks |= font
    figure.text(left / width, y / height, text, parse_math=False, **looks)


def _draw_box(figure, piece: _Piece, y: float) -> None:
    """Draw the coloured box of a token, whose middle is at y inches."""
    from matplotlib.patches import Rectangle

    width, height = figure.get_size_inches()
    corner = piece.left / width, (y - 0.4 * _LINE) / height
    sides = piece.width / width, 0.8 * _LINE / height
    red, green, blue = (channel / 255 for channel in piece.span.colour)
    colour = red, green, blue, piece.span.opacity
    box = Rectangle(corner, *sides, facecolor=colour, linewidth=0)
    figure.add_artist(box)


def _lay_out(texts: list[list[Span]]) -> tuple[list[_Piece], int]:
    """Return the pieces of the texts in lines, and the lines' number."""
    pieces: list[_Piece] = []
    line, line_width = 0, _WIDTH - 2 * _MARGIN
    for spans in texts:
        left = 0.0
        for span, text in _split_pieces(spans):
            width = _measure(text)
            is_too_wide = left > 0 and left + width > line_width
            if text == "\n" or is_too_wide:
                line, left = line + 1, 0.0
            if line >= _MOST_LINES:
                return pieces, line
            if text.isspace() and not left:
                continue
            if not text.isspace():
                pieces.append(_Piece(_MARGIN + left, line, width, text, span))
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
        font = FontProperties(family="DejaVu Sans")
        path = TextPath((0, 0), plain, size=_POINTS, prop=font)
        return float(path.get_extents().width)

    return (extent(f"|{text}|") - extent("||")) / 72
