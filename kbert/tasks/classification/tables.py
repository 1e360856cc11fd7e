"""The tables of classification, regression and several labels, each as one value."""

import dataclasses
import functools
import itertools
import logging
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import cast

from kbert.data.labelled.cells import is_number, parse_number
from kbert.data.labelled.columns import ColumnOptions, say_how_to_name, say_how_to_name_labels
from kbert.data.labelled.in_memory import LabelledRecords, label_of
from kbert.data.labelled.table_format import Columns, TableFormat, TableLayout, TableRow
from kbert.data.labelled.text_lines import Row
from kbert.io.wording import data_of, first_few, write_settings
from kbert.tasks.classification.label_cells import Cell, split_text
from kbert.tasks.classification.label_sets import LabelNames, read_label_sets
from kbert.tasks.classification.reading import (
    EXPECTED,
    EXPECTED_ROW,
    Labelled,
    find_columns,
    has_no_consensus,
    name_cells,
    number_columns,
    read_flags,
    read_texts,
    read_weight,
    refuse_weight,
    refuse_weights,
)

_FEW = 10  # examples: so few may have a label of their own each
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_WHOLE = re.compile(r"-?\d+(\.0+)?")

_logger = logging.getLogger("kbert")


# One label per text


def make_classified(row: TableRow) -> Labelled | None:
    """Return a text with its label: a text, a whole number or a truth value."""
    if has_no_consensus(row):
        return None
    refuse_weight(row)
    text, pair = read_texts(row)
    label = _read_one_flag(row) if row.layout.columns.labels else _read_class(row)
    return Labelled(text, label, pair, row.location, read_weight(row))


def _read_class(row: TableRow) -> str:
    column = cast(int, row.layout.columns.label)
    value, title = row.cells[column], row.layout.titles[column]
    if isinstance(value, list):
        raise ValueError(
            f'{row.location}: "{title}" must be a text or a whole number, got {value!r:.60}. If a '
            "text may have several labels, take the task multilabel. If it has one label, give its "
            "name or number, or a column of 0 and 1 for each label: label_columns"
        )
    return label_of(value, title, row.location, row.layout.class_names)


def _read_one_flag(row: TableRow) -> str:
    labels = read_flags(row)
    if len(labels) != 1:
        got = ", ".join(labels) or "none"
        raise ValueError(
            f"{row.location}: one of the label columns must be 1, got {got}: for several labels, "
            "or none, take the task multilabel"
        )
    return labels[0]


def finish_classes(records: LabelledRecords, layout: TableLayout, options: ColumnOptions) -> None:
    """Name whole numbers that a program wrote as 1.0 like others, 1, unless a model knows 1.0.

    A column of numbers with holes in it is of floats. If there are numbers such as 1.5 too, all are
    left as they are. A ValueError says that the labels are probably no labels.
    """
    if layout.columns.labels:
        records.labels = _name_label_columns(layout)
        return

    labels = {record.label for record in records if isinstance(record.label, str)}
    numbers = {label for label in labels if _NUMBER.fullmatch(label)}
    whole = {label for label in numbers if _WHOLE.fullmatch(label)}
    if whole == numbers and not records.labels:
        renamed = whole.difference(options.known_labels)
        for index, record in enumerate(records):
            if record.label in renamed:
                digits, _, _ = record.label.partition(".")
                records[index] = record._replace(label=digits)

    labels_in_order = [record.label for record in records]
    refuse_weights(records, labels_in_order, layout, options)
    check_repeated_labels(records, labels_in_order, layout, options)
    warn_of_header(records, labels_in_order[:1], labels_in_order, layout, options)


# A number per text


def make_numbered(row: TableRow) -> Labelled | None:
    """Return a text with the number to predict."""
    if has_no_consensus(row):
        return None
    refuse_weight(row, labels_are_classes=False)
    text, pair = read_texts(row)
    number = _read_number(row)
    return Labelled(text, number, pair, row.location, read_weight(row))


def _read_number(row: TableRow) -> float:
    column = cast(int, row.layout.columns.label)
    value = row.cells[column]
    title = row.layout.titles[column]
    names = row.layout.class_names
    if names and _are_numbers(names):
        value = label_of(value, title, row.location, names)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f'{row.location}: "{title}" must be a number, got {value!r:.60}')
    number = parse_number(value)
    if number is None:
        raise ValueError(f"{row.location}: the label must be a number, got {str(value)!r:.60}")
    return number


def warn_of_class_names(
    records: LabelledRecords, layout: TableLayout, options: ColumnOptions
) -> None:
    """Log that the numbers to predict are names of classes."""
    if records.labels and _are_numbers(records.labels):
        _logger.warning(
            "%s: the numbers to predict are the names of the classes, %s",
            data_of(records[0].location),
            first_few(records.labels),
        )


def _are_numbers(class_names: Sequence[str]) -> bool:
    return all(parse_number(name) is not None for name in class_names)


# Any number of labels per text


def make_with_cell(row: TableRow) -> Labelled | None:
    """Return a text with its labels, or the cell: only all cells show how labels are written."""
    if has_no_consensus(row):
        return None
    refuse_weight(row)
    text, pair = read_texts(row)
    location = row.location
    column = row.layout.columns.label
    if column is None:
        flags = tuple(read_flags(row))
        return Labelled(text, flags, pair, location, read_weight(row))
    title = row.layout.titles[column]
    cell = Cell(row.cells[column], title, location)
    return Labelled(text, cell, pair, location, read_weight(row))


def finish_label_sets(
    records: LabelledRecords, layout: TableLayout, options: ColumnOptions
) -> None:
    """Read the label cells; a ValueError says that their labels are probably no labels."""
    if layout.columns.labels:
        records.labels = _name_label_columns(layout)
        return

    known = LabelNames(tuple(options.known_labels), records.labels, records.multi_hot)
    label_sets, all_names = read_label_sets([_get_cell(record) for record in records], known)
    for index, label_set in enumerate(label_sets):
        records[index] = records[index]._replace(label=label_set)
    records.multi_hot = all_names is not None
    records.labels = all_names or records.labels

    labels = list(itertools.chain.from_iterable(label_sets))
    refuse_weights(records, labels, layout, options)
    check_repeated_labels(records, labels, layout, options)
    if len(label_sets[0]) == 1:
        warn_of_header(records, label_sets[0], labels, layout, options)


def _get_cell(record: Labelled) -> Cell:
    """Return the label cell of a record as it is read, or of one that the user made."""
    if isinstance(record.label, Cell):
        return record.label
    return Cell(record.label, "label", record.location)


def number_columns_of_sets(lines: Sequence[Row]) -> Columns:
    """Return the columns; the last one may number the examples, as in GoEmotions' files."""
    if any(len(cells) != 3 for _, cells in lines):
        return number_columns(lines)
    are_numbered = all(re.fullmatch(r"\d+(,\d+)*", cells[1]) for _, cells in lines)
    ids = {cells[2] for _, cells in lines}
    if not are_numbered or 2 * len(ids) <= len(lines):
        return number_columns(lines)
    _logger.warning(
        "%s: the columns are read as text, labels, id, as GoEmotions has them", data_of(lines[0][0])
    )
    return Columns((0,), 1)


def has_known_label(cell: str, known_labels: Collection[str]) -> bool:
    """Return whether one of the labels in a cell is known."""
    return not {cell, *split_text(cell)}.isdisjoint(known_labels)


# What the tables share


def check_texts(record: Labelled, first: Labelled, location: str) -> None:
    """Raise a ValueError for a pair of texts among single texts, or the reverse."""
    if (record.pair is None) == (first.pair is None):
        return
    before, got = "a single text", "a pair of texts"
    if record.pair is None:
        before, got = got, before
    raise ValueError(
        f"{location}: expected {before} as before, got {got}: leave one of the two kinds out"
    )


def _name_label_columns(layout: TableLayout) -> tuple[str, ...]:
    names = [layout.names[column] for column in layout.columns.labels]
    return tuple(str(name).strip() for name in names)


def check_repeated_labels(
    records: LabelledRecords, labels: Sequence[str], layout: TableLayout, options: ColumnOptions
) -> None:
    """Refuse labels most of which occur once: they seem to be texts, or numbers to predict.

    Columns that the user named, and labels that the data or a model know, are not checked.
    """
    if not layout.names or options.names or options.known_labels or records.labels:
        return
    different = len(set(labels))
    if len(records) <= _FEW or 2 * different <= len(labels):
        return

    label = cast(int, layout.columns.label)
    columns = (*layout.columns.texts, label)
    used = [layout.names[column] for column in columns]
    are_numbers = all(re.fullmatch(r"-?[\d.]+", label) for label in labels)
    regress = ". If the labels are amounts, take the task regress" if are_numbers else ""
    raise ValueError(
        f"{data_of(records[0].location)}: the labels must repeat, got {different:,} different "
        f"ones in {len(records):,} examples. If text and label are swapped, give "
        f"{_order_columns(layout, used)}. If they are right, give "
        f"{_name_options(used, layout)}{regress}"
    )


def _order_columns(layout: TableLayout, names: Sequence[str]) -> str:
    """Say how to give columns of which the first one, not the last one, has the labels."""
    if not layout.is_of_tuples:
        return _name_options([*names[1:], names[0]], layout)
    texts = "texts" if len(names) == 2 else "texts, second_texts"
    return f"the texts first, as in ({texts}, labels)"


def _name_options(names: Sequence[str], layout: TableLayout) -> str:
    """Return the settings that name the columns of a text, a second text if any, and a label."""
    text, *pair, label = [str(name)[:40] for name in names]
    second = pair[0] if pair else None
    no_header = True if layout.has_header is False else None
    return write_settings(
        text_column=text, text_pair_column=second, label_column=label, no_header=no_header
    )


def warn_of_header(
    records: LabelledRecords,
    labels_of_first: Collection[str],
    labels: Sequence[str],
    layout: TableLayout,
    options: ColumnOptions,
) -> None:
    """Log that line 1 may be a header with names of its own: its labels occur nowhere else."""
    is_checked = layout.has_header is False and not (options.no_header or options.known_labels)
    if not is_checked or len(records) <= _FEW or not labels_of_first:
        return

    counts = Counter(labels)
    is_alone = all(counts[label] == 1 for label in labels_of_first)
    further = [count for label, count in counts.items() if label not in labels_of_first]
    if not is_alone or not further or min(further) == 1:
        return

    first = records[0]
    texts = [first.text]
    if first.pair is not None:
        texts.append(first.pair)
    header_layout = dataclasses.replace(layout, has_header=True)
    _logger.warning(
        "%s: the label %s occurs in this line alone. If the line is a header, give %s",
        first.location,
        " and ".join(repr(label) for label in labels_of_first),
        _name_options([*texts, *labels_of_first], header_layout),
    )


CLASSES = TableFormat(
    record=Labelled,
    expected=EXPECTED,
    expected_row=EXPECTED_ROW,
    find_columns=functools.partial(find_columns, say_how_to_name=say_how_to_name_labels),
    number_columns=number_columns,
    name_cells=name_cells,
    make_record=make_classified,
    left_out="their gold_label is '-' (no consensus)",
    check_record=check_texts,
    finish=finish_classes,
    say_how_to_name=say_how_to_name_labels,
)
NUMBERS = dataclasses.replace(
    CLASSES,
    expected="expected a text, or two, and a number",
    find_columns=functools.partial(find_columns, first_labels=("score",)),
    make_record=make_numbered,
    is_label=is_number,
    finish=warn_of_class_names,
    say_how_to_name=say_how_to_name,
)
LABEL_SETS = dataclasses.replace(
    CLASSES,
    expected="expected a text, or two, and labels between commas",
    number_columns=number_columns_of_sets,
    make_record=make_with_cell,
    is_label=has_known_label,
    finish=finish_label_sets,
)
