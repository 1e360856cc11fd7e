"""Cells of tables: numbers in them, columns of row numbers, labels as a model numbers them."""

import math
from collections.abc import Collection, Mapping, Sequence

from kbert.io.wording import first_few


def parse_number(value) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and "_" in value:  # which Python takes for 1000 in 1_000
        return None
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def is_number(cell: str, known_labels: Collection[str] = ()) -> bool:
    """Return whether a cell is a number, which is a label whether it is known or not."""
    return parse_number(cell) is not None


def are_row_numbers(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column count its rows, from 0 or 1 on, as an index does."""
    if len(cells) < 2:
        return False
    numbers = [str(number) for number in range(len(cells) + 1)]
    return list(cells) in (numbers[:-1], numbers[1:])


def number_label(label: str, numbers: Mapping[str, int], location: str) -> int:
    """Return the number of a label; a ValueError, with file and line, if the model lacks it."""
    if label not in numbers:
        known = first_few(list(numbers), 10)
        raise ValueError(f"{location}: label must be one of the model's {known}, got {label!r}")
    return numbers[label]
