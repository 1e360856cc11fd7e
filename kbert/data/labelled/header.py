"""Recognition of a table's header."""

import logging
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from kbert.data.labelled.columns import LABELS, MORE_LABELS, NAMES, NUMBERS, ColumnOptions

_logger = logging.getLogger("kbert")
FEW = 5  # examples below the first line: fewer prove nothing
_LONGEST_NAME = 3  # words; more are a text, and no name of a column
_RARE = 0.2  # share of examples with a label of their own: above it one more proves nothing

Row = tuple[str, Sequence[str]]  # the line's position for messages, cells


def is_header(
    lines: Sequence[Row],
    options: ColumnOptions,
    labels_in: Callable[[str], Collection[str]],
    *,
    names: Collection[str] = NAMES,
    columns_in: Callable[[Sequence[str]], object] | None = None,
    few: int = FEW,
    last: str = "label",
) -> bool:
    """Return whether the first line is a header, by its names and by the labels below it.

    A line is a header if every cell is a known name, or if it names all columns that are needed. It
    is an example if its last cell is a label that occurs again below, unless another cell is a
    known name. An example that could be a header with other names logs a warning.

    Args:
        lines: the file's lines, one or more.
        options: the user's options for columns.
        labels_in: returns the labels in a last cell.
        names: the known names of columns, lowercased.
        columns_in: finds the columns of texts and labels by their names, with a ValueError if one
            is missing; None: a header has no further columns.
        few: minimum number of examples below the first line for a label of its own to raise doubt.
        last: what the last column holds, "label" or "text_pair"; for messages.

    Raises:
        ValueError: the line may be either; the message says how to decide.
    """
    if options.no_header or options.names:
        return not options.no_header
    (location, first), *others = lines
    cells = [cell.strip() for cell in first]
    lower = [cell.lower() for cell in cells]
    known = [cell in names and cell != "" for cell in lower]
    own = set(labels_in(cells[-1]))
    counts = Counter(label for _, line in others for label in labels_in(line[-1].strip()))
    occurs_again = not own or not own.isdisjoint({*counts, *options.known_labels})
    if not occurs_again and set(lower) <= {*names} and not set(lower) <= {*NUMBERS}:
        return True
    if not occurs_again and columns_in is not None and _has_columns(columns_in, cells):
        return True
    way = _suggest_options(cells, others, last)
    if occurs_again and not any(known[:-1]):
        if known[-1]:
            _logger.warning(
                "%s: taken as a text with the label %r. If it is a header, %s",
                *(location, cells[-1], way),
            )
        return False
    single = sum(count == 1 for count in counts.values())  # labels that occur once
    is_odd_one_out = len(others) >= few and single + 1 <= _RARE * len(others)
    if not any(known) and not is_odd_one_out:
        if _are_like_names(cells) and (0 < len(others) < few or 2 * single < len(others)):
            _logger.warning(
                "%s: %r is read as an example. If it is a header, %s. If it is an example, "
                "give --no-header (no_header=True)",
                *(location, ", ".join(cells)[:80], way),
            )
        return False
    raise ValueError(
        f"{location}: {', '.join(cells)[:80]!r} may be a header or an example. If it is a header, "
        f"{way}. If it is an example, give --no-header (no_header=True)"
    )


def _has_columns(columns_in: Callable[[Sequence[str]], object], cells: Sequence[str]) -> bool:
    try:
        columns_in(cells)
    except ValueError:
        return False
    return True


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
