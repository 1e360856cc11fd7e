"""Rows of labelled data from files: JSON lines, and tables with or without a header."""

import logging
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kbert.data.labelled.columns import ColumnOptions, left_out
from kbert.data.labelled.header import Row, is_header
from kbert.data.labelled.text_lines import (
    hint_of_separator,
    read_csv,
    read_json_lines,
    read_tsv,
)

_logger = logging.getLogger("kbert")


class Table(NamedTuple):
    """A table of labelled data.

    Attributes:
        columns: the indices of the columns to read, as the caller's `find_columns` returns them.
        names: the header's names, else the columns' numbers, from 1.
        lines: (file and line, cells) of the examples.
        has_header: whether the first line was a header.
    """

    columns: Any
    names: list[str]
    lines: list[Row]
    has_header: bool


def read_objects(path: Path) -> Iterator[tuple[str, dict]] | None:
    """Return (file and line, object) of .json and .jsonl files; None for another file."""
    if path.suffix.lower() not in (".json", ".jsonl"):
        return None
    return ((f"{path}, line {number}", row) for number, row in read_json_lines(path))


def read_lines(path: Path, expected: str) -> list[Row]:
    """Return the lines of columns between commas (.csv, with quotes) or tabs, UTF-8.

    A ValueError names what is not UTF-8, or another separator; `expected` describes the columns.
    """
    numbered = read_csv(path) if path.suffix.lower() == ".csv" else read_tsv(path)
    lines: list[Row] = [
        (f"{path}, line {number}", [cell.strip() for cell in cells]) for number, cells in numbered
    ]
    if lines and (hint := hint_of_separator(lines)):
        raise ValueError(f"{lines[0][0]}: {expected}, got 1 column: {hint}")
    return lines


def read_table(
    path: Path,
    options: ColumnOptions,
    *,
    expected: str,
    labels_in: Callable[[str], Collection[str]],
    find_columns: Callable[[Sequence[str], str, ColumnOptions], Any],
    find_unnamed: Callable[[Sequence[Row], str], Any],
    last_column: Callable[[Sequence[Row]], str] = lambda lines: "label",
    **header_options: Any,
) -> Table | None:
    """Read columns between commas (.csv, with quotes) or tabs; None for an empty file.

    Args:
        path: the file, UTF-8.
        options: which columns to read, and whether there is a header.
        expected: a description of the columns, for errors.
        labels_in: returns the labels of a last cell (`is_header`).
        find_columns: returns the columns by their names.
        find_unnamed: returns the columns of lines without a header.
        last_column, header_options: what the last column holds, and further arguments,
            for `is_header`.

    Raises:
        OSError: the file cannot be read.
        ValueError: not UTF-8, a first line that may be a header or not, unknown columns; with the
            line's number.
    """
    lines = read_lines(path, expected)
    if not lines:
        return None
    location, first = lines[0]
    has_header = is_header(
        lines,
        options,
        labels_in,
        columns_in=lambda names: find_columns(names, location, options),
        last=last_column(lines),
        **header_options,
    )
    numbers = [str(n + 1) for n in range(len(first))]
    if has_header:
        columns = find_columns(first, location, options)
        _logger.warning("%s: read as a header: %s", location, ", ".join(first))
        warn_of_ignored(first, columns, location)
        return Table(columns, list(first), lines[1:], has_header)
    if options.names:
        return Table(find_columns(numbers, location, options), numbers, lines, has_header)
    return Table(find_unnamed(lines, location), numbers, lines, has_header)


def warn_of_ignored(names: Sequence[str], columns: Container, location: str) -> None:
    """Report columns that are not read."""
    if ignored := left_out(names, columns):
        _logger.warning("%s: these columns are ignored: %s", location, ", ".join(ignored)[:80])


def check_width(cells: Sequence[str], names: Sequence[str], location: str) -> None:
    """Raise a ValueError for a row with another number of columns than the first."""
    if len(cells) != len(names):
        raise ValueError(f"{location}: expected {len(names)} columns as before, got {len(cells)}")
