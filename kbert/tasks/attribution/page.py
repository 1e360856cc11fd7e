"""Text in colours as HTML, for a notebook or as a page; no script, no network.

The page is light or dark as its reader's system is, a notebook's cell as the notebook: the colours
are translucent, and all else is the reader's own.
"""

import html

from kbert.io import printable
from kbert.tasks.attribution.spans import BLUE, ORANGE, Span

_FIGURE = "margin: 0; max-width: 48rem; font: 1rem/1.9 system-ui, sans-serif"
_COLOUR = "background: rgb({} {} {} / {})"
_TOKEN = "border-radius: 0.2rem; padding: 0.1rem 0; "
_NOTES = "font-size: 0.85rem; line-height: 1.5"
_CELL = "text-align: {}; padding: 0 1.5rem 0 0.3rem; white-space: pre-wrap"
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
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


def whole(title: str, notes: list[str], texts: list[list[Span]]) -> str:
    """Return the page: one file with everything in it.

    Args: as for `fragment`.
    """
    return _PAGE.format(title=_text(title), body=_figure(notes, texts, "open"))


def fragment(title: str, notes: list[str], texts: list[list[Span]]) -> str:
    """Return the texts, each a paragraph, with a title above, and below what the colours mean.

    Args:
        title: what was attributed.
        notes: sentences below the texts.
        texts: their pieces.
    """
    return f"<strong>{_text(title)}</strong>\n{_figure(notes, texts, '')}"


def _figure(notes: list[str], texts: list[list[Span]], table: str) -> str:
    paragraphs = "\n".join(
        f'<p dir="auto" style="white-space: pre-wrap">{"".join(map(_piece, spans))}</p>'
        for spans in texts
    )
    legend = " ".join(
        f'<span style="{_TOKEN}{_COLOUR.format(*colour, 0.6)}">&nbsp;{words}&nbsp;</span>'
        for colour, words in ((BLUE, "for"), (ORANGE, "against"))
    )
    return (
        f'<figure style="{_FIGURE}">\n{paragraphs}\n'
        f'<figcaption style="{_NOTES}">{legend}<br>{"<br>".join(map(_text, notes))}</figcaption>\n'
        f"<details {table}><summary>Every token's score</summary>\n{_table(texts)}\n</details>\n"
        "</figure>"
    )


def _table(texts: list[list[Span]]) -> str:
    rows = [
        f'<tr><td dir="auto" style="{_CELL.format("start")}; {_colour(span)}">{_text(span.text)}'
        f'</td><td style="{_CELL.format("end")}">{span.score:+.4f}</td></tr>'
        for spans in texts
        for span in spans
        if span.tokens
    ]
    cells = "\n".join(rows)
    return f'<table style="border-spacing: 0; line-height: 1.6"><tbody>\n{cells}\n</tbody></table>'


def _piece(span: Span) -> str:
    text = html.escape(printable.lines(span.text))
    if not span.tokens:
        return text
    title = html.escape(printable.line(f"{' '.join(span.tokens)} {span.score:+.4f}"), quote=True)
    return f'<span style="{_TOKEN}{_colour(span)}" title="{title}">{text}</span>'


def _colour(span: Span) -> str:
    return _COLOUR.format(*span.colour, span.opacity)


def _text(text: str) -> str:
    return html.escape(printable.line(text))
