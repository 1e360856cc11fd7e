"""A coloured text as a picture, by matplotlib: words on boxes, in lines that are filled."""

import functools
import io
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path

from kbert.io import printable
from kbert.io.atomic_write import write_atomically
from kbert.tasks.attribution.spans import Span

_WIDTH = 7.5  # inches, all of it
_MARGIN = 0.25  # inches on each side
_POINTS = 13.0  # the letters' size
_LINE = 0.36  # inches from line to line
_NOTE = 9.0  # points, of the notes
_TITLE = 0.34  # inches of the title
_STRONGEST = 8  # pieces of the texts whose scores are told below
_MOST_LINES = 400


def draw(title: str, notes: list[str], texts: list[list[Span]], path: Path) -> None:
    """Write the picture; always the same bytes for the same texts.

    Args:
        title: the line above.
        notes: the lines below.
        texts: each begins on a line of its own.
        path: .png, .svg or .pdf.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ending = path.suffix.lower().removeprefix(".")
    settings = {
        "font.family": "DejaVu Sans",
        "svg.hashsalt": "kbert",
        "svg.fonttype": "none" if ending == "svg" else "path",
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # drawn as a box
        placed, lines = _placed(texts)
        notes = _wrapped_notes([_strongest(texts), *notes])
        height = 2 * _MARGIN + _TITLE + _LINE * lines + 0.19 * len(notes) + 0.1
        figure = Figure((_WIDTH, height), facecolor="white")
        FigureCanvasAgg(figure)
        heading = printable.cut(title, 80)
        top = height - _MARGIN - _TITLE / 2
        _write(figure, _MARGIN / _WIDTH, top / height, heading, _POINTS, weight="bold")
        for left, line, width, word, span in placed:
            top = height - _MARGIN - _TITLE - _LINE * (line + 0.5)
            if span.tokens:
                _box(figure, left, top, width, height, span)
            _write(figure, left / _WIDTH, top / height, word, _POINTS)
        for number, note in enumerate(notes):
            top = _MARGIN + 0.19 * (len(notes) - 1 - number)
            _write(figure, _MARGIN / _WIDTH, top / height, note, _NOTE, "#444444")
        content = io.BytesIO()
        undated = {} if ending == "png" else {"Date" if ending == "svg" else "CreationDate": None}
        figure.savefig(content, format=ending, dpi=150, metadata=undated)
    write_atomically(path, content.getvalue())


def _placed(texts: list[list[Span]]) -> tuple[list[tuple], int]:
    """(left, line, width, letters, span) of each piece, in inches, and how many lines there are."""
    placed: list[tuple] = []
    line, room = 0, _WIDTH - 2 * _MARGIN
    for spans in texts:
        left = 0.0
        for span, word in _words(spans):
            width = _width(word)
            if word == "\n" or (left + width > room and left):
                line, left = line + 1, 0.0
            if line >= _MOST_LINES:
                return placed, line
            if word.isspace() and not left:
                continue
            if not word.isspace():
                placed.append((_MARGIN + left, line, width, word, span))
            left += width
        line += 1
    return placed, line


def _words(spans: list[Span]) -> Iterator[tuple[Span, str]]:
    """Yield tokens as they are; what stands between them cut at ends of line, blanks apart."""
    for span in spans:
        text = printable.lines(span.text).replace("\t", " ")
        if span.tokens:
            yield span, printable.line(span.text)
            continue
        for number, part in enumerate(text.split("\n")):
            if number:
                yield span, "\n"
            for word in part.replace(" ", " \0").split("\0"):
                if word:
                    yield span, word


@functools.lru_cache(4096)
def _width(word: str) -> float:
    """Inches that letters take; blanks too, which a path's extents leave out at its ends."""
    if word == "\n":
        return 0.0
    return (_extent(f"|{word}|") - _extent("||")) / 72


def _extent(text: str) -> float:
    """Return points from a text's first letter to its last."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    plain = text.replace("$", r"\$")  # no formula
    path = TextPath((0, 0), plain, size=_POINTS, prop=FontProperties(family="DejaVu Sans"))
    return float(path.get_extents().width)


def _box(figure, left: float, top: float, width: float, height: float, span: Span) -> None:
    from matplotlib.patches import Rectangle

    colour = (*(part / 255 for part in span.colour), span.opacity)
    size = (width / _WIDTH, 0.8 * _LINE / height)
    corner = (left / _WIDTH, (top - 0.4 * _LINE) / height)
    figure.add_artist(Rectangle(corner, *size, facecolor=colour, linewidth=0))


def _write(
    figure, x: float, y: float, text: str, points: float, colour: str = "#111111", **looks
) -> None:
    looks |= {"fontsize": points, "color": colour, "va": "center_baseline"}
    figure.text(x, y, text, parse_math=False, **looks)


def _strongest(texts: list[list[Span]]) -> str:
    """List the scores of what counts most, since a picture has no table."""
    spans = [span for spans in texts for span in spans if span.tokens]
    spans = sorted(spans, key=lambda span: -abs(span.score))[:_STRONGEST]
    scores = ", ".join(f"{printable.line(span.text)} {span.score:+.4f}" for span in spans)
    return f"Blue counts for it, orange against: {scores}."


def _wrapped_notes(notes: list[str]) -> list[str]:
    return [line for note in notes for line in textwrap.wrap(note, 100)]
