"""A coloured text as HTML: for a notebook, or a page of its own; no script, no network."""

import html

from kbert.io import printable
from kbert.tasks.attribution.spans import BLUE, ORANGE, Span

_FIGURE = (
    "margin: 0; padding: 0.8rem 1rem; background: #fff; color: #111; max-width: 48rem; "
    "line-height: 1.9; font: 1rem/1.9 system-ui, sans-serif"
)
_TOKEN = "border-radius: 0.2rem; padding: 0.1rem 0; background: rgb({}, {}, {})"
_NOTE = "font-size: 0.85rem; line-height: 1.4; color: #444"
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 0; background: #fff }}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def whole(summary: str, texts: list[list[Span]]) -> str:
    """The page: one file with everything in it."""
    return _PAGE.format(title=html.escape(f"Attribution: {summary}"), body=fragment(summary, texts))


def fragment(summary: str, texts: list[list[Span]]) -> str:
    """The texts, each a paragraph, and below them the summary and what the colours mean."""
    paragraphs = "\n".join(
        f'<p dir="auto" style="white-space: pre-wrap">{"".join(map(_piece, spans))}</p>'
        for spans in texts
    )
    legend = " ".join(
        f'<span style="{_TOKEN.format(*colour)}; color: #fff">&nbsp;{words}&nbsp;</span>'
        for colour, words in ((BLUE, "for"), (ORANGE, "against"))
    )
    return (
        f'<figure style="{_FIGURE}">\n{paragraphs}\n'
        f'<figcaption style="{_NOTE}">{html.escape(summary)}<br>{legend} '
        "Each token's score is in its tooltip.</figcaption>\n</figure>"
    )


def _piece(span: Span) -> str:
    text = html.escape(printable.lines(span.text))
    if not span.tokens:
        return text
    title = html.escape(printable.line(f"{' '.join(span.tokens)} {span.score:+.4f}"), quote=True)
    return f'<span style="{_TOKEN.format(*span.colour)}" title="{title}">{text}</span>'
