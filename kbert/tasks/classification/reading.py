"""Labelled texts, or pairs of them, from files or from memory: text, [second text,] label."""

import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import ColumnOptions, Columns, find_columns
from kbert.data.labelled.data_warnings import warn_of_missing_labels
from kbert.data.labelled.header import Row
from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import CLASSIFIER
from kbert.io.wording import data_of
from kbert.tasks.encoding import encode_in_portions
from kbert.tasks.record_reader import RecordReader

_logger = logging.getLogger("kbert")
_FEW = 10  # examples: so few may have a label of their own each


class Labelled(NamedTuple):
    """A text with its label.

    Attributes:
        label: as it is in the file; a float for numbers, a tuple for several labels.
        pair: the second text, if there is one.
        location: file and line, for errors.
    """

    text: str
    label: Any
    pair: str | None = None
    location: str = "a record"


class LabelledReader(RecordReader):
    """Reads texts, or pairs of them, with one label each.

    An object or a dict has the columns that `kbert.data.labelled.columns` knows, such as text, pair
    and label; the pair may be missing. Without a header, a table's last column is the label. Tuples
    in memory are (text, label), (text, second text, label), ((text, second text), label) or
    (dict, label), as tf.data has them.

    Attributes:
        description: a description of a label, for errors.
        may_be_empty: whether an empty cell is a label.
    """

    record = Labelled
    description = "a label"
    may_be_empty = False

    def parse_label(
        self, value, column: str, location: str, class_names: Sequence[str] | None
    ) -> Any:
        """Return the label of a cell: a text, a whole number or a truth value."""
        return in_memory.label_of(value, column, location, class_names)

    def describe(self, path: Path) -> str:
        if path.suffix.lower() in (".json", ".jsonl"):
            return 'expected objects {"text": …, "label": …}'
        return f"expected lines of a text, a {_separator_of(path)} and {self.description}"

    def find_columns(self, names: Sequence, location: str, options: ColumnOptions) -> Columns:
        return find_columns(names, location, options)

    def find_unnamed(self, lines: Sequence[Row], location: str) -> Columns:
        count = len(lines[0][1])
        if count not in (2, 3):
            between = _separator_of(Path(data_of(location)))
            raise ValueError(
                f"{location}: expected a text, or two, and a label, between {between}s, got "
                f"{count} column{'s' if count > 1 else ''}"
            )
        if count == 3:
            _logger.warning(
                "%s: the columns are read as text, second text, label. If the first is no text, "
                "give --text-column 2 --label-column 3 --no-header",
                data_of(location),
            )
        return Columns(tuple(range(count - 1)), count - 1)

    def name_cells(self, row, location: str) -> tuple[Sequence, list]:
        if isinstance(row, list) and len(row) == 2 and isinstance(row[0], dict):
            row = row[0] | {"label": row[1]}
        if isinstance(row, dict):
            return tuple(row), list(row.values())
        if isinstance(row, list) and len(row) == 2 and isinstance(row[0], list):
            row = [*row[0], row[1]] if len(row[0]) == 2 else row
        if isinstance(row, list) and len(row) in (2, 3):
            return ("text", "pair", "label") if len(row) == 3 else ("text", "label"), row
        got = f"{len(row)} values" if isinstance(row, list) else repr(row)[:60]
        raise ValueError(
            f"{location}: expected (text, label), (text, second text, label) or a dict with the "
            f"keys text and label, got {got}"
        )

    def make_record(
        self, cells, names, columns: Columns, location: str, class_names=None
    ) -> Labelled:
        column = cast(int, columns.label)
        label = self.parse_label(cells[column], str(names[column]), location, class_names)
        text, *pair = (
            in_memory.text_of(cells[n], str(names[n]), location)
            for n in columns.texts
            if n == columns.texts[0] or cells[n] is not None
        )
        return Labelled(text, label, pair[0] if pair else None, location)

    def check_cells(self, cells: Sequence[str], columns: Columns, location: str) -> None:
        for column in (*columns.texts, *(() if self.may_be_empty else (columns.label,))):
            if not cells[column]:
                raise ValueError(
                    f"{location}: column {column + 1} of {len(cells)} is empty: fill it in, or "
                    "leave the line out"
                )

    def check_records(self, records, names, columns: Columns, options, way: str) -> None:
        """Refuse labels most of which occur once: they seem to be texts, or numbers to predict.

        Columns that the user named, and labels that the data or a model know, are not checked.
        """
        different = len({record.label for record in records})
        if options.names or options.known_labels or records.labels:
            return
        if len(records) <= _FEW or 2 * different <= len(records):
            return
        used = [names[column] for column in (*columns.texts, columns.label)]
        are_numbers = all(re.fullmatch(r"-?[\d.]+", record.label) for record in records)
        regress = ". If the labels are amounts, take the task regress" if are_numbers else ""
        raise ValueError(
            f"{data_of(records[0].location)}: the labels must repeat, got {different:,} different "
            f"ones in {len(records):,} examples. If text and label are swapped, give "
            f"{_name_options([*used[1:], used[0]])}{way}. If they are right, give "
            f"{_name_options(used)}{way}{regress}"
        )


_READER = LabelledReader()
read_labelled, take_labelled = _READER.read, _READER.take


def _separator_of(path: Path) -> str:
    return "comma" if path.suffix.lower() == ".csv" else "tab"


def _name_options(names: Sequence[str]) -> str:
    """Return the options that name the columns of a text, a second text if any, and a label."""
    text, *pair, label = (shlex.quote(str(name)[:40]) for name in names)
    second = f" --text-pair-column {pair[0]}" if pair else ""
    return f"--text-column {text}{second} --label-column {label}"


def list_labels(records: Sequence[Labelled]) -> tuple[str, ...]:
    """Return the labels of the training data, see `sort_labels`.

    A warning counts labels that look like a marker for "no label".

    Raises:
        ValueError: fewer than two labels.
    """
    labels = {record.label for record in records}
    warn_of_missing_labels(record.label for record in records)
    if len(labels) < 2:
        raise ValueError(
            f"{data_of(records[0].location)} must have two labels or more, got only "
            f"{records[0].label!r}"
        )
    return sort_labels(labels, getattr(records, "labels", None))


def sort_labels(labels: set[str], class_names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the data's class names if they have all labels, else the labels in order.

    Whole numbers are sorted by value, other labels as text.
    """
    if labels <= set(class_names or ()):
        return tuple(class_names or ())
    are_numbers = all(label.isdecimal() and label.isascii() for label in labels)
    return tuple(sorted(labels, key=int) if are_numbers else sorted(labels))


def encode_labelled(
    records: Sequence[Labelled], tokenizer, labels: Sequence[str], max_length: int
) -> Examples:
    """Encode records for a classifier; a warning counts the texts that were truncated.

    Raises:
        ValueError: a label that is not among `labels`; pairs and single texts mixed.
    """
    ids = number_labels(labels)
    numbers = [find_label(record.label, record, ids) for record in records]
    return encode_texts(records, tokenizer, max_length, numbers)


def check_labels(records: Sequence[Labelled], labels: Sequence[str]) -> None:
    """Raise a ValueError, with file and line, for a label that is not among `labels`."""
    ids = number_labels(labels)
    for record in records:
        for label in (record.label,) if isinstance(record.label, str) else record.label:
            find_label(label, record, ids)


def number_labels(labels: Sequence[str]) -> dict[str, int]:
    """Return the index of each label."""
    return {label: number for number, label in enumerate(labels)}


def find_label(label: str, record: Labelled, ids: Mapping[str, int]) -> int:
    """Return a label's index; a ValueError, with file and line, if the model does not have it."""
    if label not in ids:
        more = f" … ({len(ids)})" if len(ids) > 10 else ""
        raise ValueError(
            f"{record.location}: label must be one of the model's {', '.join(list(ids)[:10])}{more}"
            f", got {label!r}"
        )
    return ids[label]


def encode_texts(
    records: Sequence[Labelled], tokenizer, max_length: int, labels: Sequence
) -> Examples:
    """Encode the texts of records; a warning counts the texts that were truncated.

    Raises:
        ValueError: pairs and single texts mixed.
    """
    pairs = sum(record.pair is not None for record in records)
    if 0 < pairs < len(records):
        raise ValueError(
            "records must all be pairs of texts, or none, got both: leave one of the two kinds out"
        )
    second = [record.pair for record in records if record.pair is not None]
    texts = [record.text for record in records]
    ids, segments = encode_in_portions(texts, second or None, tokenizer, max_length)
    return Examples(ids, segments, {CLASSIFIER: labels})
