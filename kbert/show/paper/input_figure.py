"""The input of a text: its tokens, and the embeddings that the model adds for each of them.

Devlin et al. 2019 (arXiv 1810.04805), figure 2, is the model: a row of tokens, then rows of token,
segment and position embeddings, a column per token.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kbert.show.paper.placing import compose_figure, compose_slide, find_bounds, move
from kbert.show.paper.shapes import (
    LETTER_SIZE,
    PAGE,
    TEXT_SIZE,
    Box,
    Drawing,
    Shape,
    Text,
    measure,
)

_HEIGHT = 17.0  # of a box
_TOKEN_GAP = 12.0  # below the row of tokens
_GAP = 11.0  # between rows of embeddings, for a plus
_APART = 4.0  # columns
_BAND_GAP = 20.0  # between the bands of a long text
_PADDING = 4.0  # of a box, at the left and the right of its text
_LABELS_WIDTH = 56.0  # of the rows' names, with the space after them
_SLIDE_MARGIN = 20.0
_SLIDE_TEXT_WIDTH = 440.0  # points at a text of 8 points: 16 points on a slide
_SEGMENTS = "AB"


class Tier(NamedTuple):
    """A row of the figure: its name, and of each column the letter, the subscript and the kind."""

    label: tuple[str, ...]
    cells: list[tuple[str, str, str]]


def draw_input(
    tokens: Sequence[str],
    segments: Sequence[int] | None,
    first_position: int,
    title: str,
    layout: str = "tall",
) -> Drawing:
    """Return the figure of a text's tokens, as wide as they are, or a slide ("wide").

    `segments` are the tokens' segments, None for models without any. More tokens than a page of two
    columns holds continue in further bands.
    """
    tiers = _list_embeddings(tokens, segments, first_position)
    limit = PAGE - 2 if layout == "tall" else _SLIDE_TEXT_WIDTH
    widths = []
    for column in range(len(tokens)):
        widths.append(max(_measure_cell(tier.cells[column]) for tier in tiers))

    shapes: list[Shape] = []
    bottom = 0.0
    for first, last in _cut_bands(widths, limit - _LABELS_WIDTH):
        band = _draw_band(tiers, widths, first, last)
        shapes += [move(shape, 0.0, bottom) for shape in band]
        bottom -= find_bounds(band).height + _BAND_GAP
    if layout == "wide":
        return compose_slide(title, shapes, _SLIDE_MARGIN)
    return compose_figure(title, shapes)


def _list_embeddings(
    tokens: Sequence[str], segments: Sequence[int] | None, first_position: int
) -> list[Tier]:
    tiers = []
    cells = [(token, "", "input") for token in tokens]
    tiers.append(Tier(("Input",), cells))

    cells = [("E", token, "embedding") for token in tokens]
    tiers.append(Tier(("Token", "Embeddings"), cells))

    if segments is not None:
        letters = [_SEGMENTS[segment] for segment in segments]
        cells = [("E", letter, f"segment {letter}") for letter in letters]
        tiers.append(Tier(("Segment", "Embeddings"), cells))

    end = first_position + len(tokens)
    positions = range(first_position, end)
    cells = [("E", str(position), "position") for position in positions]
    tiers.append(Tier(("Position", "Embeddings"), cells))
    return tiers


def _measure_cell(cell: tuple[str, str, str]) -> float:
    letter, subscript, _ = cell
    size = LETTER_SIZE if subscript else TEXT_SIZE
    width = measure(letter, size) + measure(subscript)
    return max(width + 2 * _PADDING, _HEIGHT)


def _cut_bands(widths: Sequence[float], limit: float) -> list[tuple[int, int]]:
    """Return the first and the last but one column of each band; a column is never cut."""
    bands = []
    first, used = 0, 0.0
    for column, width in enumerate(widths):
        if column > first and used + width > limit:
            bands.append((first, column))
            first, used = column, 0.0
        used += width + _APART
    return [*bands, (first, len(widths))]


def _draw_band(
    tiers: Sequence[Tier], widths: Sequence[float], first: int, last: int
) -> list[Shape]:
    """Return the rows of some columns, from top to bottom, with their names at the left."""
    shapes: list[Shape] = []
    bottom = 0.0
    for number, tier in enumerate(tiers):
        gaps = {0: 0.0, 1: _TOKEN_GAP}
        bottom -= _HEIGHT + gaps.get(number, _GAP)
        shapes.append(Text(0.0, bottom + _HEIGHT / 2, tier.label, "start"))
        left = _LABELS_WIDTH
        for column in range(first, last):
            letter, subscript, kind = tier.cells[column]
            width = widths[column]
            box = Box(left, bottom, width, _HEIGHT, (letter,), kind, subscript)
            shapes.append(box)
            if number > 1:
                middle = left + width / 2
                shapes.append(Text(middle, box.top + _GAP / 2, ("+",)))
            left += width + _APART
    return shapes
