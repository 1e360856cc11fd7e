"""Results as HTML tables, for notebooks."""

import html
from collections.abc import Iterable, Sequence

_RIGHT = ' style="text-align: right"'


def table(header: Sequence[str], lines: Iterable[Sequence], caption: str) -> str:
    """Return a table; whole numbers are set right, with commas, and shares (12.3%) too."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    rows = "\n".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
    return (
        f"<table>\n<caption>{html.escape(caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _cell(value) -> str:
    number = isinstance(value, int)
    text = f"{value:,}" if number else str(value)
    return f"<td{_RIGHT if number or text.endswith('%') else ''}>{html.escape(text)}</td>"
