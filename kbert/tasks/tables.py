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
        rows: (file and line, cells) of the examples.
        has_header: whether the first line was a header.
    """

    columns: Any
    names: list[str]
    rows: list[Row]
    has_header: bool


def read_objects(path: Path) -> Iterator[tuple[str, dict]] | None:
    """Return (file and line, object) of .json and .jsonl files; None for another file."""
    if path.suffix.lower() not in (".json", ".jsonl"):
        return None
    return ((f"{path}, line {number}", row) for number, row in read_json_lines(path))


def read_table(
    path: Path,
    options: ColumnOptions,
    *,
    expected: str,
    labels_in: Callable[[str], Collection[str]],
    find_columns: Callable[[Sequence[str], str, ColumnOptions], Any],
    find_unnamed: Callable[[Sequence[Row], str], Any],
    last_column: Callable[[Sequence[Row]], str] = lambda rows: "label",
    **header_options: Any,
) -> Table | None:
    """Read columns between commas (.csv, with quotes) or tabs; None for an empty file.

    Args:
        path: the file, UTF-8.
        options: which columns to read, and whether there is a header.
        expected: a description of the columns, for errors.
        labels_in: returns the labels of a last cell (`is_header`).
        find_columns: returns the columns by their names.
        find_unnamed: returns the columns of rows without header.
        last_column, header_options: what the last column of the rows holds, and further arguments,
            for `is_header`.

    Raises:
        OSError: the file cannot be read.
        ValueError: not UTF-8, a first line that may be a header or not, unknown columns; with the
            line's number.
    """
    lines = read_csv(path) if path.suffix.lower() == ".csv" else read_tsv(path)
    rows: list[Row] = [
        (f"{path}, line {number}", [cell.strip() for cell in cells]) for number, cells in lines
    ]
    if not rows:
        return None
    place, first = rows[0]
    if hint := hint_of_separator(rows):
        raise ValueError(f"{place}: {expected}, got 1 column: {hint}")
    has_header = is_header(
        rows,
        options,
        labels_in,
        columns_in=lambda names: find_columns(names, place, options),
        last=last_column(rows),
        **header_options,
    )
    numbers = [str(n + 1) for n in range(len(first))]
    if has_header:
        columns = find_columns(first, place, options)
        _logger.warning("%s: read as a header: %s", place, ", ".join(first))
        warn_of_ignored(first, columns, place)
        return Table(columns, list(first), rows[1:], has_header)
    if options.names:
        return Table(find_columns(numbers, place, options), numbers, rows, has_header)
    return Table(find_unnamed(rows, place), numbers, rows, has_header)


def warn_of_ignored(names: Sequence[str], columns: Container, place: str) -> None:
    """Report columns that are not read."""
    if ignored := left_out(names, columns):
        _logger.warning("%s: these columns are ignored: %s", place, ", ".join(ignored)[:80])


def check_width(cells: Sequence[str], names: Sequence[str], place: str) -> None:
    """Raise a ValueError for a row with another number of columns than the first."""
    if len(cells) != len(names):
        raise ValueError(f"{place}: expected {len(names)} columns as before, got {len(cells)}")
