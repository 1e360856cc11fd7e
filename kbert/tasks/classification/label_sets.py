"""Several labels per text: sets of labels, in the ways in which tables and rows have them.

A cell is a list of labels or their numbers (`kbert.tasks.classification.label_cells`), or a row of
0 and 1 with one number for each label (multi-hot), as scikit-learn and transformers have.
"""

import itertools
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kbert.data.labelled.cells import parse_number
from kbert.data.labelled.in_memory import label_of
from kbert.io.wording import data_of, name_setting
from kbert.tasks.classification.label_cells import Cell, split_cells

_logger = logging.getLogger("kbert")
_FLAGS = {
    **dict.fromkeys(("0", "0.", "0.0", "false"), False),
    **dict.fromkeys(("1", "1.", "1.0", "true"), True),
}


class LabelNames(NamedTuple):
    """Names of all labels, from elsewhere than the cells.

    Attributes:
        known: of the model or of the training data, in order; (): unknown.
        classes: names that the data give for the numbers in the cells; None: none.
        multi_hot: whether the cells of the training data are rows of 0 and 1; None: unknown.
    """

    known: Sequence[str] = ()
    classes: Sequence[str] | None = None
    multi_hot: bool | None = None

    @property
    def all(self) -> Sequence[str]:
        return self.classes or self.known


def read_label_sets(
    cells: Sequence[Cell], names: LabelNames
) -> tuple[list[tuple[str, ...]], tuple[str, ...] | None]:
    """Return the labels of each cell, and the names of all labels if the cells are 0 and 1.

    Raises:
        ValueError: a cell that may be read in several ways, or in none.
    """
    lists = split_cells(cells, names.known)
    count = _count_flags(lists, names)
    if count is None:
        _refuse_flags(cells, lists, names)
        return _read_names(cells, lists, names), None

    flag_lists = [values for values in lists if values]
    if names.multi_hot is None and _may_be_numbers(flag_lists, names):
        _logger.warning(
            "%s: %.60r is read as a 0 or 1 for each label, not as the numbers of two labels",
            data_of(cells[0].location),
            cells[0].value,
        )
    labels = tuple(names.all)
    if not labels:
        labels = tuple(str(number) for number in range(count))
    flags = [_read_flags(values, labels) for values in lists]
    return flags, labels


def _read_flags(values: list, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels with a 1 in a row of 0 and 1, which may be empty."""
    if not values:
        return ()
    pairs = zip(labels, values, strict=True)
    return tuple(label for label, value in pairs if _flag_of(value))


def _read_names(
    cells: Sequence[Cell], lists: Sequence[list], names: LabelNames
) -> list[tuple[str, ...]]:
    """Return the labels of lists of labels or of their numbers."""
    if not names.all:
        _refuse_numbers(cells, lists)
    label_sets = []
    for cell, values in zip(cells, lists, strict=True):
        labels = tuple(
            label_of(value, cell.column, cell.location, names.classes) for value in values
        )
        if _repeats(labels):
            raise ValueError(
                f'{cell.location}: "{cell.column}" must have each label once, got '
                f"{cell.value!r:.60}. If it has a number for each label, write only 0 and 1"
            )
        label_sets.append(labels)

    if not names.all and _differ_in_order_only(label_sets):
        raise ValueError(
            f'{data_of(cells[0].location)}: "{cells[0].column}" must not have all labels in each '
            f"row, got {cells[0].value!r:.60} and the same in another order. If it says yes or no "
            "for each label, write 1 and 0"
        )
    return label_sets


def are_flags(values: Iterable) -> bool:
    """Return whether all values are 0 or 1."""
    return all(_flag_of(value) is not None for value in values)


def read_flag(value, column: str, location: str) -> bool:
    """Return whether a cell of a column of 0 and 1 is 1; raise a ValueError for another value."""
    flag = _flag_of(value)
    if flag is None:
        raise ValueError(
            f'{location}: "{column}" must be 0 or 1, got {value!r:.60}: leave out lines whose '
            "labels are unknown"
        )
    return flag


def _flag_of(value) -> bool | None:
    """Return whether a value is 1, and None if it is neither 0 nor 1."""
    if isinstance(value, str):
        return _FLAGS.get(value.strip().lower())
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    return None


def _count_flags(lists: Sequence[list], names: LabelNames) -> int | None:
    """Return the number of labels if each list has a 0 or a 1 for each of them; else None."""
    flag_lists = [values for values in lists if values]
    widths = {len(values) for values in flag_lists}
    have_flags = all(are_flags(values) for values in flag_lists)
    if len(widths) != 1 or not have_flags:
        return None
    (count,) = widths
    if count == 1 or (names.all and count != len(names.all)):
        return None
    if names.multi_hot is False and _may_be_numbers(flag_lists, names):
        return None
    return count


def _may_be_numbers(lists: Sequence[list], names: LabelNames) -> bool:
    """Return whether rows of 0 and 1 may as well be the numbers of both of two labels."""
    are_numbered = names.classes is not None or set(names.known) == {"0", "1"}
    return are_numbered and not any(_repeats(values) for values in lists)


def _refuse_flags(cells: Sequence[Cell], lists: Sequence[list], names: LabelNames) -> None:
    """Raise a ValueError for rows of 0 and 1 whose numbers are not those of the labels.

    Such rows repeat a number, which sets of labels do not, or have floats or truth values. A single
    0 or 1 in each row says whether a text has one label.
    """
    if not all(are_flags(values) for values in lists):
        return
    if not names.all and all(len(values) == 1 for values in lists):
        where = data_of(cells[0].location)
        column = cells[0].column
        raise ValueError(
            f'{where}: "{column}" must have any number of labels, got a single 0 or 1 in each row. '
            "If there is such a column for each label, name them: "
            f"{name_setting('label_columns')}. If there is one label alone, take the task classify"
        )

    count = len(names.all) or "one for each of two labels or more"
    for cell, values in zip(cells, lists, strict=True):
        has_flags = any(isinstance(value, (bool, float)) for value in values)
        if has_flags or _repeats(values):
            raise ValueError(
                f'{cell.location}: "{cell.column}" looks like a 0 or 1 for each label, but then '
                f"all rows must have as many numbers, {count}, got {cell.value!r:.60}"
            )


def _refuse_numbers(cells: Sequence[Cell], lists: Sequence[list]) -> None:
    """Raise a ValueError for numbers of which some number no label: below 0, or probabilities.

    Rows that all have as many numbers have one for each label.
    """
    all_values = itertools.chain.from_iterable(lists)
    if any(parse_number(value) is None for value in all_values):
        return

    widths = {len(values) for values in lists if values}
    has_columns = len(widths) == 1 and widths != {1}
    for cell, values in zip(cells, lists, strict=True):
        if not all(_may_number_a_label(value, has_columns) for value in values):
            raise ValueError(
                f'{cell.location}: "{cell.column}" must have labels, or a 0 or 1 for each label, '
                f"got {cell.value!r:.60}: leave out rows with unknown labels"
            )


def _may_number_a_label(value, is_in_column: bool) -> bool:
    """Return whether a number is not below 0, and whole where it is one of those of a column."""
    number = parse_number(value)
    return number is not None and number >= 0 and (number.is_integer() or not is_in_column)


def _differ_in_order_only(label_sets: Sequence[tuple[str, ...]]) -> bool:
    """Return whether all texts have the same labels, in orders that must mean something."""
    different = {labels for labels in label_sets if labels}
    unordered = {frozenset(labels) for labels in different}
    return len(different) > 1 and len(unordered) == 1


def _repeats(values: Sequence) -> bool:
    return len(set(values)) < len(values)
