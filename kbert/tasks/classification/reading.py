"""Labelled texts, or pairs of them, from files or from memory: text, [second text,] label."""

import logging
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import (
    NO_OPTIONS,
    ColumnOptions,
    Columns,
    columns_of,
    left_out,
)
from kbert.data.labelled.data_warnings import warn_of_cut_texts, warn_of_missing_labels
from kbert.data.labelled.header import Row, is_header
from kbert.data.labelled.length_buckets import Examples
from kbert.data.labelled.text_lines import (
    between_commas,
    between_tabs,
    hint_of_separator,
    numbered_objects,
)
from kbert.graph.names import CLASSIFIER
from kbert.io.wording import data_of

_logger = logging.getLogger("kbert")
_PORTION = 1 << 20  # characters that are tokenized at a time: about 300 bytes of memory each
_LONGEST = 1 << 18  # characters of a text that are read: no model has so many tokens
_FEW = 10  # examples: so few may have a label of their own each


class Labelled(NamedTuple):
    """A text with its label.

    Attributes:
        text: the text.
        label: as it stands in the file; a float for numbers, a tuple for several.
        pair: the second text, where there is one.
        place: file and line, for errors.
    """

    text: str
    label: Any
    pair: str | None = None
    place: str = "a record"


class LabelKind(NamedTuple):
    """A kind of label.

    Attributes:
        of_cell: reads a label from a file's cell and its place.
        of_value: reads a label from a value in memory, its column, its place, and the labels'
            names.
        in_words: a description of a label, for errors.
        labels_in: returns the labels in a file's cell; it distinguishes a header from an example.
        may_be_empty: whether an empty cell is a label.
    """

    of_cell: Callable[[str, str], Any]
    of_value: Callable[[object, str, str, Sequence[str] | None], Any]
    in_words: str
    labels_in: Callable[[str], Collection[str]]
    may_be_empty: bool = False


ONE_LABEL = LabelKind(lambda cell, place: cell, in_memory.label_of, "a label", lambda cell: (cell,))


def read_labelled(
    path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS, kind: LabelKind = ONE_LABEL
) -> list[Labelled]:
    """Return the records of a file, UTF-8.

    `.json`, `.jsonl`: an object a line, {"text": …, "pair": …, "label": …}; the label is a text, a
    whole number or a truth value, "pair" may be missing. `.csv`: two or three columns between
    commas, with quotes as Python's csv reads them. Else a line each, columns between tabs, no
    quotes: a text holds neither tabs nor ends of line. Blank lines are left out.

    The label is the last column, unless the first line is a header (`is_header`), such as sentence,
    label. Its columns may stand in any order; a warning says that it was taken as a header.

    Args:
        path: the file.
        options: which columns to read, and whether there is a header.
        kind: what a label is.

    Raises:
        OSError: it cannot be read.
        ValueError: not UTF-8, nothing in it, a line with another number of columns than the first
            or with an empty one, a first line that may be a header or not; with the line's number.
            Labels that hardly repeat (see `_check_labels_repeat`).
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending in (".json", ".jsonl"):
        rows = ((f"{path}, line {number}", row) for number, row in numbered_objects(path))
        records: list[Labelled] = _from_rows(rows, kind, options)
        expected = 'objects {"text": …, "label": …}'
    elif ending == ".csv":
        records = _from_cells(path, between_commas(path), "commas", kind, options)
        expected = f"lines of a text, a comma and {kind.in_words}"
    else:
        records = _from_cells(path, between_tabs(path), "tabs", kind, options)
        expected = f"lines of a text, a tab and {kind.in_words}"
    if not records:
        raise ValueError(f"{path}: expected {expected}, got none")
    return records


def given_labelled(
    data, name: str, options: ColumnOptions = NO_OPTIONS, kind: LabelKind = ONE_LABEL
) -> in_memory.LabelledRecords:
    """Return the records of rows in memory.

    A row is a `Labelled`; (text, label); (text, second text, label); ((text, second text), label);
    a dict with the columns that `kbert.data.labelled.columns` knows; or (such a dict, label), as
    tf.data has it. Labels are texts, whole numbers or truth values; a `datasets.ClassLabel`
    gives its names.

    Args:
        data: what `kbert.data.labelled.in_memory.rows_of` takes.
        name: of the argument, for errors.
        options: which columns to read.
        kind: what a label is.

    Raises:
        ValueError: a row that is none of these, with its place; labels that hardly repeat.
    """
    features = getattr(data, "features", None) or {}
    known = {key.lower(): in_memory.class_names(data, key) for key in features}
    return _from_rows(in_memory.rows_of(data, name), kind, options, known)


def _from_cells(
    path: Path,
    numbered: Iterable[tuple[int, list[str]]],
    between: str,
    kind: LabelKind,
    options: ColumnOptions,
) -> list[Labelled]:
    """Return the records of a table's lines."""
    rows: list[Row] = [
        (f"{path}, line {number}", [cell.strip() for cell in cells]) for number, cells in numbered
    ]
    if not rows:
        return []
    place, first = rows[0]
    if hint := hint_of_separator(rows):
        raise ValueError(f"{place}: expected columns between {between}, got 1 column: {hint}")
    header = is_header(
        rows, options, kind.labels_in, columns_in=lambda names: columns_of(names, place)
    )
    if header:
        columns = _header(first, place, options)
        del rows[0]
    else:
        columns = _unnamed(first, place, between, options)
    records = [_record(cells, columns, len(first), place, kind) for place, cells in rows]
    if kind is ONE_LABEL:
        names = first if header else [str(n + 1) for n in range(len(first))]
        _check_labels_repeat(records, names, columns, options, "" if header else " --no-header")
    return records


def _check_labels_repeat(
    records: Sequence[Labelled],
    names: Sequence[str],
    columns: Columns,
    options: ColumnOptions,
    more: str = "",
) -> None:
    """Refuse labels most of which occur once: they seem to be texts, or numbers to be predicted.

    Columns that the user named, and labels that the data or a model know, are not checked.

    Args:
        records: what was read.
        names: of the columns.
        columns: what was taken for the text and the label.
        options: what the user says of the columns.
        more: a further option that goes with these names.
    """
    different = len({record.label for record in records})
    known = options.named or options.known_labels or getattr(records, "labels", None)
    if known or len(records) <= _FEW or 2 * different <= len(records):
        return
    read = [names[place] for place in columns if place is not None]
    numbers = all(re.fullmatch(r"-?[\d.]+", record.label) for record in records)
    regress = ". If the labels are amounts, take the task regress" if numbers else ""
    raise ValueError(
        f"{data_of(records[0].place)}: the labels must repeat, got {different:,} different ones in "
        f"{len(records):,} examples. If text and label are swapped, give "
        f"{_way_to_name([*read[1:], read[0]])}{more}. If they are right, give "
        f"{_way_to_name(read)}{more}{regress}"
    )


def _way_to_name(names: Sequence[str]) -> str:
    """Return the options that name the columns of a text, a second text if any, and a label."""
    text, *pair, label = (shlex.quote(str(name)[:40]) for name in names)
    second = f" --text-pair-column {pair[0]}" if pair else ""
    return f"--text-column {text}{second} --label-column {label}"


def _record(
    cells: Sequence[str], columns: Columns, count: int, place: str, kind: LabelKind
) -> Labelled:
    """Return a line's record; a ValueError where it has other columns, or an empty one."""
    if len(cells) != count:
        raise ValueError(f"{place}: expected {count} columns as before, got {len(cells)}")
    needed = columns[:2] if kind.may_be_empty else columns
    if empty := [column for column in needed if column is not None and not cells[column]]:
        raise ValueError(
            f"{place}: column {empty[0] + 1} of {count} is empty: fill it in, or leave the line out"
        )
    pair = None if columns.pair is None else cells[columns.pair]
    return Labelled(cells[columns.text], kind.of_cell(cells[columns.label], place), pair, place)


def _header(cells: Sequence[str], place: str, options: ColumnOptions) -> Columns:
    """Return the columns that a header names; say that it is one."""
    columns = columns_of(cells, place, options)
    _logger.warning("%s: read as a header: %s", place, ", ".join(cells))
    _warn_of_left_out(cells, columns, place)
    return columns


def _unnamed(cells: Sequence[str], place: str, between: str, options: ColumnOptions) -> Columns:
    """Return the columns of a file without header: by their numbers, or the label is the last."""
    if options.named:
        return columns_of([str(n + 1) for n in range(len(cells))], place, options)
    if len(cells) not in (2, 3):
        raise ValueError(
            f"{place}: expected a text, or two, and a label, between {between}, got {len(cells)} "
            f"column{'s' if len(cells) > 1 else ''}"
        )
    if len(cells) == 3:
        _logger.warning(
            "%s: the columns are read as text, second text, label. If the first is no text, give "
            "--text-column 2 --label-column 3 --no-header",
            data_of(place),
        )
    return Columns(0, 1 if len(cells) == 3 else None, len(cells) - 1)


def _warn_of_left_out(names: Sequence[str], columns: Columns, place: str) -> None:
    if others := left_out(names, columns):
        _logger.warning("%s: these columns are ignored: %s", place, ", ".join(others)[:80])


def _from_rows(
    rows: Iterable[tuple[str, object]],
    kind: LabelKind,
    options: ColumnOptions,
    known: Mapping | None = None,
) -> in_memory.LabelledRecords:
    """Return the records of (place, row); `known` has a column's label names, by its name."""
    records = in_memory.LabelledRecords()
    layouts: dict[tuple, Columns] = {}
    for place, row in rows:
        if isinstance(row, Labelled):
            records.append(row)
            continue
        row = _as_dict(row, place)
        names = tuple(row)
        if names not in layouts:
            layouts[names] = columns_of(names, place, options)
            _warn_of_left_out(names, layouts[names], place)
        columns = layouts[names]
        text, label = names[columns.text], names[columns.label]
        pair = None if columns.pair is None else names[columns.pair]
        classes = (known or {}).get(str(label).lower())
        records.labels = classes
        records.append(
            Labelled(
                in_memory.text_of(row[text], text, place),
                kind.of_value(row[label], label, place, classes),
                None
                if pair is None or row[pair] is None
                else in_memory.text_of(row[pair], pair, place),
                place,
            )
        )
    if kind is ONE_LABEL and layouts:
        names, columns = next(iter(layouts.items()))
        _check_labels_repeat(records, names, columns, options)
    return records


def _as_dict(row, place: str) -> dict:
    """Return a row by its columns' names."""
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
        f"{place}: expected (text, label), (text, second text, label) or a dict with the keys "
        f"text and label, got {got}"
    )


def labels_of(records: Sequence[Labelled]) -> tuple[str, ...]:
    """Return the labels of the training data.

    In the order that the data say (`datasets.ClassLabel`), else whole numbers by their value, else
    sorted as text. A warning counts labels that look like none.

    Raises:
        ValueError: fewer than two labels.
    """
    found = {record.label for record in records}
    warn_of_missing_labels(record.label for record in records)
    told = getattr(records, "labels", None) or ()
    if len(found) < 2:
        raise ValueError(
            f"{data_of(records[0].place)} must have two labels or more, got only "
            f"{records[0].label!r}"
        )
    return in_order(found, told)


def in_order(found: set[str], told: Sequence[str] | None) -> tuple[str, ...]:
    """Labels as the data say them, else whole numbers by their value, else sorted as text."""
    if found <= set(told or ()):
        return tuple(told or ())
    numbers = all(label.isdecimal() and label.isascii() for label in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))


def encode_labelled(
    records: Sequence[Labelled], tokenizer, labels: Sequence[str], max_length: int
) -> Examples:
    """Return the records as a classifier reads them; a warning counts those that were cut.

    Raises:
        ValueError: a label that is not among `labels`; pairs and single texts mixed.
    """
    numbers = {label: number for number, label in enumerate(labels)}
    found = [number_of(record.label, record, numbers) for record in records]
    return encode_texts(records, tokenizer, max_length, found)


def check_labels(records: Sequence[Labelled], labels: Sequence[str]) -> None:
    """Raise a ValueError, with file and line, for a label that is not among `labels`."""
    numbers = {label: number for number, label in enumerate(labels)}
    for record in records:
        for label in (record.label,) if isinstance(record.label, str) else record.label:
            number_of(label, record, numbers)


def number_of(label: str, record: Labelled, numbers: Mapping[str, int]) -> int:
    """Return a label's number; a ValueError, with file and line, for one that the model has not."""
    if label not in numbers:
        raise ValueError(
            f"{record.place}: label must be one of the model's {_listed(list(numbers))}, got "
            f"{label!r}"
        )
    return numbers[label]


def encode_texts(
    records: Sequence[Labelled], tokenizer, max_length: int, labels: Sequence
) -> Examples:
    """Return the texts of records, with labels as `Examples` has them; a warning counts those cut.

    Raises:
        ValueError: pairs and single texts mixed.
    """
    pairs = [record.pair for record in records if record.pair is not None]
    if pairs and len(pairs) < len(records):
        raise ValueError(
            "records must all be pairs of texts, or none, got both: leave one of the two kinds out"
        )
    ids, segments, cut = [], [], 0
    for portion in _portions(records):
        texts = [record.text[:_LONGEST] for record in portion]
        second = [record.pair[:_LONGEST] for record in portion if record.pair is not None]
        for encoding in tokenizer.encode_batch(texts, second or None, max_length=max_length):
            ids.append(encoding.ids)
            segments.append(encoding.segment_ids)
            cut += encoding.truncated
    warn_of_cut_texts(cut, len(records), max_length)
    return Examples(ids, segments, {CLASSIFIER: labels})


def _portions(records: Sequence[Labelled]) -> Iterator[list[Labelled]]:
    """Yield the records, so many at a time that what Rust keeps of their texts is bounded."""
    portion, size = [], 0
    for record in records:
        portion.append(record)
        size += len(record.text) + len(record.pair or "")
        if size >= _PORTION:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _listed(labels: Sequence[str]) -> str:
    more = f" … ({len(labels)})" if len(labels) > 10 else ""
    return ", ".join(labels[:10]) + more
