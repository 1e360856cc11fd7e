"""Detection of the columns of words and labels in a CoNLL file."""

import itertools
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kbert.data.labelled.columns import ColumnOptions
from kbert.io.text_bytes import drop_ending
from kbert.io.wording import name_setting, write_settings
from kbert.tasks.tagging.schemes import find_scheme

_logger = logging.getLogger("kbert")
CONLLU_COLUMNS = 10  # ID FORM LEMMA UPOS …
_FORM, _UPOS = 1, 3
_UNIVERSAL_ID = re.compile(r"\d+([-.]\d+)?")


class Line(NamedTuple):
    """A word's line: the number of its sentence, its cells, and its file and line."""

    sentence: int
    cells: list[str]
    location: str


class Layout(NamedTuple):
    """Indices of the columns of words and labels; −1 is the last one.

    `universal` is True for CoNLL-U, which also has lines that are no words.
    """

    word: int = 0
    label: int = -1
    universal: bool = False

    def name(self) -> tuple[str, str]:
        """Name the columns of words and labels."""
        if self.universal and (self.word, self.label) == (_FORM, _UPOS):
            return "FORM", "UPOS"
        return _name_column(self.word), _name_column(self.label)


def _name_column(index: int) -> str:
    """Name a column by its place; −1 is the last one."""
    if index == 0:
        return "the first"
    return "the last" if index == -1 else str(index + 1)


def find_layout(path: Path, lines: Sequence[Line], options: ColumnOptions) -> Layout:
    """Return the columns that the user names, or else those that the cells look like.

    A warning says so where the words are not in the first column, or the labels not in the last.
    A ValueError says which columns to choose where no label's column is known.
    """
    is_universal = drop_ending(path).suffix == ".conllu"
    tokens = lines
    if is_universal:
        tokens = [line for line in lines if line.cells[0].isdecimal()]
    if not tokens:
        return Layout(universal=is_universal)

    layout = Layout(_FORM, _UPOS, True) if is_universal else _detect_layout(lines, options)
    if options.text is not None:
        word = _find_index(options.text, tokens[0])
        layout = layout._replace(word=word)
    if options.label is not None:
        label = _find_index(options.label, tokens[0])
        layout = layout._replace(label=label)
    if options.text is None and layout.word == layout.label:
        layout = layout._replace(word=1)
    return layout


def _name_options() -> str:
    return f"{name_setting('text_column')} and {name_setting('label_column')}"


def _detect_layout(lines: Sequence[Line], options: ColumnOptions) -> Layout:
    """Return the columns of a file that is not called .conllu."""
    location = lines[0].location
    if _is_universal(lines):
        if options.label is None:
            raise ValueError(
                f"{location}: these lines are CoNLL-U, the last column of which has no labels. "
                "For parts of speech (UPOS) rename the file to .conllu, or give "
                + write_settings(text_column="2", label_column="4")
            )
        return Layout(_FORM, _UPOS, True)

    if options.text is None and _have_numbers(lines):
        _logger.warning(
            "%s: the first column numbers the words: the words are read from column 2. %s "
            "choose other columns",
            location,
            _name_options(),
        )
        return Layout(1)

    if not options.names and _are_swapped(lines):
        _logger.warning(
            "%s: the first column has the labels: the words are read from column 2. %s choose "
            "other columns",
            location,
            _name_options(),
        )
        return Layout(1, 0)
    return Layout()


def _is_universal(lines: Sequence[Line]) -> bool:
    """Return whether lines have the columns of CoNLL-U."""
    return all(
        len(line.cells) == CONLLU_COLUMNS and _UNIVERSAL_ID.fullmatch(line.cells[0])
        for line in lines
    )


def _have_numbers(lines: Sequence[Line]) -> bool:
    """Return whether the first of three columns or more counts a sentence's words, from 0 or 1."""
    has_header = len(lines) > 1 and not _begins_with_number(lines[0])
    if has_header:
        lines = lines[1:]
    for line in lines:
        if len(line.cells) < 3 or not _begins_with_number(line):
            return False

    longest = 0
    for _, group in itertools.groupby(lines, key=lambda line: line.sentence):
        numbers = [int(line.cells[0]) for line in group]
        start, count = numbers[0], len(numbers)
        if longest == 0 and start > 1:
            return False
        if numbers != list(range(start, start + count)):
            return False
        longest = max(longest, count)
    return longest > 1


def _begins_with_number(line: Line) -> bool:
    return line.cells[0].strip().isdecimal()


def _are_swapped(lines: Sequence[Line]) -> bool:
    """Return whether the first of two columns has nothing but tags of entities, and a header."""
    if any(len(line.cells) != 2 for line in lines):
        return False

    first = {line.cells[0].strip() for line in lines}
    second = {line.cells[1].strip() for line in lines}
    scheme = find_scheme(first)
    if scheme is None:
        return False
    header = lines[0].cells[0].strip()
    return {*scheme.odd} <= {header} and find_scheme(second) is None


def _find_index(name: str, line: Line) -> int:
    """Return the index of a column that was named, or numbered from 1 on."""
    indices = {str(n + 1): n for n in range(len(line.cells))}
    for n, cell in enumerate(line.cells):
        indices[cell.strip().lower()] = n

    key = name.strip().lower()
    if key not in indices:
        raise ValueError(
            f"{line.location}: there is no column {name!r}, only {', '.join(line.cells)[:60]}: "
            f"give one of these, or a column's number, 1 … {len(line.cells)}"
        )
    return indices[key]
