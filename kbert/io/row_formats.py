"""A table of dataclass rows as CSV, TSV, JSON or Markdown; text, HTML; the package's tables."""

import csv
import html
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.resources import files

from kbert.io import printable
from kbert.io.json_values import as_json

_RIGHT = ' style="text-align: right"'


def read_package_table(package: str, name: str) -> list[list[str]]:
    """Return the cells of a table that a package has as a file, without the header."""
    file = files(package).joinpath(name)
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines[1:]]


def align(lines: Sequence[Sequence[str]], gap: int = 2, widths: Sequence[int] = ()) -> str:
    """Return a table as text; all columns but the first are set right.

    Columns are as wide as their longest cell and a gap, or have the given widths, gaps included.
    """
    if not widths:
        columns = zip(*lines, strict=True)
        widths = [max(len(cell) for cell in column) + gap for column in columns]
    aligned = []
    for first, *cells in lines:
        text = first.ljust(widths[0] - gap)
        for cell, width in zip(cells, widths[1:], strict=True):
            text += cell.rjust(width)
        aligned.append(text.rstrip())
    return "\n".join(aligned)


def to_csv(rows: Sequence, delimiter: str = ",") -> str:
    """Return a header and one line per row."""
    records = [asdict(row) for row in rows]
    out = io.StringIO()
    writer = csv.DictWriter(out, records[0], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return printable.lines(out.getvalue())


def to_markdown(rows: Sequence, columns: Sequence[str] | None = None) -> str:
    """Return a table for GitHub; whole numbers are set right, with thousands separators."""
    records = [asdict(row) for row in rows]
    columns = columns or list(records[0])
    first = records[0]
    numbers = [isinstance(first[column], int) for column in columns]
    rules = ["---:" if is_number else "---" for is_number in numbers]
    table = [list(columns), rules]
    for record in records:
        cells = []
        for column, is_number in zip(columns, numbers, strict=True):
            cells.append(f"{record[column]:,}" if is_number else _cell(record[column]))
        table.append(cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def to_json(value) -> str:
    """Return indented JSON of what `as_json` makes of a value.

    `printable` escapes as JSON does, so the value stays the same.
    """
    values = as_json(value)
    text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
    return printable.lines(text + "\n")


def _cell(value) -> str:
    return printable.line(value).replace("|", "\\|")


def to_html(header: Sequence[str], lines: Iterable[Sequence], caption: str) -> str:
    """Return a table for a notebook; whole numbers, with commas, and shares are set right."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    rows = []
    for line in lines:
        cells = "".join(_html_cell(value) for value in line)
        rows.append(f"<tr>{cells}</tr>")
    body = "\n".join(rows)
    return (
        f"<table>\n<caption>{html.escape(caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def _html_cell(value) -> str:
    is_number = isinstance(value, int)
    text = f"{value:,}" if is_number else str(value)
    style = _RIGHT if is_number or text.endswith("%") else ""
    return f"<td{style}>{html.escape(text)}</td>"
