"""Tell whether the first line of a table is a header or an example."""

import logging
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from kbert.data.labelled.columns import LABELS, MORE_LABELS, NAMES, NUMBERS, ColumnOptions

_logger = logging.getLogger("kbert")
FEW = 5  # examples below the first line: fewer prove nothing
_WORDS_IN_A_NAME = 3  # more words are a text, and no name of a column
_RARE = 0.2  # share of examples with a label of their own: above it one more proves nothing

Row = tuple[str, Sequence[str]]  # place, cells


def is_header(
    rows: Sequence[Row],
    options: ColumnOptions,
    labels_in: Callable[[str], Collection[str]],
    *,
    names: Collection[str] = NAMES,
    columns_in: Callable[[Sequence[str]], object] | None = None,
    few: int = FEW,
    last: str = "label",
) -> bool:
    """Tell a header from an example: by the names of its columns, and by the labels below it.

    A line whose every cell is a known name is a header, and so is one that names every column that
    is needed; one whose last cell is a label that occurs again below is an example, unless another
    cell is a known name. A warning says so if an example could be a header with other names.

    Args:
        rows: of the file, one or more.
        options: what the user says of the columns.
        labels_in: gives the labels that stand in a last cell.
        names: the known names of columns, lowercased.
        columns_in: finds the columns of texts and labels by their names; a ValueError where they
            are not all there. None: a header has no further columns.
        few: how many examples must be below the first line for a label of its own to be a reason
            for doubt.
        last: what the last column holds, "label" or "text_pair"; for messages.

    Raises:
        ValueError: the line may be either; it says how to decide.
    """
    if options.no_header or options.named:
        return not options.no_header
    (place, first), *others = rows
    cells = [cell.strip() for cell in first]
    words = [cell.lower() for cell in cells]
    known = [word in names and word != "" for word in words]
    own = set(labels_in(cells[-1]))
    counts = Counter(label for _, row in others for label in labels_in(row[-1].strip()))
    occurs_again = not own or not own.isdisjoint({*counts, *options.known_labels})
    if set(words) <= {*names} and not set(words) <= {*NUMBERS} and not occurs_again:
        return True
    if columns_in is not None and not occurs_again and _has_columns(columns_in, cells):
        return True
    if occurs_again and not any(known[:-1]):
        if known[-1]:
            _logger.warning(
                "%s: taken as a text with the label %r. If it is a header, %s",
                *(place, cells[-1], _way(cells, others, last)),
            )
        return False
    if not any(known) and not _is_odd_one_out(counts, len(others), few):
        if _are_like_names(cells) and _are_few(counts, len(others), few):
            _logger.warning(
                "%s: %r is read as an example. If it is a header, %s. If it is an example, "
                "give --no-header (no_header=True)",
                *(place, ", ".join(cells)[:80], _way(cells, others, last)),
            )
        return False
    raise ValueError(
        f"{place}: {', '.join(cells)[:80]!r} may be a header or an example. If it is a header, "
        f"{_way(cells, others, last)}. If it is an example, give --no-header (no_header=True)"
    )


def _has_columns(columns_in: Callable[[Sequence[str]], object], cells: Sequence[str]) -> bool:
    """Return whether every column that is needed is among these names."""
    try:
        columns_in(cells)
    except ValueError:
        return False
    return True


def _are_like_names(cells: Sequence[str]) -> bool:
    """Return whether these could be names of columns: few words each, no sentence, no number."""
    return 1 < len({*cells}) == len(cells) and all(
        0 < len(cell.split()) <= _WORDS_IN_A_NAME and not re.search(r"[.!?]$|^-?[\d.]+$", cell)
        for cell in cells
    )


def _are_few(counts: Counter, examples: int, few: int) -> bool:
    """Return whether there are too few examples to tell, or most of their labels occur again."""
    single = sum(count == 1 for count in counts.values())
    return 0 < examples < few or 2 * single < examples


def _is_odd_one_out(counts: Counter, examples: int, few: int) -> bool:
    """Return whether a label that occurs once is unusual among these labels."""
    single = 1 + sum(count == 1 for count in counts.values())
    return examples >= few and single <= _RARE * examples


def _way(cells: Sequence[str], rows: Sequence[Row], last: str) -> str:
    """Write the options that make a line a header; the longest column is taken for the text."""
    label = next((cell for cell in cells if cell.lower() in (*LABELS, *MORE_LABELS)), cells[-1])
    texts = [cell for cell in cells if cell != label and cell.lower() not in NUMBERS] or cells
    lengths = [sum(len(row[n]) for _, row in rows if n < len(row)) for n in range(len(cells))]
    longest = max(texts, key=lambda cell: lengths[cells.index(cell)])
    text = next((cell for cell in texts if cell.lower() in NAMES), longest)
    text, label = (shlex.quote(cell[:40]) for cell in (text, label))
    return (
        f"name its columns: --text-column {text} --{last.replace('_', '-')}-column {label} "
        f"(in Python text_column and {last}_column)"
    )
