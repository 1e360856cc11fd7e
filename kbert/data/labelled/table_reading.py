"""The one reader of tables: rows, a header or none, columns, records, checks.

A table is a file (.tsv, .csv, .jsonl, Parquet) or rows in memory. A
`kbert.data.labelled.table_format.TableFormat` says what its rows hold.
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kbert.data.labelled.columns import NO_OPTIONS, NUMBERS, ColumnOptions
from kbert.data.labelled.in_memory import (
    LabelledRecords,
    check_unique,
    class_names,
    iterate_records,
    join_columns,
)
from kbert.data.labelled.parquet_file import is_parquet, read_parquet
from kbert.data.labelled.table_format import NO_COLUMNS, TableFormat, TableLayout, TableRow
from kbert.data.labelled.text_lines import (
    WAY_TO_QUOTE,
    Row,
    has_json_lines,
    is_comma_separated,
    read_json_lines,
    read_rows,
)
from kbert.io import printable
from kbert.io.wording import data_of, first_few, write_settings

Classes = Mapping[str, tuple[str, ...] | None]  # names of classes, by the lowercased column

_logger = logging.getLogger("kbert")


def read_table(
    table_format: TableFormat, data, name: str = "data", options: ColumnOptions = NO_OPTIONS
) -> LabelledRecords:
    """Return the records of a file or of rows in memory, in their order.

    Files are UTF-8; blank lines are ignored. `.json`, `.jsonl`: one object per line. `.csv`:
    columns between commas, with quotes as Python's csv reads them. Parquet is known by its first
    bytes. Else columns are between tabs, quoted or not (`read_rows`). `.csv` and tables between
    tabs may have a header (`is_header`); the log says so. A row in memory is a record, a dict by
    column, or what the format's `name_cells` knows. A tuple of two or three lists has the rows'
    columns, as in (texts, labels).

    Args:
        table_format: what the rows hold.
        data: a path; or rows, as `kbert.data.labelled.in_memory` takes them. A
            `datasets.ClassLabel` gives the names of numbered labels.
        name: the argument's name, for errors.
        options: which columns to read, and whether there is a header.

    Raises:
        ValueError: a row that is no record, with file and line; a file without records.
    """
    table = _open_table(table_format, data, name, options)
    records, layout = _make_records(table, table_format)
    if isinstance(data, (str, os.PathLike)) and not records:
        raise ValueError(f"{data}: {table_format.expected}, got none")

    records.multi_hot = options.multi_hot
    if layout.names:
        records.has_header = layout.has_header
        records.columns = layout.columns.name(layout.names)
        records.labels = layout.class_names
    if records:
        table_format.finish(records, layout, options)
    return records


def begins_with_header(line: Row, table_format: TableFormat, options: ColumnOptions) -> bool:
    """Return whether a file's first line is a header (`is_header`); the log says so."""
    if not is_header(line, table_format, options):
        return False
    location, names = line
    _logger.warning("%s: read as a header: %s", location, ", ".join(names))
    return True


def is_header(line: Row, table_format: TableFormat, options: ColumnOptions) -> bool:
    """Return whether a file's first line is a header, by this line alone.

    The user's options decide first. A line without a known name of a column is an example. Of the
    others, one that names the needed columns is a header, and one whose last cell can only be a
    label is an example; a line that is both, or neither, raises a ValueError.
    """
    location, cells = line
    if options.no_header:
        return False
    if options.names or table_format.number_columns is None:
        return True
    lower = [cell.strip().lower() for cell in cells]
    if table_format.names.isdisjoint(name for name in lower if name):
        return False

    names_columns = _names_columns(line, table_format, options)
    last_cell = cells[-1].strip()
    has_label = table_format.is_label(last_cell, options.known_labels)
    if names_columns == has_label:
        raise ValueError(
            f"{location}: {', '.join(cells)[:80]!r} may be a header or an example. If it is an "
            f"example, give {write_settings(no_header=True)}. If it is a header, "
            f"{table_format.say_how_to_name()}"
        )
    return names_columns


def _names_columns(line: Row, table_format: TableFormat, options: ColumnOptions) -> bool:
    """Return whether a line names all columns that are needed."""
    location, names = line
    try:
        table_format.find_columns(names, location, options)
    except ValueError:
        return False
    return True


def check_width(cells: Sequence[str], names: Sequence[str], location: str) -> None:
    """Raise a ValueError for a row with another number of columns than the first."""
    if len(cells) != len(names):
        way = WAY_TO_QUOTE if is_comma_separated(Path(data_of(location))) else ""
        raise ValueError(
            f"{location}: expected {len(names)} columns as before, got {len(cells)}{way}"
        )


def _open_table(
    table_format: TableFormat, data, name: str, options: ColumnOptions
) -> Iterator[TableRow]:
    """Return the rows of a file or of data in memory, each with its columns."""
    if not isinstance(data, (str, os.PathLike)):
        is_row = functools.partial(_is_row, table_format, options)
        joined = join_columns(data, name, is_row, table_format.most_cells)
        objects = iterate_records(joined, name)
        return _divide_objects(objects, table_format, options, _find_classes(data))
    if is_parquet(data):
        return _open_table(table_format, read_parquet(data), str(data), options)

    path = Path(data)
    if has_json_lines(path):
        return _divide_objects(read_json_lines(path), table_format, options, {})
    if table_format.divide_text is not None:
        return table_format.divide_text(path, options)
    return _divide_lines(path, table_format, options)


def _divide_lines(
    path: Path, table_format: TableFormat, options: ColumnOptions
) -> Iterator[TableRow]:
    """Yield the rows of a file's lines, without its header."""
    lines: Sequence[Row] = read_rows(path)
    if not lines:
        return

    if begins_with_header(lines[0], table_format, options):
        (location, names), *lines = lines
        check_unique(names, location)
        layout = _name_columns(names, location, table_format, options, has_header=True)
    else:
        layout = _number_columns(lines, table_format, options)
    if not lines:
        raise ValueError(f"{path}: expected examples below the header, got none")

    for location, cells in lines:
        check_width(cells, layout.names, location)
        yield TableRow(location, layout, cells)


def _divide_objects(
    objects: Iterable[tuple[str, object]],
    table_format: TableFormat,
    options: ColumnOptions,
    classes: Classes,
) -> Iterator[TableRow]:
    """Yield the rows of objects, each with the names of its columns, or a record.

    Log the first row in which other columns are read than in the rows before.
    """
    layouts: dict[tuple, TableLayout] = {}
    read: list[dict] = []
    for location, row in objects:
        if isinstance(row, table_format.record):
            yield TableRow(location, record=row)
            continue

        names, cells = _name_cells(row, table_format, location)
        is_tuple = isinstance(row, list) and len(row) == len(cells)
        key = (is_tuple, *names)
        if key not in layouts:
            if isinstance(row, dict):
                check_unique([str(name) for name in names], location)
            layout = _name_columns(names, location, table_format, options, classes=classes)
            layout = dataclasses.replace(layout, is_of_tuples=is_tuple)
            layouts[key] = layout
            _warn_of_other_columns(layout.columns.name(layout.names), read, location)
        yield TableRow(location, layouts[key], cells)


def _name_cells(row, table_format: TableFormat, location: str) -> tuple[tuple, Sequence]:
    """Return the names of a row's columns, and its cells; a ValueError if it is no row."""
    if isinstance(row, dict):
        return tuple(row), list(row.values())
    named = table_format.name_cells(row)
    if named is None:
        raise ValueError(f"{location}: {table_format.expected_row}, got {_describe(row)}")
    names, cells = named
    return tuple(names), cells


def _describe(row) -> str:
    """Return a row that cannot be read, cut; of what seems to be a column, say how to give it."""
    text = printable.cut(repr(row), 60)
    if not isinstance(row, list) or len(row) <= 3:
        return text
    return f"{text}. If this is a column, give a tuple of columns: (texts, labels)"


def _warn_of_other_columns(columns: dict, read: list[dict], location: str) -> None:
    """Log the first columns that differ from those read before, which are in `read`."""
    if len(read) == 1 and columns != read[0]:
        _logger.warning(
            "%s: rows have different columns: here %s, before %s",
            location,
            _list_columns(columns),
            _list_columns(read[0]),
        )
    if columns not in read:
        read.append(columns)


def _list_columns(columns: dict) -> str:
    """Return the names of the columns that are read."""
    names: list[str] = []
    for name in columns.values():
        if isinstance(name, list):
            names += name
        else:
            names.append(name)
    return ", ".join(names)[:80]


def _name_columns(
    names: Sequence,
    location: str,
    table_format: TableFormat,
    options: ColumnOptions,
    *,
    has_header: bool | None = None,
    classes: Classes | None = None,
) -> TableLayout:
    """Return the columns that a header or a row names; log those that are ignored."""
    columns = table_format.find_columns(names, location, options)
    class_names = None
    if classes and columns.label is not None:
        label_name = str(names[columns.label])
        class_names = classes.get(label_name.lower())

    read = columns.list_indices()
    ignored = []
    for index, cell in enumerate(names):
        name = str(cell)
        if index not in read and name.strip().lower() not in NUMBERS:
            ignored.append(name)
    if ignored:
        where = location if has_header else data_of(location)
        short_names = [printable.cut(name, 30) for name in ignored]
        listed = first_few(short_names, 8)
        _logger.warning("%s: these columns are ignored: %s", where, listed)
    names = options.name_labels(names, columns.labels)
    return TableLayout(names, columns, has_header, class_names)


def _number_columns(
    lines: Sequence[Row], table_format: TableFormat, options: ColumnOptions
) -> TableLayout:
    """Return the columns of lines without a header.

    A first line that is no example may be a header with names of its own: its error says what to do
    then.
    """
    location, first = lines[0]
    numbers = range(1, len(first) + 1)
    names = [str(number) for number in numbers]
    if table_format.number_columns is None:
        raise ValueError(f"{location}: {table_format.expected}: leave no_header out")
    if options.names:
        columns = table_format.find_columns(names, location, options)
    else:
        columns = table_format.number_columns(lines)

    layout = TableLayout(names, columns, has_header=False)
    try:
        table_format.make_record(TableRow(location, layout, first))
    except ValueError as error:
        if options.no_header:
            raise
        way = table_format.say_how_to_name()
        raise ValueError(f"{error}. If the line is a header, {way}") from None
    return layout


def _make_records(
    table: Iterable[TableRow], table_format: TableFormat
) -> tuple[LabelledRecords, TableLayout]:
    """Return the records of rows, and the columns of the first one; log how many are left out."""
    records = LabelledRecords()
    layout = NO_COLUMNS
    left_out = 0
    location = ""
    for row in table:
        location = row.location
        if not layout.names:
            layout = row.layout
        record = table_format.make_record(row) if row.record is None else row.record
        if record is None:
            left_out += 1
            continue
        first = records[0] if records else record
        table_format.check_record(record, first, location)
        records.append(record)

    if left_out:
        _logger.warning(
            "%s: %s of %s rows are left out: %s",
            data_of(location),
            f"{left_out:,}",
            f"{left_out + len(records):,}",
            table_format.left_out,
        )
    return records, layout


def _is_row(table_format: TableFormat, options: ColumnOptions, row: list) -> bool:
    """Return whether a list of cells can be read as a row in memory."""
    named = table_format.name_cells(row)
    if named is None:
        return False
    names, cells = named
    try:
        columns = table_format.find_columns(names, "a row", options)
        table_format.make_record(TableRow("a row", TableLayout(names, columns), cells))
    except ValueError:
        return False
    return True


def _find_classes(data) -> Classes:
    """Return the names of the classes that the columns of a `datasets.Dataset` number."""
    features = getattr(data, "features", None) or {}
    classes = {}
    for name, feature in features.items():
        classes[name.lower()] = class_names(feature)
    return classes
