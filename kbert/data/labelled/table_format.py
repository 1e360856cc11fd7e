"""The format of a table as data: its columns, the record of a row, what a label is.

Each task has one value of `TableFormat`, and `kbert.data.labelled.table_reading` reads every table
by it.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kbert.data.labelled.columns import NAMES, ColumnOptions, say_how_to_name
from kbert.data.labelled.in_memory import LabelledRecords
from kbert.data.labelled.text_lines import Row


@dataclass(frozen=True)
class Columns:
    """Indices of the columns that are read, by what they hold.

    Args:
        texts: the first text, and others.
        label, score: one column each; None: there is none.
        choices: a column of lists, or a column per choice.
        labels: columns of 0 and 1, one per label.
        weight: the column of the examples' weights; None: there is none.
    """

    texts: tuple[int, ...]
    label: int | None = None
    score: int | None = None
    choices: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()
    weight: int | None = None

    def list_indices(self) -> list[int]:
        """Return the indices of all columns that are read."""
        indices: list[int] = []
        for value in dataclasses.astuple(self):
            if isinstance(value, tuple):
                indices += value
            elif value is not None:
                indices.append(value)
        return indices

    def name(self, names: Sequence) -> dict[str, Any]:
        """Return the columns' names by what they hold, for a run's settings and its log."""
        named: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int):
                named[field.name] = str(names[value])
            elif value:
                named[field.name] = [str(names[index]) for index in value]
        return named


@dataclass(frozen=True)
class TableLayout:
    """The columns that rows share.

    Args:
        names: names of all columns, read or not; numbers from 1 on in a file without a header.
        columns: those that are read.
        has_header: whether a file has a header; None: each row names its columns.
        class_names: names of the classes that a column of labels numbers; None: unknown.
        is_of_tuples: whether the rows are tuples in memory with a cell for each column, without
            names: (text, second text, label), and not ((text, second text), label).
    """

    names: Sequence
    columns: Columns
    has_header: bool | None = None
    class_names: tuple[str, ...] | None = None
    is_of_tuples: bool = False

    @functools.cached_property
    def titles(self) -> list[str]:
        """The columns' names, or "column 1", …, for errors."""
        if self.has_header is False:
            numbers = range(1, len(self.names) + 1)
            return [f"column {number}" for number in numbers]
        return [str(name) for name in self.names]


NO_COLUMNS = TableLayout((), Columns(()))


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        location: file and line, or the index in memory, for errors.
        layout: its columns; `NO_COLUMNS` for a row in memory that is a record already.
        cells: the values of all columns.
        record: the row's record, if it is one already.
    """

    location: str
    layout: TableLayout = NO_COLUMNS
    cells: Sequence = ()
    record: Any = None


def is_known(cell: str, known_labels: Collection[str]) -> bool:
    """Return whether a cell is one of the known labels."""
    return cell in known_labels


def accept(record: Any, first: Any, location: str) -> None:
    """Accept every record."""


def keep(records: LabelledRecords, layout: TableLayout, options: ColumnOptions) -> None:
    """Leave records as they are."""


@dataclass(frozen=True)
class TableFormat:
    """What the tables of a task hold, whether they are files or rows in memory.

    Args:
        record: the class of the records. Rows in memory may be records already.
        expected: what a file should hold, for errors.
        expected_row: what a row in memory should be, for errors.
        find_columns: returns the `Columns` that names of columns give, in a header or a dict. It
            takes the names, the location and the user's options; a ValueError says which columns
            are missing.
        number_columns: returns the `Columns` of lines without a header. None: a header is needed.
        name_cells: returns the names of the columns, and the cells, of a row in memory that is no
            dict; None for a row that it does not know.
        make_record: returns the record of a row; None for a row that is no example. A ValueError,
            with the row's location, says what is wrong.
        names: known names of columns, lowercased: a first line with one of them may be a header.
        is_label: returns whether a cell can only be a label, and no column's name. It takes the
            cell, and the labels of the model or of the training data; (): unknown.
        left_out: why rows are no examples, for the log.
        check_record: raises a ValueError for a record that does not go with the first one. It takes
            both, and the location.
        finish: completes all records together, in place; a ValueError says that they are probably
            wrong. The layout is `NO_COLUMNS` if all rows were records already.
        divide_text: yields the rows of a text file in which a line is not a row; else None.
        say_how_to_name: says how to name columns, for errors.
        most_cells: number of cells up to which a list in a tuple may be a row, not a column.
    """

    record: type
    expected: str
    expected_row: str
    find_columns: Callable[[Sequence, str, ColumnOptions], Columns]
    number_columns: Callable[[Sequence[Row]], Columns] | None
    name_cells: Callable[[Any], tuple[Sequence, Sequence] | None]
    make_record: Callable[[TableRow], Any]
    names: frozenset[str] = NAMES
    is_label: Callable[[str, Collection[str]], bool] = is_known
    left_out: str = ""
    check_record: Callable[[Any, Any, str], None] = accept
    finish: Callable[[LabelledRecords, TableLayout, ColumnOptions], None] = keep
    divide_text: Callable[[Path, ColumnOptions], Iterator[TableRow]] | None = None
    say_how_to_name: Callable[[], str] = say_how_to_name
    most_cells: int = 3  # text, second text, label
