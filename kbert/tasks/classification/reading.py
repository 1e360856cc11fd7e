"""Columns of labelled texts, or of pairs of them: text, [second text,] label.

An object or a dict has the columns that `kbert.data.labelled.columns` knows, such as text, pair and
label; the pair may be missing. Without a header, a table's last column is the label. Tuples in
memory are (text, label), (text, second text, label), ((text, second text), label) or (dict, label),
as tf.data has them.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from kbert.data.labelled.cells import are_row_numbers, parse_number
from kbert.data.labelled.columns import (
    LABELS,
    MORE_LABELS,
    MORE_TEXTS,
    PAIRS,
    TEXTS,
    ColumnOptions,
    say_how_to_name,
)
from kbert.data.labelled.in_memory import text_of
from kbert.data.labelled.table_format import Columns, TableLayout, TableRow
from kbert.data.labelled.text_lines import WAY_TO_QUOTE, Row, is_comma_separated
from kbert.io.wording import data_of, write_settings
from kbert.tasks.classification.label_sets import read_flag

_logger = logging.getLogger("kbert")
EXPECTED = "expected a text, or two, and a label"
EXPECTED_ROW = (
    "expected (text, label), (text, second text, label) or a dict with the keys text and label"
)


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


def find_columns(
    names: Sequence,
    location: str,
    options: ColumnOptions,
    *,
    first_labels: Sequence[str] = (),
    say_how_to_name: Callable[[], str] = say_how_to_name,
) -> Columns:
    """Return the columns of the texts and the label; "text" and "label" go first.

    Args:
        names, location, options: see `TableFormat`.
        first_labels: names of columns of labels that go before all others.
        say_how_to_name: says how to name columns, for errors.
    """
    roles = options.rename(names, location)
    label_columns = options.find_labels(names, location)

    texts = _find_texts(roles)
    labels = _find_first(roles, first_labels, LABELS, MORE_LABELS)
    if "label" in labels:
        labels = ["label"]
    num_labels = 0 if label_columns else 1
    if len(texts) != 1 or len(labels) != num_labels:
        listed = ", ".join(str(name) for name in names)
        raise ValueError(
            f"{location}: expected a column text (or text and pair) and a column label, got "
            f"{listed[:80]}: {say_how_to_name()}"
        )

    indices = tuple(roles.index(name) for name in texts[0])
    weight = roles.index("weight") if options.weight is not None else None
    if label_columns:
        return Columns(indices, labels=label_columns, weight=weight)
    return Columns(indices, roles.index(labels[0]), weight=weight)


def _find_texts(roles: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the columns of texts, in pairs where there are two; "text" goes first."""
    texts: list[tuple[str, ...]] = [pair for pair in PAIRS if set(pair) <= set(roles)]
    if not texts:
        texts = [(name,) for name in _find_first(roles, TEXTS, MORE_TEXTS)]
    with_text = [columns for columns in texts if "text" in columns]
    if with_text:
        return with_text
    return [("text",)] if "text" in roles else texts


def _find_first(roles: Sequence[str], *groups: Sequence[str]) -> list[str]:
    """Return the names of the first group of which there are columns."""
    for group in groups:
        named = [name for name in group if name in roles]
        if named:
            return named
    return []


def number_columns(lines: Sequence[Row]) -> Columns:
    """Return the columns of lines without a header; the last one is the label."""
    location, first = lines[0]
    count = len(first)
    if count not in (2, 3):
        _refuse_width(location, count)
    if count == 3:
        _refuse_numbers(lines)
        _logger.warning(
            "%s: the columns are read as text, second text, label. If the first is no text, "
            "give %s",
            data_of(location),
            _number_options("2", "3"),
        )
    return Columns(tuple(range(count - 1)), count - 1)


def _refuse_width(location: str, count: int) -> NoReturn:
    """Raise a ValueError for lines of fewer than two columns, or of more than three."""
    is_csv = is_comma_separated(Path(data_of(location)))
    separator = "commas" if is_csv else "tabs"
    error = f"{location}: {EXPECTED}, between {separator}, got {count} column"
    if count < 2:
        raise ValueError(error)

    settings = write_settings(text_column="1", label_column="2", no_header=True)
    error += f"s: name those to read, as the header does or by number, such as {settings}"
    if is_csv:
        error += f". Or{WAY_TO_QUOTE.removeprefix(':')}"
    raise ValueError(error)


def _refuse_numbers(lines: Sequence[Row]) -> None:
    """Raise a ValueError where one of two columns of texts has only numbers."""
    location, _ = lines[0]
    second_column = _list_column(lines, 1)
    if all(parse_number(cell) is not None for cell in second_column):
        raise ValueError(
            f"{location}: {EXPECTED}, got only numbers in column 2. If they are the labels, give "
            f"{_number_options('1', '2')}. If a number has a decimal comma, write a point"
        )
    if are_row_numbers(_list_column(lines, 0)):
        raise ValueError(
            f"{location}: {EXPECTED}, got only row numbers in column 1: give "
            f"{_number_options('2', '3')}, or remove the column"
        )


def _number_options(text: str, label: str) -> str:
    """Return the settings that number the columns of a file without a header."""
    return write_settings(text_column=text, label_column=label, no_header=True)


def _list_column(lines: Sequence[Row], column: int) -> list[str]:
    """Return the cells of a column; "" in a line that is too short."""
    column_cells = []
    for _, cells in lines:
        column_cells.append(cells[column] if column < len(cells) else "")
    return column_cells


def name_cells(row) -> tuple[Sequence, Sequence] | None:
    """Return the names and the cells of a tuple in memory."""
    match row:
        case [dict(columns), label]:
            named = columns | {"label": label}
            return tuple(named), list(named.values())
        case [[text, pair], label] | [text, pair, label]:
            return ("text", "pair", "label"), [text, pair, label]
        case [text, label]:
            return ("text", "label"), [text, label]
    return None


def refuse_weight(row: TableRow, *, labels_are_classes: bool = True) -> None:
    """Raise a ValueError for (text, label, weight), as Keras has it, in place of two texts.

    A tuple's second cell is then no text, or the last one, the number of a class, is a float.
    """
    layout = row.layout
    if not layout.is_of_tuples or len(layout.columns.texts) < 2:
        return
    _, second, last = row.cells
    if isinstance(last, str) or parse_number(last) is None:
        return
    is_weight = labels_are_classes and isinstance(last, float)
    if is_weight or not isinstance(second, str):
        raise ValueError(f"{row.location}: {_describe_weights(f'{last} after {second!r:.40}')}")


def refuse_weights(
    records: Sequence[Labelled],
    labels: Sequence[str],
    layout: TableLayout,
    options: ColumnOptions,
) -> None:
    """Raise a ValueError for tuples whose second texts repeat, as labels do, before numbers.

    If the labels are known, as a model's are, weights are refused as unknown labels.
    """
    if options.known_labels or options.text_pair is not None or not layout.is_of_tuples:
        return
    seconds = [record.pair for record in records]
    different = len(set(seconds))
    repeat = 2 <= different <= len(seconds) / 2
    if None in seconds or not repeat:
        return
    if all(parse_number(label) is not None for label in labels):
        got = f"{different} different second texts in {len(seconds):,} examples, before numbers"
        raise ValueError(f"{data_of(records[0].location)}: {_describe_weights(got)}")


def _describe_weights(got: str) -> str:
    return (
        f"a tuple of three must be texts, second texts, labels, got {got}. If the numbers are "
        "weights, give a dict {'text': …, 'label': …, 'weight': …} and "
        "sample_weight_column='weight'. If they are labels, give whole numbers in a dict "
        "{'text': …, 'pair': …, 'label': …}"
    )


def has_no_consensus(row: TableRow) -> bool:
    """Return whether a row of SNLI's or MultiNLI's layout is without a label."""
    label = row.layout.columns.label
    if label is None or "-" not in row.cells:
        return False
    names = [str(name).strip().lower() for name in row.layout.names]
    is_label = names[label] in ("label", "gold_label")
    if not is_label or "gold_label" not in names:
        return False
    return row.cells[names.index("gold_label")] == "-"


def read_texts(row: TableRow) -> tuple[str, str | None]:
    """Return the text of a row, and the second text if there is one."""
    titles, location = row.layout.titles, row.location
    first, *pair = row.layout.columns.texts
    text = text_of(row.cells[first], titles[first], location)
    if not pair:
        return text, None

    second = pair[0]
    if row.cells[second] is None:
        return text, None
    return text, text_of(row.cells[second], titles[second], location)


def read_weight(row: TableRow) -> float:
    """Return the weight of a row's example, 1 where there is no column of weights."""
    column = row.layout.columns.weight
    if column is None:
        return 1.0
    weight = parse_number(row.cells[column])
    if weight is None or weight < 0:
        raise ValueError(
            f'{row.location}: "{row.layout.titles[column]}" must be a weight, a number of at least '
            f"0, got {row.cells[column]!r:.60}"
        )
    return weight


def read_flags(row: TableRow) -> list[str]:
    """Return the labels whose columns of 0 and 1 have a 1."""
    labels = []
    for column in row.layout.columns.labels:
        name = str(row.layout.names[column]).strip()
        if read_flag(row.cells[column], name, row.location):
            labels.append(name)
    return labels
