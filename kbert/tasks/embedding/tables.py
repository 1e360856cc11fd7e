"""The tables of sentence embeddings: pairs, triplets, scored pairs, labelled sentences."""

import itertools
import logging
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kbert.data.labelled.cells import are_row_numbers, is_number, parse_number
from kbert.data.labelled.columns import (
    LABELS,
    MORE_LABELS,
    NUMBERS,
    PAIRS,
    TEXTS,
    ColumnOptions,
    say_how_to_name,
)
from kbert.data.labelled.in_memory import LabelledRecords, label_of, text_of
from kbert.data.labelled.table_format import Columns, TableFormat, TableLayout, TableRow
from kbert.data.labelled.text_lines import Row
from kbert.io.wording import data_of, write_settings

_logger = logging.getLogger("kbert")
_FIRST_OF_PAIRS = dict.fromkeys(first for first, _ in PAIRS)
_SECOND_OF_PAIRS = dict.fromkeys(second for _, second in PAIRS)
_FIRST = ("anchor", "query", *_FIRST_OF_PAIRS, *TEXTS)
_SECOND = ("positive", "answer", "document", "passage", *_SECOND_OF_PAIRS)
_SCORES = ("score", "similarity", "similarity_score")
_NUMBERED_NEGATIVES = itertools.product(("negative", "negative_"), range(100))
_NEGATIVES = {"negative"} | {f"{name}{number}" for name, number in _NUMBERED_NEGATIVES}
_LABELS = tuple(name for name in (*LABELS, *MORE_LABELS) if name not in _SCORES)
_NAMES = frozenset({*_FIRST, *_SECOND, *_SCORES, *_LABELS, *NUMBERS, *_NEGATIVES})
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
_FEW = 20  # second texts for each of which there are so many lines: labels, it seems
_MOST_CELLS = 12  # of a row in a tuple: anchor, positive and 10 negatives
_EXPECTED = (
    "expected two texts (a pair), three or more (the further ones are negatives), two texts and a "
    "score, or a text and its label"
)

KINDS = ("labelled sentences", "scored pairs", "pairs", "triplets")


class TextRecord(NamedTuple):
    """Texts that belong together.

    Attributes:
        texts: a sentence; two similar texts; or these and texts that are not similar to the first.
        score: similarity of two texts; None: unknown.
        label: label of a sentence; None for other records.
        location: file and line, for errors.
    """

    texts: tuple[str, ...]
    score: float | None = None
    label: str | None = None
    location: str = "a record"

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.label is not None:
            return "labelled sentences"
        if self.score is not None:
            return "scored pairs"
        return "pairs" if len(self.texts) == 2 else "triplets"


def _find_texts(roles: list[str]) -> tuple[list[int], list[int]]:
    """Return the columns that may be the first text, and those that may be the second."""
    first = _find_roles(roles, _FIRST)
    second = [number for number in _find_roles(roles, _SECOND) if number not in first]
    if len(first) == 2 and not second:
        names = [roles[number] for number in first]
        if _is_known_pair(names):
            second = [first.pop()]  # question, sentence
    return first, second


def find_columns(names: Sequence, location: str, options: ColumnOptions) -> Columns:
    """Return the columns of two texts, of negatives or a score, or of a text and its label."""
    roles = _name_roles(names, location, options)
    first, second = _find_texts(roles)
    negatives = _find_roles(roles, _NEGATIVES)
    scores = _find_roles(roles, _SCORES)
    labels = _find_roles(roles, LABELS) or _find_roles(roles, _LABELS)
    if second and not scores:
        scores, labels = labels, []

    counts = len(first), len(second), len(scores), len(labels)
    if counts == (1, 0, 0, 1) and not negatives:
        return Columns((first[0],), labels[0])
    if counts == (1, 1, 1, 0) and not negatives:
        pair = first[0], second[0]
        return Columns(pair, score=scores[0])
    if counts == (1, 1, 0, 0):
        return Columns((first[0], second[0], *negatives))

    columns = ", ".join(str(name) for name in names)
    raise ValueError(
        f"{location}: expected columns anchor and positive (and negative, or score), or text "
        f"and label, got {columns[:80]}: {say_how_to_name()}"
    )


def _find_roles(roles: Sequence[str], searched: Collection[str]) -> list[int]:
    """Return the indices of the columns that have one of the roles."""
    return [n for n, role in enumerate(roles) if role in searched]


def _is_known_pair(roles: Iterable[str]) -> bool:
    """Return whether the roles are those of two texts that belong together, in any order."""
    pair = set(roles)
    return any(set(known) == pair for known in PAIRS)


def _name_roles(names: Sequence, location: str, options: ColumnOptions) -> list[str]:
    """Return what the columns are called; columns that the user names hide others of their kind."""
    roles = options.rename(names, location)
    if options.text is not None:  # negatives are not hidden
        visible = {"text", "pair", *_NEGATIVES, *_SCORES, *_LABELS}
        roles = _hide_roles(roles, {*roles} - visible)
    if options.label is not None:
        roles = _hide_roles(roles, _SCORES)
    return roles


def _hide_roles(roles: Sequence[str], hidden: Collection[str]) -> list[str]:
    """Replace the roles that are hidden by the numbers of their columns."""
    visible = list(roles)
    for n, role in enumerate(roles):
        if role in hidden:
            visible[n] = f"column {n + 1}"
    return visible


def number_columns(lines: Sequence[Row]) -> Columns:
    """Return the columns of lines without a header.

    Two texts are a pair, three and more have negatives. A last column of numbers, in every line, is
    the label of one text; in most lines, a score of two texts.
    """
    location, first = lines[0]
    count = len(first)
    if count < 2:
        raise ValueError(f"{location}: {_EXPECTED}, got {count} column")
    _refuse_numbers(lines)

    last_cells = [cells[-1] for _, cells in lines]
    numbers = sum(parse_number(cell) is not None for cell in last_cells)
    are_most_numbers = 2 * numbers > len(lines)
    if count == 3 and are_most_numbers:  # among scores, other text is an error
        return Columns((0, 1), score=2)
    if count == 2 and numbers == len(lines):
        return Columns((0,), 1)

    first_is_text = parse_number(first[-1]) is None
    only_first_is_text = first_is_text and numbers == len(lines) - 1
    if count == 2 and numbers and only_first_is_text:
        raise ValueError(
            f"{location}: {_EXPECTED}, got {first[-1]!r:.60} above numbers. If the line is a "
            f"header, {say_how_to_name()}. If it is an example of two texts, as all lines are, "
            f"give {write_settings(text_column='1', text_pair_column='2', no_header=True)}"
        )
    return Columns(tuple(range(count)))


def _refuse_numbers(lines: Sequence[Row]) -> None:
    """Raise a ValueError for numbers in columns of texts: row numbers, halves of numbers."""
    location, first = lines[0]
    count = len(first)
    if are_row_numbers([cells[0] for _, cells in lines]):
        raise ValueError(
            f"{location}: {_EXPECTED}, got only row numbers in column 1: remove the column"
        )

    has_commas = all(_DECIMAL_COMMA.fullmatch(cells[-1]) for _, cells in lines)
    ends = [cells[2:] for _, cells in lines if len(cells) == count == 4]
    last_cells = itertools.chain.from_iterable(ends)
    are_numbers = all(parse_number(cell) is not None for cell in last_cells)
    has_halves = bool(ends) and are_numbers  # a,b,3,5
    if has_commas or has_halves:
        raise ValueError(
            f"{location}: {_EXPECTED}, got only numbers in column {count} of {count}. If they have "
            "decimal commas, write points"
        )


def name_cells(row) -> tuple[Sequence, Sequence] | None:
    """Return the names and the cells of a tuple in memory.

    It is (text, text), (text, text, text, …), (text, text, number), or (text, whole number): a
    label.
    """
    if not isinstance(row, list) or len(row) < 2:
        return None

    ends_with_number = isinstance(row[-1], (int, float))
    if ends_with_number and len(row) == 2:
        return ("text", "label"), row
    if ends_with_number and len(row) == 3:
        return ("anchor", "positive", "score"), row

    negatives = ["negative"] * (len(row) - 2)
    return ("anchor", "positive", *negatives), row


def make_texts(row: TableRow) -> TextRecord:
    """Return the texts of a row, with their score or label."""
    columns = row.layout.columns
    titles = row.layout.titles
    location = row.location
    read = []
    for column in columns.texts:
        read.append(text_of(row.cells[column], titles[column], location))
    texts = tuple(read)
    if len(texts) > 2 and texts[1] in texts[2:]:
        raise ValueError(f"{location}: a negative must differ from the positive, got the same text")

    score = None
    if columns.score is not None:
        cell = row.cells[columns.score]
        score = parse_number(cell)
        if score is None:
            raise ValueError(f"{location}: the score must be a number, got {cell!r:.60}")

    label = None
    if columns.label is not None:
        cell = row.cells[columns.label]
        label = label_of(cell, titles[columns.label], location)
    return TextRecord(texts, score, label, location)


def check_kind(record: TextRecord, first: TextRecord, location: str) -> None:
    """Raise a ValueError for a record of another kind than the first."""
    is_same_kind = record.kind == first.kind
    if not is_same_kind or len(record.texts) != len(first.texts):
        raise ValueError(
            f"{location}: expected {_describe(first)} as before, got {_describe(record)}"
        )


def _describe(record: TextRecord) -> str:
    if record.kind == "triplets":
        return f"{len(record.texts)} texts"
    if record.kind == "pairs":
        return "2 texts"
    if record.kind == "scored pairs":
        return "2 texts and a score"
    return "a text and a label"


def warn_of_labels(records: LabelledRecords, layout: TableLayout, options: ColumnOptions) -> None:
    """Log that second texts without a name are probably labels: few are different."""
    is_pair = records[0].kind == "pairs" and layout.has_header is False
    if not is_pair:
        return

    different = len({record.texts[1] for record in records})
    if 0 < different * _FEW < len(records):
        _logger.warning(
            "%s: taken as pairs of texts, with only %d different second texts: if they are labels, "
            "put a line above: text, label",
            data_of(records[0].location),
            different,
        )


TEXT_RECORDS = TableFormat(
    record=TextRecord,
    expected=_EXPECTED,
    expected_row=_EXPECTED,
    find_columns=find_columns,
    number_columns=number_columns,
    name_cells=name_cells,
    make_record=make_texts,
    names=_NAMES,
    is_label=is_number,
    check_record=check_kind,
    finish=warn_of_labels,
    most_cells=_MOST_CELLS,
)
