"""Labelled texts, or pairs of them, from files or from memory: text, [second text,] label."""

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import (
    LABELS,
    MORE_LABELS,
    MORE_TEXTS,
    PAIRS,
    TEXTS,
    WAY_TO_NAME,
    ColumnOptions,
)
from kbert.data.labelled.length_buckets import Examples
from kbert.data.labelled.text_lines import Row, has_json_lines, is_comma_separated
from kbert.graph.names import CLASSIFIER
from kbert.io.wording import data_of
from kbert.tasks.classification.label_sets import are_flags, read_flag
from kbert.tasks.encoding import encode_in_portions
from kbert.tasks.table_task import Columns, TableTask, are_row_numbers, number_label, parse_number

_logger = logging.getLogger("kbert")


class Labelled(NamedTuple):
    """A text with its label.

    Attributes:
        label: as it is in the file; a float for numbers, a tuple for several labels.
        pair: the second text, if there is one.
        location: file and line, for errors.
        weight: of the example in the loss.
    """

    text: str
    label: Any
    pair: str | None = None
    location: str = "a record"
    weight: float = 1.0


class LabelledTask(TableTask):
    """A task with a label, or several, or a number for each text or pair of texts.

    An object or a dict has the columns that `kbert.data.labelled.columns` knows, such as text, pair
    and label; the pair may be missing. Without a header, a table's last column is the label. Tuples
    in memory are (text, label), (text, second text, label), ((text, second text), label) or
    (dict, label), as tf.data has them.

    Attributes:
        description: a description of a label, for errors.
        may_be_empty: whether an empty cell is a label.
        first_labels: names of columns of labels that go before all others.
        way_to_name_labels: how to name columns of 0 and 1, for errors.
    """

    record = Labelled
    takes_sample_weights = True
    description = "a label"
    may_be_empty = False
    first_labels: Sequence[str] = ()
    way_to_name_labels = ""

    def parse_label(
        self, value, column: str, location: str, class_names: Sequence[str] | None
    ) -> Any:
        """Return the label of a cell: a text, a whole number or a truth value."""
        return in_memory.label_of(value, column, location, class_names)

    def join_labels(self, labels: Sequence[str], location: str) -> Any:
        """Return the label of a row in which the columns of these labels are 1."""

    def suggest_label_columns(self, cells: Sequence[str], lines: Sequence[Row]) -> str:
        columns = zip(*(row for _, row in lines if len(row) == len(cells)), strict=True)
        named = [name for name, column in zip(cells, columns, strict=False) if are_flags(column)]
        if not self.takes_label_columns or len(named) < 2:
            return ""
        listed = shlex.quote(",".join(named)[:80])
        return f", or its columns of 0 and 1: --label-columns {listed} (label_columns)"

    def leaves_out(self, cells: Sequence, names: Sequence, columns: Columns) -> bool:
        """Return whether a row of SNLI's or MultiNLI's layout is without a label."""
        if columns.label is None or "-" not in cells:
            return False
        lower = [str(name).strip().lower() for name in names]
        if lower[columns.label] not in ("label", "gold_label") or "gold_label" not in lower:
            return False
        return cells[lower.index("gold_label")] == "-"

    def finish_records(self, records, names, columns, known) -> in_memory.LabelledRecords:
        if columns.labels:
            records.labels = tuple(str(names[n]).strip() for n in columns.labels)
        return records

    def describe(self, path: Path) -> str:
        if has_json_lines(path):
            return 'expected objects {"text": …, "label": …}'
        return f"expected lines of a text, a {_separator_of(path)} and {self.description}"

    def find_columns(self, names: Sequence, location: str, options: ColumnOptions) -> Columns:
        """Return the columns of the texts and the label; "text" and "label" go first."""
        roles = options.rename(names, location)
        label_columns = options.find_labels(names, location)

        def find_first(*groups: Sequence[str]) -> list[str]:
            matches = ([name for name in group if name in roles] for group in groups)
            return next(filter(None, matches), [])

        texts: list[tuple[str, ...]] = [pair for pair in PAIRS if set(pair) <= set(roles)]
        texts = texts or [(name,) for name in find_first(TEXTS, MORE_TEXTS)]
        labels = find_first(self.first_labels, LABELS, MORE_LABELS)
        texts = [columns for columns in texts if "text" in columns] or texts
        if "text" in roles and "text" not in texts[0]:
            texts = [("text",)]
        labels = labels[:1] if "label" in labels else labels
        if len(texts) != 1 or len(labels) != (0 if label_columns else 1):
            listed = ", ".join(map(str, names))
            raise ValueError(
                f"{location}: expected a column text (or text and pair) and a column label, got "
                f"{listed[:80]}: {WAY_TO_NAME}{self.way_to_name_labels}"
            )
        indices = tuple(map(roles.index, texts[0]))
        weight = roles.index("weight") if options.weight is not None else None
        if label_columns:
            return Columns(indices, labels=label_columns, weight=weight)
        return Columns(indices, roles.index(labels[0]), weight=weight)

    def find_unnamed(self, lines: Sequence[Row], location: str) -> Columns:
        count = len(lines[0][1])
        if count not in (2, 3):
            between = _separator_of(Path(data_of(location)))
            raise ValueError(
                f"{location}: expected a text, or two, and a label, between {between}s, got "
                f"{count} column{'s' if count > 1 else ''}"
            )
        if count == 3 and all(parse_number(cells[1]) is not None for _, cells in lines):
            raise ValueError(
                f"{location}: expected a text, or two, and a label, got only numbers in column 2. "
                "If they are the labels, give --text-column 1 --label-column 2 --no-header (in "
                "Python text_column, label_column and no_header). If a number has a decimal comma, "
                "write a point"
            )
        if count == 3 and are_row_numbers([cells[0] for _, cells in lines]):
            raise ValueError(
                f"{location}: expected a text, or two, and a label, got only row numbers in column "
                "1: give --text-column 2 --label-column 3 --no-header (in Python text_column, "
                "label_column and no_header), or remove the column"
            )
        if count == 3:
            _logger.warning(
                "%s: the columns are read as text, second text, label. If the first is no text, "
                "give --text-column 2 --label-column 3 --no-header",
                data_of(location),
            )
        return Columns(tuple(range(count - 1)), count - 1)

    def name_cells(self, row, location: str) -> tuple[Sequence, list]:
        match row:
            case dict():
                return super().name_cells(row, location)
            case [dict(columns), label]:
                return super().name_cells(columns | {"label": label}, location)
            case [[text, pair], label] | [text, pair, label]:
                return ("text", "pair", "label"), [text, pair, label]
            case [text, label]:
                return ("text", "label"), [text, label]
        got = f"{len(row)} values" if isinstance(row, list) else repr(row)[:60]
        raise ValueError(
            f"{location}: expected (text, label), (text, second text, label) or a dict with the "
            f"keys text and label, got {got}"
        )

    def make_record(
        self, cells, names, columns: Columns, location: str, class_names=None
    ) -> Labelled:
        text, *pair = (
            in_memory.text_of(cells[n], str(names[n]), location)
            for n in columns.texts
            if n == columns.texts[0] or cells[n] is not None
        )
        if columns.labels:
            flags = {
                str(names[n]).strip(): read_flag(cells[n], str(names[n]), location)
                for n in columns.labels
            }
            label = self.join_labels([name for name, flag in flags.items() if flag], location)
        else:
            column = cast(int, columns.label)
            label = self.parse_label(cells[column], str(names[column]), location, class_names)
        weight = 1.0
        if columns.weight is not None:
            weight = parse_weight(cells[columns.weight], str(names[columns.weight]), location)
        return Labelled(text, label, pair[0] if pair else None, location, weight)

    def check_cells(self, cells: Sequence[str], columns: Columns, location: str) -> None:
        for column in columns.texts if self.may_be_empty else (*columns.texts, columns.label):
            if column is not None and not cells[column]:
                raise ValueError(
                    f"{location}: column {column + 1} of {len(cells)} is empty: fill it in, or "
                    "leave the line out"
                )

    def check_labels(self, records: Sequence[Labelled], labels: Sequence[str]) -> None:
        number_labels(records, labels)


def _separator_of(path: Path) -> str:
    return "comma" if is_comma_separated(path) else "tab"


def parse_weight(value, column: str, location: str) -> float:
    """Return the weight of an example; a ValueError if it is no number of at least 0."""
    weight = parse_number(value)
    if weight is None or weight < 0:
        raise ValueError(
            f'{location}: "{column}" must be a weight, a number of at least 0, got {value!r:.60}'
        )
    return weight


def sort_labels(labels: set[str], class_names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the data's class names if they have all labels, else the labels in order.

    Whole numbers are sorted by value, other labels as text.
    """
    if labels <= set(class_names or ()):
        return tuple(class_names or ())
    are_numbers = all(label.isdecimal() and label.isascii() for label in labels)
    return tuple(sorted(labels, key=int) if are_numbers else sorted(labels))


def number_labels(records: Sequence[Labelled], labels: Sequence[str]) -> list[list[int]]:
    """Return the indices of each record's labels in `labels`, which must have them."""
    ids = {label: number for number, label in enumerate(labels)}
    numbers = []
    for record in records:
        own = (record.label,) if isinstance(record.label, str) else record.label
        numbers.append([number_label(label, ids, record.location) for label in own])
    return numbers


def encode_texts(
    records: Sequence[Labelled], tokenizer, max_length: int, labels: Sequence
) -> Examples:
    """Encode the texts of records, all pairs or none; a warning counts the truncated ones."""
    pairs = sum(record.pair is not None for record in records)
    if 0 < pairs < len(records):
        raise ValueError(
            "records must all be pairs of texts, or none, got both: leave one of the two kinds out"
        )
    second = [record.pair for record in records if record.pair is not None]
    texts = [record.text for record in records]
    ids, segments = encode_in_portions(texts, second or None, tokenizer, max_length)
    weights = [record.weight for record in records]
    if set(weights) == {1.0}:
        weights = []
    elif not any(weights):
        raise ValueError(f"{data_of(records[0].location)} must have weights above 0, got only 0")
    return Examples(ids, segments, {CLASSIFIER: labels}, weights=weights)
