"""Tasks whose records are lines of a table, JSON lines, or rows in memory."""

import contextlib
import logging
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import (
    LABELS,
    MORE_LABELS,
    NAMES,
    NO_OPTIONS,
    NUMBERS,
    ColumnOptions,
)
from kbert.data.labelled.text_lines import Row, has_json_lines, read_json_lines, read_rows
from kbert.io.wording import data_of, first_few
from kbert.tasks.finetuning.task import Task

_logger = logging.getLogger("kbert")
_LONGEST_NAME = 3  # words; more are a text, and no name of a column
_RARE = 0.2  # share of examples with a label of their own: above it one more proves nothing


class Columns(NamedTuple):
    """Indices of the columns of texts; of a label, labels, a score, choices, a weight, if any."""

    texts: tuple[int, ...]
    label: int | None = None
    score: int | None = None
    choices: tuple[int, ...] = ()  # one column of lists, or one per choice
    labels: tuple[int, ...] = ()  # columns of 0 and 1, one per label
    weight: int | None = None

    def __contains__(self, column: object) -> bool:
        """Return whether a column is read."""
        single = self.label, self.score, self.weight
        return column in (*self.texts, *single, *self.choices, *self.labels)

    def name(self, names: Sequence) -> dict[str, Any]:
        """Return the columns' names by what they hold, for a run's settings and its log."""
        numbers = {"texts": self.texts, "choices": self.choices, "labels": self.labels}
        named: dict[str, Any] = {
            role: [str(names[n]) for n in indices] for role, indices in numbers.items() if indices
        }
        roles = {"label": self.label, "score": self.score, "weight": self.weight}
        for role, index in roles.items():
            if index is not None:
                named[role] = str(names[index])
        return named


class TableTask(Task):
    """A task that says which columns its data have, and what the record of a row is.

    Attributes:
        record: the class of the records. Rows in memory may be records already.
        expected: what a file should hold, for errors.
        expected_row: what a row in memory should be, for errors.
        names: the known names of columns, lowercased.
        few: minimum number of examples below the first line for a label of its own to raise doubt.
    """

    record: type
    expected: str
    expected_row: str
    names: Collection[str] = NAMES
    few: int = 5  # fewer prove nothing

    def read(
        self, path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS
    ) -> in_memory.LabelledRecords:
        """Return the records of a file, UTF-8; blank lines are ignored.

        `.json`, `.jsonl`: one object per line. `.csv`: columns between commas, with quotes as
        Python's csv reads them. Else columns between tabs, quoted or not (`read_rows`). A first
        line with names of columns is a header (`find_header`); a warning says so.
        """
        path = Path(path)
        if has_json_lines(path):
            records = self._convert_rows(read_json_lines(path), options)
        else:
            records = self.read_lines(path, options)
        if not records:
            raise ValueError(f"{path}: {self.describe(path)}, got none")
        return records

    def take(
        self, data, name: str, options: ColumnOptions = NO_OPTIONS
    ) -> in_memory.LabelledRecords:
        """Return the records of rows in memory; a `datasets.ClassLabel` gives its names.

        A row is a record, a dict by column, or a tuple that `name_cells` knows.
        """
        features = getattr(data, "features", None) or {}
        class_names = {key.lower(): in_memory.class_names(each) for key, each in features.items()}
        return self._convert_rows(in_memory.iterate_records(data, name), options, class_names)

    def describe(self, path: Path) -> str:
        return self.expected

    def split_labels(self, cell: str) -> Collection[str]:
        """Return the labels in a line's last cell, which tell a header from an example."""
        return (cell,)

    def last_column(self, lines: Sequence[Row]) -> str:
        """Return what the last column holds, "label" or "text_pair"."""
        return "label"

    def suggest_label_columns(self, cells: Sequence[str], lines: Sequence[Row]) -> str:
        """Return the option that makes a header of columns of 0 and 1, where they seem to be some.

        It follows others in an error; "": none.
        """
        return ""

    def find_header(self, lines: Sequence[Row], options: ColumnOptions) -> bool:
        """Return whether the first line is a header; a warning says so.

        A line is a header if every cell is a known name, or if it names all columns that are
        needed. It is an example if its last cell is a label that occurs again below, unless another
        cell is a known name. An example that could be a header with other names logs a warning. A
        ValueError says how to decide where the line may be either.
        """
        if options.no_header:
            return False
        (location, first), *others = lines
        cells = [cell.strip() for cell in first]
        is_header = bool(options.names) or self._judge_header(location, cells, others, options)
        if is_header:
            _logger.warning("%s: read as a header: %s", location, ", ".join(first))
        return is_header

    def _judge_header(
        self, location: str, cells: list[str], others: Sequence[Row], options: ColumnOptions
    ) -> bool:
        """Return whether a first line is a header, by its names and by the labels below it."""
        lower = [cell.lower() for cell in cells]
        known = [cell in self.names and cell != "" for cell in lower]
        own = set(self.split_labels(cells[-1]))
        counts = Counter(
            label for _, line in others for label in self.split_labels(line[-1].strip())
        )
        occurs_again = not own or not own.isdisjoint({*counts, *options.known_labels})
        if not occurs_again:
            if set(lower) <= {*self.names} and not set(lower) <= {*NUMBERS}:
                return True
            with contextlib.suppress(ValueError):
                self.find_columns(cells, location, options)
                return True
        way = _suggest_options(cells, others, self.last_column([(location, cells), *others]))
        way += self.suggest_label_columns(cells, others)
        if occurs_again and not any(known[:-1]):
            if known[-1]:
                _logger.warning(
                    "%s: taken as a text with the label %r. If it is a header, %s",
                    *(location, cells[-1], way),
                )
            return False
        single = sum(count == 1 for count in counts.values())  # labels that occur once
        is_odd_one_out = len(others) >= self.few and single + 1 <= _RARE * len(others)
        if not any(known) and not is_odd_one_out:
            is_common = 0 < len(others) < self.few or 2 * single < len(others)
            if is_common and _are_like_names(cells):
                _logger.warning(
                    "%s: %r is read as an example. If it is a header, %s. If it is an example, "
                    "give --no-header (no_header=True)",
                    *(location, ", ".join(cells)[:80], way),
                )
            return False
        raise ValueError(
            f"{location}: {', '.join(cells)[:80]!r} may be a header or an example. If it is a "
            f"header, {way}. If it is an example, give --no-header (no_header=True)"
        )

    def find_columns(self, names: Sequence, location: str, options: ColumnOptions) -> Any:
        """Return the `Columns` of a header or a dict; a ValueError if some are missing."""

    def find_unnamed(self, lines: Sequence[Row], location: str) -> Any:
        """Return the `Columns` of lines without a header."""

    def name_cells(self, row, location: str) -> tuple[Sequence, list]:
        """Return the names of the columns, and the cells, of a row in memory."""
        if not isinstance(row, dict):
            raise ValueError(f"{location}: {self.expected_row}, got {row!r:.60}")
        return tuple(row), list(row.values())

    def make_record(
        self,
        cells: Sequence,
        names: Sequence,
        columns: Columns,
        location: str,
        class_names: Sequence[str] | None = None,
    ) -> Any:
        """Return the record of a row's cells; `class_names` are the names of numbered labels."""

    def check_cells(self, cells: Sequence[str], columns: Columns, location: str) -> None:
        """Raise a ValueError for a line of a table that is no record."""

    def leaves_out(self, cells: Sequence, names: Sequence, columns: Columns) -> bool:
        """Return whether a row is no example, by what its layout means by it."""
        return False

    def finish_records(
        self, records: in_memory.LabelledRecords, names: Sequence, columns: Any, known: Sequence
    ) -> in_memory.LabelledRecords:
        """Return records that depend on all rows: how their labels are written.

        `known` are the labels of the model or of the training data; (): unknown.
        """
        return records

    def check_record(self, record: Any, first: Any, location: str) -> None:
        """Raise a ValueError for a record that does not go with the first one."""

    def check_records(
        self, records: Sequence, names: Sequence, columns: Any, options: ColumnOptions, way: str
    ) -> None:
        """Raise a ValueError for records that are probably wrong.

        `way` are the options that, beside columns' names, decide how the data are read.
        """

    def read_lines(self, path: Path, options: ColumnOptions) -> in_memory.LabelledRecords:
        """Return the records of a table's lines."""
        records, lines = _begin_records(options), read_rows(path)
        if not lines:
            return records
        location, first = lines[0]
        names = [str(number) for number in range(1, len(first) + 1)]
        if has_header := self.find_header(lines, options):
            names, lines = first, lines[1:]
        if has_header:
            in_memory.check_unique(names, location)
        if has_header or options.names:
            columns = self.find_columns(names, location, options)
        else:
            columns = self.find_unnamed(lines, location)
        if has_header:
            names = options.name_labels(names, columns.labels)
            _warn_of_ignored(names, columns, location)
            if not lines:
                raise ValueError(f"{path}: expected examples below the header, got none")
        left_out = 0
        for location, cells in lines:
            check_width(cells, names, location)
            if self.leaves_out(cells, names, columns):
                left_out += 1
                continue
            self.check_cells(cells, columns, location)
            records.append(self.make_record(cells, names, columns, location))
        _log_left_out(left_out, len(lines), str(path))
        records = self.finish_records(records, names, columns, tuple(options.known_labels))
        records.columns = columns.name(names)
        self.check_records(records, names, columns, options, "" if has_header else " --no-header")
        return records

    def _convert_rows(
        self,
        rows: Iterable[tuple[str, object]],
        options: ColumnOptions,
        class_names: Mapping[str, tuple[str, ...] | None] | None = None,
    ) -> in_memory.LabelledRecords:
        """Return the records of (location, row); `class_names` go by the column's name."""
        records = _begin_records(options)
        layouts: dict[tuple, tuple[Columns, Sequence]] = {}
        location, left_out = "", 0
        for location, row in rows:
            record = row
            if not isinstance(row, self.record):
                names, cells = self.name_cells(row, location)
                names = tuple(names)
                if names not in layouts:
                    if isinstance(row, dict):
                        in_memory.check_unique(list(map(str, names)), location)
                    columns = self.find_columns(names, location, options)
                    layouts[names] = columns, options.name_labels(names, columns.labels)
                    _warn_of_ignored(names, columns, location)
                columns, names = layouts[names]
                if self.leaves_out(cells, names, columns):
                    left_out += 1
                    continue
                if class_names and columns.label is not None:
                    records.labels = class_names.get(str(names[columns.label]).lower())
                record = self.make_record(cells, names, columns, location, records.labels)
            self.check_record(record, records[0] if records else record, location)
            records.append(record)
        _log_left_out(left_out, left_out + len(records), data_of(location))
        known = tuple(options.known_labels)
        if not layouts:  # all rows are records already
            return self.finish_records(records, (), Columns(()), known)

        columns, names = next(iter(layouts.values()))
        records = self.finish_records(records, names, columns, known)
        records.columns = columns.name(names)
        self.check_records(records, names, columns, options, "")
        return records


def _begin_records(options: ColumnOptions) -> in_memory.LabelledRecords:
    """Return no records yet, which know how the labels of the training data are written."""
    records = in_memory.LabelledRecords()
    records.multi_hot = options.multi_hot
    return records


def _log_left_out(count: int, total: int, source: str) -> None:
    if count:
        _logger.warning(
            "%s: %s of %s rows are left out: their gold_label is '-' (no consensus)",
            *(source, f"{count:,}", f"{total:,}"),
        )


def _warn_of_ignored(names: Sequence, columns: Columns, location: str) -> None:
    """Report the columns that nothing is read from, except those that number the examples."""
    others = [str(name) for index, name in enumerate(names) if index not in columns]
    ignored = [name for name in others if name.strip().lower() not in NUMBERS]
    if ignored:
        _logger.warning("%s: these columns are ignored: %s", location, ", ".join(ignored)[:80])


def check_width(cells: Sequence[str], names: Sequence[str], location: str) -> None:
    """Raise a ValueError for a row with another number of columns than the first."""
    if len(cells) != len(names):
        raise ValueError(f"{location}: expected {len(names)} columns as before, got {len(cells)}")


def number_label(label: str, numbers: Mapping[str, int], location: str) -> int:
    """Return the number of a label; a ValueError, with file and line, if the model lacks it."""
    if label not in numbers:
        known = first_few(list(numbers), 10)
        raise ValueError(f"{location}: label must be one of the model's {known}, got {label!r}")
    return numbers[label]


def parse_number(value) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, str) and "_" in value:  # which Python takes for 1000 in 1_000
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def are_row_numbers(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column count its rows, from 0 or 1 on, as an index does."""
    counts = [str(number) for number in range(len(cells) + 1)]
    return len(cells) > 1 and list(cells) in (counts[:-1], counts[1:])


def split_number(cell: str) -> tuple[str]:
    """Return one label for all numbers, to tell a header from them; other text is a label."""
    return (cell,) if parse_number(cell) is None else ("a number",)


def _are_like_names(cells: Sequence[str]) -> bool:
    """Return whether these could be names of columns: short, different, no number."""
    return 1 < len({*cells}) == len(cells) and all(
        0 < len(cell.split()) <= _LONGEST_NAME and not re.search(r"[.!?]$|^-?[\d.]+$", cell)
        for cell in cells
    )


def _suggest_options(cells: Sequence[str], lines: Sequence[Row], last: str) -> str:
    """Return the options that make a line a header; the longest column is taken for the text."""
    label = next((cell for cell in cells if cell.lower() in (*LABELS, *MORE_LABELS)), cells[-1])
    texts = [cell for cell in cells if cell != label and cell.lower() not in NUMBERS] or cells
    lengths = [sum(len(line[n]) for _, line in lines if n < len(line)) for n in range(len(cells))]
    longest = max(texts, key=lambda cell: lengths[cells.index(cell)])
    text = next((cell for cell in texts if cell.lower() in NAMES), longest)
    text, label = (shlex.quote(cell[:40]) for cell in (text, label))
    return (
        f"name its columns: --text-column {text} --{last.replace('_', '-')}-column {label} "
        f"(in Python text_column and {last}_column)"
    )
