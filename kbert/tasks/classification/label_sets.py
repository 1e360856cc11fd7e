"""Several labels per text: sets of labels, in the ways in which tables and rows have them.

A cell is a list of labels or their numbers, the text of such a list, labels between separators, or
a row of 0 and 1 with one number for each label (multi-hot), as scikit-learn and transformers have.
"""

import ast
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kbert.data.labelled.in_memory import label_of
from kbert.io.wording import data_of

SEPARATORS = (",", "|", ";")

_logger = logging.getLogger("kbert")
_NUMBERS = re.compile(r"(?:[01]\.?0?|True|False)(?:\s+(?:[01]\.?0?|True|False))+")
_ADJACENT = re.compile(r"""['"]\s+['"]""")  # NumPy's texts; Python would join them
_FLAGS = {
    **dict.fromkeys(("0", "0.", "0.0", "false"), False),
    **dict.fromkeys(("1", "1.", "1.0", "true"), True),
}
_AS_LISTS = "or give lists in JSON lines"


class Cell(NamedTuple):
    """A label cell, with its column's name, and its file and line."""

    value: Any
    column: str
    location: str


def read_label_sets(
    cells: Sequence[Cell], known: Sequence[str]
) -> tuple[list[tuple[str, ...]], tuple[str, ...] | None]:
    """Return the labels of each cell, and the names of all labels if the cells are 0 and 1.

    Args:
        cells: as read; None and "" have no label, a tuple has its labels.
        known: labels of the model or of the training data, in order; (): unknown.

    Raises:
        ValueError: a cell that may be read in several ways, or in none.
    """
    lists = _split_cells(cells, known)
    if (count := _count_flags(lists, known)) is None:
        _refuse_flags(cells, lists, known)
        pairs = zip(cells, lists, strict=True)
        return [
            tuple(label_of(value, cell.column, cell.location) for value in values)
            for cell, values in pairs
        ], None
    names = tuple(known) or tuple(map(str, range(count)))
    label_sets = [
        tuple(name for name, value in zip(names, values, strict=True) if _flag_of(value))
        if values
        else ()
        for values in lists
    ]
    return label_sets, names


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


def split_text(text: str) -> list[str]:
    """Return the labels in a text, whatever separates them, to tell a header from an example."""
    labels = (label.strip(" '\"") for label in re.split(r"[,|;]", text.strip("[](){} ")))
    return [label for label in labels if label]


def _flag_of(value) -> bool | None:
    """Return whether a value is 1, and None if it is neither 0 nor 1."""
    if isinstance(value, str):
        return _FLAGS.get(value.strip().lower())
    return bool(value) if isinstance(value, (bool, int, float)) and value in (0, 1) else None


def _split_cells(cells: Sequence[Cell], known: Sequence[str]) -> list[list]:
    """Return the values in each cell."""
    lists = [_open_list(cell) for cell in cells]
    pairs = list(zip(cells, lists, strict=True))
    texts = [cell for cell, values in pairs if values is None]
    separator = _find_separator(texts, known) if texts else ","
    return [_split_text(cell, separator) if values is None else values for cell, values in pairs]


def _open_list(cell: Cell) -> list | None:
    """Return the values of a list or of the text of a list; None for another text."""
    if cell.value is None or cell.value == "":
        return []
    if isinstance(cell.value, (list, tuple)):
        return list(cell.value)
    if not isinstance(cell.value, str):
        raise ValueError(
            f'{cell.location}: "{cell.column}" must be a list of labels, got {cell.value!r:.60}'
        )
    text = cell.value.strip()
    if _NUMBERS.fullmatch(text):
        return [_flag_of(value) for value in text.split()]
    if text == "set()":  # as Python writes an empty one
        return []
    ends = text[:1] + text[-1:]
    return _parse_list(text, cell.location) if ends in ("[]", "{}", "()") else None


def _parse_list(text: str, location: str) -> list | None:
    """Return the values in the text of a list as Python, JSON or NumPy write it."""
    inner = text[1:-1].strip()
    if not inner:
        return []
    if _NUMBERS.fullmatch(inner):
        return [_flag_of(value) for value in inner.split()]
    for parse in (json.loads, ast.literal_eval):
        try:
            values = parse(text)
        except (MemoryError, RecursionError, SyntaxError, ValueError):
            continue
        is_list = isinstance(values, (list, tuple, set)) and not _ADJACENT.search(inner)
        if is_list and all(isinstance(value, (str, int, float)) for value in values):
            return sorted(values, key=str) if isinstance(values, set) else list(values)
    if text.startswith("("):  # a label may stand in parentheses
        return None
    raise ValueError(
        f"{location}: expected a list such as ['a', 'b'] or [0, 1], got {text!r:.60}: write the "
        f"labels between commas, {_AS_LISTS}"
    )


def _split_text(cell: Cell, separator: str) -> list[str]:
    labels = [label.strip() for label in cell.value.split(separator)]
    if "" in labels:
        between = "commas" if separator == "," else repr(separator)
        raise ValueError(
            f"{cell.location}: expected labels between {between}, got {cell.value!r:.60}"
        )
    return labels


def _find_separator(cells: Sequence[Cell], known: Sequence[str]) -> str:
    """Return what separates the labels of texts: commas, or what does so where there are none.

    A mark in the name of a known label separates nothing. Raise a ValueError for several marks.
    """
    candidates = []
    for separator in SEPARATORS:
        is_used = any(separator in cell.value for cell in cells)
        is_in_a_label = any(separator in label for label in known)
        if is_used and not is_in_a_label:
            candidates.append(separator)

    if candidates[:1] == [","]:
        texts = [text.strip() for cell in cells for text in cell.value.split(",")]
        others = [separator for separator in candidates[1:] if _separates(separator, texts)]
        candidates = [",", *others]

    if len(candidates) > 1:
        where = next(cell for cell in cells if candidates[1] in cell.value)
        listed = " and ".join(map(repr, candidates))
        raise ValueError(
            f"{where.location}: labels must have one separator, got {listed} in "
            f"{where.value!r:.60}: use one of them in the whole file, {_AS_LISTS}"
        )

    if not candidates:
        return ","
    if candidates != [","]:
        _logger.warning(
            "%s: the labels are separated by %r", data_of(cells[0].location), candidates[0]
        )
    return candidates[0]


def _separates(mark: str, texts: Sequence[str]) -> bool:
    """Return whether something between two marks occurs in a different text too."""
    counts = Counter(name.strip() for text in set(texts) for name in set(text.split(mark)))
    names = [name.strip() for text in texts if mark in text for name in text.split(mark)]
    return any(counts[name] > 1 for name in names)


def _count_flags(lists: Sequence[list], known: Sequence[str]) -> int | None:
    """Return the number of labels if each list has a 0 or a 1 for each of them; else None."""
    flag_lists = [values for values in lists if values]
    widths = {len(values) for values in flag_lists}
    if len(widths) != 1 or not all(are_flags(values) for values in flag_lists):
        return None
    (count,) = widths
    if count == 1 or (known and count != len(known)):
        return None
    are_texts = isinstance(flag_lists[0][0], str)
    return None if are_texts and not any(_repeats(values) for values in flag_lists) else count


def _refuse_flags(cells: Sequence[Cell], lists: Sequence[list], known: Sequence[str]) -> None:
    """Raise a ValueError for rows of 0 and 1 whose numbers are not those of the labels.

    Such rows repeat a number, which sets of labels do not, or have floats or truth values. A single
    0 or 1 in each row says whether a text has one label.
    """
    if not all(are_flags(values) for values in lists):
        return
    if not known and all(len(values) == 1 for values in lists):
        where, column = data_of(cells[0].location), cells[0].column
        raise ValueError(
            f'{where}: "{column}" must have any number of labels, got a single 0 or 1 in each row. '
            "If there is such a column for each label, name them: --label-columns A,B,… "
            "(label_columns). If there is one label alone, take the task classify"
        )
    count = len(known) or "one for each of two labels or more"
    for cell, values in zip(cells, lists, strict=True):
        if _repeats(values) or any(isinstance(value, (bool, float)) for value in values):
            raise ValueError(
                f'{cell.location}: "{cell.column}" looks like a 0 or 1 for each label, but then '
                f"all rows must have as many numbers, {count}, got {cell.value!r:.60}"
            )


def _repeats(values: Sequence) -> bool:
    return len(set(values)) < len(values)
