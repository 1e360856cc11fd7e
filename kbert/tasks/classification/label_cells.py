"""Cells with several labels: which values a cell has, however a person or a program wrote it.

A cell is a list or a set, the text of one, or a text of labels between separators. What separates
the labels is decided by all texts of a file together.
"""

import ast
import itertools
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from kbert.io.wording import data_of

SEPARATORS = (",", "|", ";", "\n")

_logger = logging.getLogger("kbert")
_NUMBER = r"(?:-?(?:\d+(?:\.\d*)?|\.\d+)|True|False)"  # one way to match: no long search
_NUMBERS = re.compile(rf"{_NUMBER}(?:\s+{_NUMBER})*")
# Labels without a mark between them, as Kaggle, fastText and Stack Exchange write them.
_UNMARKED = (
    (re.compile(_NUMBER), _NUMBERS, "blanks"),
    (re.compile(r"__label__\S+"), re.compile(r"__label__\S+(?:\s+__label__\S+)*"), "blanks"),
    (re.compile(r"<[^<>]+>"), re.compile(r"(?:<[^<>]+>\s*)+"), "'<' and '>'"),
)
_ADJACENT = re.compile(r"""['"]\s+['"]""")  # NumPy's texts; Python would join them
_WRAPPED = re.compile(  # repr of arrays, tensors and frozen sets
    r"(?:array|tensor|frozenset)\(([\[{].*[\]}])(?:,\s*\w+=[^()\[\]{},]+)*\)", re.DOTALL
)
_WORDS_IN_BRACKETS = re.compile(r"[^\W\d][\w -]*")  # [PAD] and [other] are labels
_NO_LABELS = ("none", "nan", "null", "true", "false")
_WORD = re.compile(r"[^\s/&+\\]+")
_AS_LISTS = "or give lists in JSON lines"


class Cell(NamedTuple):
    """A label cell, with its column's name, and its file and line."""

    value: Any
    column: str
    location: str


def split_cells(cells: Sequence[Cell], known: Sequence[str]) -> list[list]:
    """Return the values in each cell.

    Args:
        cells: as read; None, NaN and "" have no value.
        known: labels of the model or of the training data; (): unknown.

    Raises:
        ValueError: a cell that may be split in several ways, or in none.
    """
    lists = [_open_list(cell) for cell in cells]
    texts = [cell for cell, values in zip(cells, lists, strict=True) if values is None]
    if not texts:
        return [values or [] for values in lists]

    split_texts = iter(_split_texts(texts, known))
    complete = []
    for values in lists:
        complete.append(next(split_texts) if values is None else values)
    return complete


def split_text(text: str) -> list[str]:
    """Return the labels in a text, whatever separates them, to tell a header from an example."""
    pieces = re.split(r"[,|;\n]", text.strip("[](){} "))
    labels = [piece.strip(" '\"") for piece in pieces]
    return [label for label in labels if label]


def _open_list(cell: Cell) -> list | None:
    """Return the values of a list or of the text of a list; None for another text."""
    value = cell.value
    is_nan = isinstance(value, float) and math.isnan(value)
    if value is None or value == "" or is_nan:
        return []
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if not isinstance(value, str):
        raise ValueError(
            f'{cell.location}: "{cell.column}" must be a list of labels, got {value!r:.60}'
        )

    text = value.strip()
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped:
        text = wrapped[1]
    if text in ("set()", "frozenset()"):  # as Python writes an empty one
        return []
    ends = text[:1] + text[-1:]
    if ends not in ("[]", "{}", "()"):
        return None
    return _parse_list(text, cell.location)


def _parse_list(text: str, location: str) -> list | None:
    """Return the values in the text of a list as Python, JSON or NumPy write it."""
    inner = text[1:-1].strip()
    if not inner:
        return []
    if _NUMBERS.fullmatch(inner) and len(inner.split()) > 1:
        return [_parse_value(value) for value in inner.split()]
    if not _ADJACENT.search(inner):
        values = _parse_literal(text)
        if values is not None:
            return values

    are_words = _WORDS_IN_BRACKETS.fullmatch(inner) and inner.lower() not in _NO_LABELS
    if text.startswith("(") or are_words:  # a label may stand in brackets
        return None
    raise ValueError(
        f"{location}: expected a list such as ['a', 'b'] or [0, 1], got {text!r:.60}: write the "
        f"labels between commas, {_AS_LISTS}"
    )


def _parse_literal(text: str) -> list | None:
    """Return the texts and numbers in a list, tuple or set of JSON or Python; None: it is none."""
    for parse in (json.loads, ast.literal_eval):
        try:
            values = parse(text)
        except (MemoryError, RecursionError, SyntaxError, ValueError):
            continue
        if not isinstance(values, (list, tuple, set)):
            continue
        if all(isinstance(value, (str, int, float)) for value in values):
            if isinstance(values, set):
                return sorted(values, key=str)
            return list(values)
    return None


def _parse_value(text: str) -> Any:
    """Return a number or a truth value; a text that Python does not take for one, such as 007."""
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        return text


def _split_texts(cells: Sequence[Cell], known: Sequence[str]) -> list[list]:
    """Return the labels of each text. A text that is a known label is not split."""
    texts = [cell.value.strip() for cell in cells]
    if set(texts) <= set(known):
        return [[text] for text in texts]

    source = data_of(cells[0].location)
    for label, labels, between in _UNMARKED:
        if all(labels.fullmatch(text) for text in texts):
            return _split_unmarked(texts, label, between, source)

    separator = _find_separator(cells, known)
    if separator is not None:
        return [_split_at(separator, cell) for cell in cells]
    if not known:
        _warn_of_words(texts, source)
    return [[text] for text in texts]


def _split_unmarked(
    texts: Sequence[str], label: re.Pattern, between: str, source: str
) -> list[list]:
    """Return the labels of each text, which match; a warning says what is between them."""
    lists = [label.findall(text) for text in texts]
    if any(len(values) > 1 for values in lists):
        _logger.warning("%s: the labels are separated by %s", source, between)

    parsed = []
    for values in lists:
        parsed.append([_parse_truth(value) for value in values])
    return parsed


def _parse_truth(text: str) -> str | bool:
    """Return True and False as such; numbers stay as they are written."""
    return text == "True" if text in ("True", "False") else text


def _split_at(separator: str, cell: Cell) -> list[str]:
    pieces = cell.value.split(separator)
    labels = [label.strip() for label in pieces]
    if "" in labels:
        between = "commas" if separator == "," else repr(separator)
        raise ValueError(
            f"{cell.location}: expected labels between {between}, got {cell.value!r:.60}"
        )
    return labels


def _find_separator(cells: Sequence[Cell], known: Sequence[str]) -> str | None:
    """Return what separates the labels of texts: commas, or what does so where there are none.

    A mark in the name of a known label separates nothing. None: no text has a separator. Raise a
    ValueError for several marks.
    """
    candidates = []
    for separator in SEPARATORS:
        is_used = any(separator in cell.value for cell in cells)
        is_in_a_label = any(separator in label for label in known)
        if is_used and not is_in_a_label:
            candidates.append(separator)

    if candidates[:1] == [","]:
        texts = []
        for cell in cells:
            pieces = cell.value.split(",")
            texts += [text.strip() for text in pieces]

        further = []
        for separator in candidates[1:]:
            if _separates(separator, texts):
                further.append(separator)
        candidates = [",", *further]

    if len(candidates) > 1:
        where = next(cell for cell in cells if candidates[1] in cell.value)
        listed = " and ".join(repr(separator) for separator in candidates)
        raise ValueError(
            f"{where.location}: labels must have one separator, got {listed} in "
            f"{where.value!r:.60}: use one of them in the whole file, {_AS_LISTS}"
        )

    if not candidates:
        return None
    if candidates != [","]:
        _logger.warning(
            "%s: the labels are separated by %r", data_of(cells[0].location), candidates[0]
        )
    return candidates[0]


def _separates(mark: str, texts: Sequence[str]) -> bool:
    """Return whether something between two marks occurs in a different text too."""
    counts: Counter[str] = Counter()
    marked_names = []
    for text in set(texts):
        names = set(text.split(mark))
        counts.update(name.strip() for name in names)
        if mark in text:
            marked_names += [name.strip() for name in names]
    return any(counts[name] > 1 for name in marked_names)


def _warn_of_words(texts: Sequence[str], source: str) -> None:
    """Warn of texts that may be several labels each: most of their words are in other texts too."""
    words = {text: set(_WORD.findall(text)) for text in set(texts)}
    counts = Counter(itertools.chain.from_iterable(words.values()))
    several = [text for text in sorted(words) if len(words[text]) > 1]
    shared = []
    for text in several:
        if any(counts[word] > 1 for word in words[text]):
            shared.append(text)

    if shared and 2 * len(shared) >= len(several):
        _logger.warning(
            "%s: each cell is read as one label, such as %.60r. If it has several labels, write "
            "commas between them",
            source,
            shared[0],
        )
