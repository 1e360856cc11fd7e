"""A text in colours: its tokens with scores, as HTML for a notebook or as a page.

There is no script and no network. The page is light or dark as its reader's system is, a notebook's
cell as the notebook: the colours are translucent, and all else is the reader's own.
"""

import html
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbert.io import palette, printable
from kbert.io.file_kinds import PAGE_MARK

# for and against; told apart by the colour-blind too
BLUE = palette.read_rgb(palette.BLUE.light)
ORANGE = palette.read_rgb(palette.ORANGE.light)
_FIGURE = "margin: 0; max-width: 48rem; font: 1rem/1.9 system-ui, sans-serif"
_COLOUR = "background: rgb({} {} {} / {})"
_TOKEN = "border-radius: 0.2rem; padding: 0.1rem 0; "
_NOTES = "font-size: 0.85rem; line-height: 1.5"
_CELL = "text-align: {}; padding: 0 1.5rem 0 0.3rem; white-space: pre-wrap"
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{mark}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ background: Canvas; color: CanvasText; overflow-wrap: anywhere }}
body {{ margin: 0; padding: 0.8rem 1rem }}
h1 {{ margin: 0; font: 600 1.3rem/1.3 system-ui, sans-serif }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""


@dataclass(frozen=True)
class Span:
    """A piece of a text: its tokens, mostly one, or none for the text between tokens.

    `score` is the sum of the tokens' scores; `strength` is the score / the largest of the text.
    """

    text: str
    tokens: tuple[str, ...] = ()
    score: float = 0.0
    strength: float = 0.0

    @property
    def colour(self) -> tuple[int, int, int]:
        """Red, green and blue, 0 to 255: for the answer, or against it."""
        return BLUE if self.strength > 0 else ORANGE

    @property
    def opacity(self) -> float:
        """0 to 0.75; the background, white or dark, shows through."""
        return round(0.75 * abs(self.strength), 3)


class _Group(NamedTuple):
    """Tokens that share characters, and the sum of their scores."""

    start: int
    end: int
    tokens: tuple[str, ...]
    score: float


def split_text(
    text: str, tokens: Sequence[tuple[int, int, str, float]], truncated: bool = False
) -> list[Span]:
    """Split a text into spans, in order, up to its last token.

    `tokens` are (start, end, token, score), ascending; those that share characters, such as two of
    one character, are one span. If the text was truncated, an ellipsis shows it.
    """
    groups = _join_overlapping(tokens)
    sizes = [abs(group.score) for group in groups]
    largest = max(sizes, default=0.0) or 1.0
    spans = []
    done = 0
    for group in groups:
        if group.start > done:
            spans.append(Span(text[done : group.start]))
        piece = text[group.start : group.end]
        strength = group.score / largest
        spans.append(Span(piece, group.tokens, group.score, strength))
        done = group.end

    rest = text[done:]
    if truncated and rest.strip():
        rest = " …"
    if rest:
        spans.append(Span(rest))
    return spans


def _join_overlapping(tokens: Sequence[tuple[int, int, str, float]]) -> list[_Group]:
    """Join tokens that share characters, and add their scores."""
    groups: list[_Group] = []
    for start, end, token, score in tokens:
        group = _Group(start, end, (token,), score)
        if groups and start < groups[-1].end:
            before = groups.pop()
            last = max(end, before.end)
            names = (*before.tokens, token)
            total = before.score + score
            group = _Group(before.start, last, names, total)
        groups.append(group)
    return groups


def write_page(title: str, notes: list[str], texts: list[list[Span]]) -> str:
    """Return the coloured texts as a self-contained page."""
    body = _write_figure(notes, texts, "open")
    return _PAGE.format(mark=PAGE_MARK, title=_escape(title), body=body)


def write_fragment(title: str, notes: list[str], texts: list[list[Span]]) -> str:
    """Return the texts, one per paragraph, with a title above and the notes below."""
    return f"<strong>{_escape(title)}</strong>\n{_write_figure(notes, texts, '')}"


def _write_figure(notes: list[str], texts: list[list[Span]], table: str) -> str:
    paragraphs = "\n".join(_write_paragraph(spans) for spans in texts)
    legend = f"{_write_legend(BLUE, 'for')} {_write_legend(ORANGE, 'against')}"
    caption = "<br>".join(_escape(note) for note in notes)
    tokens = [span for span in itertools.chain.from_iterable(texts) if span.tokens]
    body = "\n".join(_write_row(span) for span in tokens)
    return (
        f'<figure style="{_FIGURE}">\n{paragraphs}\n'
        f'<figcaption style="{_NOTES}">{legend}<br>{caption}'
        f"</figcaption>\n<details {table}><summary>Every token's score</summary>\n"
        '<table style="border-spacing: 0; line-height: 1.6"><tbody>\n'
        f"{body}\n</tbody></table>\n</details>\n</figure>"
    )


def _write_paragraph(spans: list[Span]) -> str:
    text = "".join(_write_span(span) for span in spans)
    return f'<p dir="auto" style="white-space: pre-wrap">{text}</p>'


def _write_legend(colour: tuple[int, int, int], meaning: str) -> str:
    style = _TOKEN + _COLOUR.format(*colour, 0.6)
    return f'<span style="{style}">&nbsp;{meaning}&nbsp;</span>'


def _write_row(span: Span) -> str:
    """Write a token and its score as a row of the table."""
    text_style = f"{_CELL.format('start')}; {_colour(span)}"
    score_style = _CELL.format("end")
    return (
        f'<tr><td dir="auto" style="{text_style}">{_escape(span.text)}</td>'
        f'<td style="{score_style}">{span.score:+.4f}</td></tr>'
    )


def _write_span(span: Span) -> str:
    text = html.escape(printable.lines(span.text))
    if not span.tokens:
        return text
    title = _escape(f"{' '.join(span.tokens)} {span.score:+.4f}")
    return f'<span style="{_TOKEN}{_colour(span)}" title="{title}">{text}</span>'


def _colour(span: Span) -> str:
    return _COLOUR.format(*span.colour, span.opacity)


def _escape(text: str) -> str:
    return html.escape(printable.line(text))
