"""Training data of sentence embeddings: pairs, triplets, scored pairs, labelled sentences."""

import logging
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import (
    LABELS,
    MORE_LABELS,
    NO_OPTIONS,
    NUMBERS,
    PAIRS,
    TEXTS,
    WAY_TO_NAME,
    ColumnOptions,
)
from kbert.data.labelled.header import Row
from kbert.tasks.tables import check_width, read_objects, read_table

_logger = logging.getLogger("kbert")
_FIRST = ("anchor", "query", *dict.fromkeys(pair[0] for pair in PAIRS), *TEXTS)
_SECOND = ("positive", "answer", "document", "passage", *dict.fromkeys(pair[1] for pair in PAIRS))
_SCORES = ("score", "similarity", "similarity_score")
_NEGATIVES = {f"negative{between}{n}" for between in ("", "_") for n in range(100)} | {"negative"}
_LABELS = tuple(name for name in (*LABELS, *MORE_LABELS) if name not in _SCORES)
_NAMES = {*_FIRST, *_SECOND, *_SCORES, *_LABELS, *NUMBERS, *_NEGATIVES}
_FEW = 20  # second texts for each of which there are so many lines: labels, it seems

KINDS = ("labelled sentences", "scored pairs", "pairs", "triplets")
_EXPECTED = (
    "expected two texts (a pair), three or more (the further ones are negatives), two texts and a "
    "score, or a text and its label"
)


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
            return KINDS[0]
        return KINDS[1] if self.score is not None else KINDS[min(len(self.texts), 3)]


class _Layout(NamedTuple):
    """Indices of the columns of the texts, and of a score or a label."""

    texts: tuple[int, ...]
    score: int | None = None
    label: int | None = None

    def __contains__(self, column: object) -> bool:
        """Return whether a column is read."""
        return column in (*self.texts, self.score, self.label)


def read_records(path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS) -> list[TextRecord]:
    """Return the records of a file, UTF-8; all of one kind.

    `.json`, `.jsonl`: one object per line. `.csv`: columns between commas, with quotes as Python's
    csv reads them. Else one record per line, columns between tabs. A first line with names of
    columns is a header (`is_header`): anchor (query, sentence1, text, …), positive (answer,
    sentence2, …), negative, negative_1, …, score, label. Without a header, two texts are a pair,
    three and more have negatives; a last column of numbers, in every line, is a label of one text;
    in most lines, a score of two texts.

    Raises:
        OSError: the file cannot be read.
        ValueError: a row that is none of these, or is of another kind than the first; with file
            and line.
    """
    path = Path(path)
    objects = read_objects(path)
    records = _make_records(objects, options) if objects else _read_lines(path, options)
    if not records:
        raise ValueError(f"{path}: {_EXPECTED}, got nothing")
    different = len({record.texts[1] for record in records}) if records[0].kind == "pairs" else 0
    if 0 < different * _FEW < len(records):
        _logger.warning(
            "%s: taken as pairs of texts, with only %d different second texts: if they are labels, "
            "put a line above: text, label",
            path,
            different,
        )
    return records


def take_records(data, name: str, options: ColumnOptions = NO_OPTIONS) -> list[TextRecord]:
    """Return the records of rows in memory: all of one kind.

    A row is a `TextRecord`; (text, text); (text, text, text, …); (text, text, number);
    (text, whole number): a label; or a dict with the columns that `read_records` knows.

    Args:
        data: what `kbert.data.labelled.in_memory.iterate_records` takes.
        name: the argument's name, for errors.
        options: which columns to read.

    Raises:
        ValueError: a row that is none of these, with its location.
    """
    return _make_records(in_memory.iterate_records(data, name), options)


def _read_lines(path: Path, options: ColumnOptions) -> list[TextRecord]:
    """Return the records of a table's lines."""
    table = read_table(
        path,
        options,
        expected=_EXPECTED,
        # all numbers are one label, to tell a header from an example
        labels_in=lambda cell: (cell,) if _parse_number(cell) is None else ("a number",),
        find_columns=_find_columns,
        find_unnamed=_find_unnamed,
        last_column=lambda lines: (
            "label" if 2 * _count_numbers(lines) >= len(lines) else "text_pair"
        ),
        names=_NAMES,
    )
    if table is None:
        return []
    for location, cells in table.lines:
        check_width(cells, table.names, location)
    return [_make_record(cells, table.columns, location) for location, cells in table.lines]


def _count_numbers(lines: Sequence[Row]) -> int:
    return sum(_parse_number(cells[-1]) is not None for _, cells in lines)


def _find_unnamed(lines: Sequence[Row], location: str) -> _Layout:
    """Return the layout of a file without header: the last column may be numbers."""
    count = len(lines[0][1])
    if count < 2:
        raise ValueError(f"{location}: {_EXPECTED}, got {count} column")
    texts, numbers = tuple(range(count)), _count_numbers(lines)
    if count == 3 and 2 * numbers > len(lines):  # among scores, other text is an error
        return _Layout(texts[:2], score=2)
    return _Layout((0,), label=1) if count == 2 and numbers == len(lines) else _Layout(texts)


def _make_records(
    examples: Iterable[tuple[str, object]], options: ColumnOptions
) -> list[TextRecord]:
    """Return the records of (location, row)."""
    records: list[TextRecord] = []
    layouts: dict[tuple, _Layout] = {}
    for location, row in examples:
        if isinstance(row, TextRecord):
            record = row
        elif isinstance(row, dict):
            names = tuple(map(str, row))
            if names not in layouts:
                layouts[names] = _find_columns(names, location, options)
            record = _make_record(list(row.values()), layouts[names], location)
        else:
            record = _make_record(cast(list, row), _find_types(row, location), location)
        first = records[0] if records else record
        if (record.kind, len(record.texts)) != (first.kind, len(first.texts)):
            raise ValueError(
                f"{location}: expected {_describe(first)} as before, got {_describe(record)}"
            )
        records.append(record)
    return records


def _find_types(row, location: str) -> _Layout:
    """Return the layout of a list, by the types of its items."""
    if not isinstance(row, list) or len(row) < 2:
        raise ValueError(f"{location}: {_EXPECTED}, got {row!r:.60}")
    if isinstance(row[-1], (int, float)) and len(row) < 4:
        return _Layout((0, 1), score=2) if len(row) == 3 else _Layout((0,), label=1)
    return _Layout(tuple(range(len(row))))


def _find_columns(names: Sequence[str], location: str, options: ColumnOptions) -> _Layout:
    """Return the layout of columns with names, in any order."""
    roles = options.rename(names, location)
    if options.text is not None:  # others are hidden, but for negatives
        known = {"text", "pair", *_NEGATIVES, *_SCORES, *_LABELS}
        roles = [role if role in known else f"column {n}" for n, role in enumerate(roles, 1)]
    if options.label is not None:
        roles = [f"column {n}" if role in _SCORES else role for n, role in enumerate(roles, 1)]
    first = [n for n, role in enumerate(roles) if role in _FIRST]
    second = [n for n, role in enumerate(roles) if role in _SECOND and n not in first]
    if len(first) == 2 and not second and {roles[n] for n in first} in map(set, PAIRS):
        second = [first.pop()]  # question, sentence
    negatives = [n for n, role in enumerate(roles) if role in _NEGATIVES]
    scores = [n for n, role in enumerate(roles) if role in _SCORES]
    label_names = LABELS if any(role in LABELS for role in roles) else _LABELS
    labels = [n for n, role in enumerate(roles) if role in label_names]
    if second and not scores:
        scores, labels = labels, []
    counts = len(first), len(second), len(scores), len(labels)
    if counts == (1, 0, 0, 1) and not negatives:
        return _Layout((first[0],), label=labels[0])
    if counts == (1, 1, 1, 0) and not negatives:
        return _Layout((first[0], second[0]), score=scores[0])
    if counts == (1, 1, 0, 0):
        return _Layout((first[0], second[0], *negatives))
    raise ValueError(
        f"{location}: expected columns anchor and positive (and negative, or score), or text and "
        f"label, got {', '.join(names)[:80]}: {WAY_TO_NAME}"
    )


def _make_record(row: Sequence, layout: _Layout, location: str) -> TextRecord:
    texts = tuple(in_memory.text_of(row[n], f"column {n + 1}", location) for n in layout.texts)
    if len(texts) > 2 and texts[1] in texts[2:]:
        raise ValueError(f"{location}: a negative must differ from the positive, got the same text")
    score = label = None
    if layout.score is not None:
        score = _parse_number(row[layout.score])
        if score is None:
            raise ValueError(
                f"{location}: the score must be a number, got {row[layout.score]!r:.60}"
            )
    if layout.label is not None:
        label = in_memory.label_of(row[layout.label], f"column {layout.label + 1}", location)
    return TextRecord(texts, score, label, location)


def _parse_number(value) -> float | None:
    """Return a finite number; None for anything else."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _describe(record: TextRecord) -> str:
    if record.kind == KINDS[-1]:
        return f"{len(record.texts)} texts"
    return {"pairs": "2 texts", "scored pairs": "2 texts and a score"}.get(
        record.kind, "a text and a label"
    )
