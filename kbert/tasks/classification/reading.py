"""Labelled texts, or pairs of them, from files or from memory: text, [second text,] label."""

import logging
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import NO_OPTIONS, ColumnOptions, Columns, find_columns
from kbert.data.labelled.data_warnings import warn_of_missing_labels
from kbert.data.labelled.header import Row
from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import CLASSIFIER
from kbert.io.wording import data_of
from kbert.tasks.encoding import encode_in_portions
from kbert.tasks.tables import check_width, read_objects, read_table, warn_of_ignored

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


class LabelKind(NamedTuple):
    """A kind of label.

    Attributes:
        parse_cell: returns the label of a file's cell and its location.
        parse_value: returns the label of a value in memory, its column, its location, and the
            labels' names.
        description: a description of a label, for errors.
        split: returns the labels in a file's cell, which distinguish a header from an example.
        may_be_empty: whether an empty cell is a label.
    """

    parse_cell: Callable[[str, str], Any]
    parse_value: Callable[[object, str, str, Sequence[str] | None], Any]
    description: str
    split: Callable[[str], Collection[str]]
    may_be_empty: bool = False


ONE_LABEL = LabelKind(
    lambda cell, location: cell, in_memory.label_of, "a label", lambda cell: (cell,)
)


def read_labelled(
    path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS, kind: LabelKind = ONE_LABEL
) -> list[Labelled]:
    """Return the records of a file, UTF-8.

    `.json`, `.jsonl`: one object per line, {"text": …, "pair": …, "label": …}; the label is a text,
    a whole number or a truth value, "pair" may be missing. `.csv`: two or three columns between
    commas, with quotes as Python's csv reads them. Else one example per line, columns between tabs,
    no quotes. Blank lines are ignored.

    The label is the last column, unless the first line is a header (`is_header`), such as sentence,
    label. Its columns may have any order; a warning says that it was read as a header.

    Raises:
        OSError: the file cannot be read.
        ValueError: not UTF-8, no example, a line with another number of columns than the first or
            with an empty one, a first line that may be a header or not; with the line's number.
            Labels that hardly repeat (see `_check_labels_repeat`).
    """
    path = Path(path)
    between = "commas" if path.suffix.lower() == ".csv" else "tabs"
    if objects := read_objects(path):
        records: list[Labelled] = _make_records(objects, kind, options)
        expected = 'objects {"text": …, "label": …}'
    else:
        records = _read_lines(path, between, kind, options)
        expected = f"lines of a text, a {between[:-1]} and {kind.description}"
    if not records:
        raise ValueError(f"{path}: expected {expected}, got none")
    return records


def take_labelled(
    data, name: str, options: ColumnOptions = NO_OPTIONS, kind: LabelKind = ONE_LABEL
) -> in_memory.LabelledRecords:
    """Return the records of rows in memory.

    A row is a `Labelled`; (text, label); (text, second text, label); ((text, second text), label);
    a dict with the columns that `kbert.data.labelled.columns` knows; or (such a dict, label), as
    tf.data has it. Labels are texts, whole numbers or truth values; a `datasets.ClassLabel`
    gives its names.

    Args:
        data: what `kbert.data.labelled.in_memory.iterate_records` takes.
        name: the argument's name, for errors.
        options: which columns to read.
        kind: the kind of the labels.

    Raises:
        ValueError: a row that is none of these, with its location; labels that hardly repeat.
    """
    features = getattr(data, "features", None) or {}
    class_names = {key.lower(): in_memory.class_names(data, key) for key in features}
    return _make_records(in_memory.iterate_records(data, name), kind, options, class_names)


def _read_lines(
    path: Path, between: str, kind: LabelKind, options: ColumnOptions
) -> list[Labelled]:
    """Return the records of a table's lines."""
    table = read_table(
        path,
        options,
        expected=f"expected columns between {between}",
        labels_in=kind.split,
        find_columns=find_columns,
        find_unnamed=lambda lines, location: _find_unnamed(lines, location, between),
    )
    if table is None:
        return []
    columns = table.columns
    needed = columns[:2] if kind.may_be_empty else columns
    records = []
    for location, cells in table.lines:
        check_width(cells, table.names, location)
        if empty := [column for column in needed if column is not None and not cells[column]]:
            raise ValueError(
                f"{location}: column {empty[0] + 1} of {len(cells)} is empty: fill it in, or leave "
                "the line out"
            )
        label = kind.parse_cell(cells[columns.label], location)
        pair = None if columns.pair is None else cells[columns.pair]
        records.append(Labelled(cells[columns.text], label, pair, location))
    if kind is ONE_LABEL:
        no_header = "" if table.has_header else " --no-header"
        _check_labels_repeat(records, table.names, columns, options, no_header)
    return records


def _find_unnamed(lines: Sequence[Row], location: str, between: str) -> Columns:
    """Return the columns of a file without header: the label is the last."""
    count = len(lines[0][1])
    if count not in (2, 3):
        raise ValueError(
            f"{location}: expected a text, or two, and a label, between {between}, got {count} "
            f"column{'s' if count > 1 else ''}"
        )
    if count == 3:
        _logger.warning(
            "%s: the columns are read as text, second text, label. If the first is no text, give "
            "--text-column 2 --label-column 3 --no-header",
            data_of(location),
        )
    return Columns(0, 1 if count == 3 else None, count - 1)


def _check_labels_repeat(
    records: Sequence[Labelled],
    names: Sequence[str],
    columns: Columns,
    options: ColumnOptions,
    more: str = "",
) -> None:
    """Refuse labels most of which occur once: they seem to be texts, or numbers to be predicted.

    Columns that the user named, and labels that the data or a model know, are not checked.
    """
    different = len({record.label for record in records})
    known = options.names or options.known_labels or getattr(records, "labels", None)
    if known or len(records) <= _FEW or 2 * different <= len(records):
        return
    used = [names[column] for column in columns if column is not None]
    are_numbers = all(re.fullmatch(r"-?[\d.]+", record.label) for record in records)
    regress = ". If the labels are amounts, take the task regress" if are_numbers else ""
    raise ValueError(
        f"{data_of(records[0].location)}: the labels must repeat, got {different:,} different ones "
        f"in {len(records):,} examples. If text and label are swapped, give "
        f"{_name_options([*used[1:], used[0]])}{more}. If they are right, give "
        f"{_name_options(used)}{more}{regress}"
    )


def _name_options(names: Sequence[str]) -> str:
    """Return the options that name the columns of a text, a second text if any, and a label."""
    text, *pair, label = (shlex.quote(str(name)[:40]) for name in names)
    second = f" --text-pair-column {pair[0]}" if pair else ""
    return f"--text-column {text}{second} --label-column {label}"


def _make_records(
    examples: Iterable[tuple[str, object]],
    kind: LabelKind,
    options: ColumnOptions,
    class_names: Mapping | None = None,
) -> in_memory.LabelledRecords:
    """Return the records of (location, row); `class_names` are a column's labels, by its name."""
    records = in_memory.LabelledRecords()
    layouts: dict[tuple, Columns] = {}
    for location, row in examples:
        if isinstance(row, Labelled):
            records.append(row)
            continue
        row = _convert_row(row, location)
        names = tuple(row)
        if names not in layouts:
            layouts[names] = find_columns(names, location, options)
            warn_of_ignored(names, layouts[names], location)
        text, pair, label = (None if n is None else names[n] for n in layouts[names])
        second = None if pair is None else row[pair]
        records.labels = (class_names or {}).get(str(label).lower())
        records.append(
            Labelled(
                in_memory.text_of(row[text], str(text), location),
                kind.parse_value(row[label], str(label), location, records.labels),
                None if second is None else in_memory.text_of(second, str(pair), location),
                location,
            )
        )
    if kind is ONE_LABEL and layouts:
        names, columns = next(iter(layouts.items()))
        _check_labels_repeat(records, names, columns, options)
    return records


def _convert_row(row, location: str) -> dict:
    """Return a row as a dict."""
    if isinstance(row, dict):
        return row
    if isinstance(row, list) and len(row) == 2 and isinstance(row[0], dict):
        return row[0] | {"label": row[1]}
    if isinstance(row, list) and len(row) == 2 and isinstance(row[0], list) and len(row[0]) == 2:
        row = [*row[0], row[1]]
    if isinstance(row, list) and len(row) in (2, 3):
        names = ("text", "pair", "label") if len(row) == 3 else ("text", "label")
        return dict(zip(names, row, strict=True))
    got = f"{len(row)} values" if isinstance(row, list) else repr(row)[:60]
    raise ValueError(
        f"{location}: expected (text, label), (text, second text, label) or a dict with the keys "
        f"text and label, got {got}"
    )


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
