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
    left_out,
)
from kbert.data.labelled.header import is_header
from kbert.data.labelled.text_lines import (
    between_commas,
    between_tabs,
    hint_of_separator,
    numbered_objects,
)

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
        texts: a sentence; two that are alike; or these and others that are not like the first.
        score: how alike two are; None: not said.
        label: of a sentence; None: of others.
        place: file and line, for errors.
    """

    texts: tuple[str, ...]
    score: float | None = None
    label: str | None = None
    place: str = "a record"

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.label is not None:
            return KINDS[0]
        return KINDS[1] if self.score is not None else KINDS[min(len(self.texts), 3)]


class _Layout(NamedTuple):
    """Positions of the texts in a row, and of a score or a label."""

    texts: tuple[int, ...]
    score: int | None = None
    label: int | None = None

    @property
    def columns(self) -> tuple[int | None, ...]:
        """Positions of all that is read."""
        return *self.texts, self.score, self.label


def read_records(path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS) -> list[TextRecord]:
    """Return the records of a file, UTF-8; all of one kind.

    `.json`, `.jsonl`: an object a line. `.csv`: columns between commas, with quotes as Python's csv
    reads them. Else a line each, columns between tabs. A first line of names of columns is a
    header (`is_header`): anchor (query, sentence1, text, …), positive (answer, sentence2, …),
    negative, negative_1, …, score, label. Without one, two texts are a pair, three and more have
    negatives; a last column of numbers, in every line, is a label of one text; in most, a score of
    two.

    Args:
        path: the file.
        options: which columns to read, and whether there is a header. Its label is the label of
            one text, or the score of two.

    Raises:
        OSError: it cannot be read.
        ValueError: a row that is none of these, or is of another kind than the first; with file
            and line.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending in (".json", ".jsonl"):
        rows = ((f"{path}, line {number}", row) for number, row in numbered_objects(path))
        records = _of_rows(rows, options)
    else:
        cells = between_commas(path) if ending == ".csv" else between_tabs(path)
        table = [(f"{path}, line {n}", [cell.strip() for cell in row]) for n, row in cells]
        records = _of_cells(table, options)
    if not records:
        raise ValueError(f"{path}: {_EXPECTED}, got nothing")
    _warn_of_labels(records, str(path))
    return records


def given_records(data, name: str, options: ColumnOptions = NO_OPTIONS) -> list[TextRecord]:
    """Return the records of rows in memory: all of one kind.

    A row is a `TextRecord`; (text, text); (text, text, text, …); (text, text, number);
    (text, whole number): a label; or a dict with the columns that `read_records` knows.

    Args:
        data: what `kbert.data.labelled.in_memory.rows_of` takes.
        name: of the argument, for errors.
        options: which columns to read.

    Raises:
        ValueError: a row that is none of these, with its place.
    """
    return _of_rows(in_memory.rows_of(data, name), options)


def _of_cells(rows: Sequence[tuple[str, list[str]]], options: ColumnOptions) -> list[TextRecord]:
    """Return the records of a table's lines."""
    if not rows:
        return []
    place, first = rows[0]
    if hint := hint_of_separator(rows):
        raise ValueError(f"{place}: {_EXPECTED}, got 1 column: {hint}")
    numbers = sum(_number(cells[-1]) is not None for _, cells in rows)
    if is_header(
        rows,
        options,
        _labels_in,
        names=_NAMES,
        columns_in=lambda names: _layout_of(names, place, options),
        last="label" if 2 * numbers >= len(rows) else "text_pair",
    ):
        layout = _layout_of(first, place, options)
        _logger.warning("%s: read as a header: %s", place, ", ".join(first))
        if others := left_out(first, layout.columns):
            _logger.warning("%s: these columns are ignored: %s", place, ", ".join(others)[:80])
        rows = rows[1:]
    elif options.named:
        layout = _layout_of([str(n + 1) for n in range(len(first))], place, options)
    else:
        layout = _layout_of_cells(rows, place)
    for place, cells in rows:
        if len(cells) != len(first):
            raise ValueError(f"{place}: expected {len(first)} columns as before, got {len(cells)}")
    return [_record(cells, layout, place) for place, cells in rows]


def _labels_in(cell: str) -> tuple[str, ...]:
    """Return the kinds of a cell: all numbers are one, to tell a header from an example.

    A text is its own label.
    """
    return (cell,) if _number(cell) is None else ("a number",)


def _layout_of_cells(rows: Sequence[tuple[str, list[str]]], place: str) -> _Layout:
    """Return the layout of a file without header: the last column may be numbers."""
    count = len(rows[0][1])
    if count < 2:
        raise ValueError(f"{place}: {_EXPECTED}, got {count} column")
    texts = tuple(range(count))
    numbers = sum(_number(cells[-1]) is not None for _, cells in rows)
    if count == 3 and 2 * numbers > len(rows):  # of scores, one that is none is an error
        return _Layout(texts[:2], score=2)
    return _Layout((0,), label=1) if count == 2 and numbers == len(rows) else _Layout(texts)


def _of_rows(rows: Iterable[tuple[str, object]], options: ColumnOptions) -> list[TextRecord]:
    """Return the records of (place, row)."""
    records: list[TextRecord] = []
    layouts: dict[tuple, _Layout] = {}
    for place, row in rows:
        if isinstance(row, TextRecord):
            found = row
        elif isinstance(row, dict):
            names = tuple(map(str, row))
            if names not in layouts:
                layouts[names] = _layout_of(names, place, options)
            found = _record(list(row.values()), layouts[names], place)
        else:
            found = _record(cast(list, row), _layout_of_row(row, place), place)
        if records and (found.kind, len(found.texts)) != (records[0].kind, len(records[0].texts)):
            raise ValueError(
                f"{place}: expected {_described(records[0])} as before, got {_described(found)}"
            )
        records.append(found)
    return records


def _layout_of_row(row, place: str) -> _Layout:
    """Return the layout of a list, by the types of its items."""
    if not isinstance(row, list) or len(row) < 2:
        raise ValueError(f"{place}: {_EXPECTED}, got {row!r:.60}")
    if isinstance(row[-1], (int, float)) and len(row) < 4:
        return _Layout((0, 1), score=2) if len(row) == 3 else _Layout((0,), label=1)
    return _Layout(tuple(range(len(row))))


def _layout_of(names: Sequence[str], place: str, options: ColumnOptions) -> _Layout:
    """By the columns' names, in whatever order."""
    words = _renamed(names, place, options)
    first = [n for n, word in enumerate(words) if word in _FIRST]
    second = [n for n, word in enumerate(words) if word in _SECOND and n not in first]
    if len(first) == 2 and not second and {words[n] for n in first} in map(set, PAIRS):
        second = [first.pop()]  # question, sentence
    negatives = [n for n, word in enumerate(words) if word in _NEGATIVES]
    scores = [n for n, word in enumerate(words) if word in _SCORES]
    usual = any(word in LABELS for word in words)
    labels = [n for n, word in enumerate(words) if word in (LABELS if usual else _LABELS)]
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
        f"{place}: expected columns anchor and positive (and negative, or score), or text and "
        f"label, got {', '.join(names)[:80]}: {WAY_TO_NAME}"
    )


def _renamed(names: Sequence[str], place: str, options: ColumnOptions) -> list[str]:
    """Return the columns' names, lowercased.

    Those that were named are text, pair and label or score.
    """
    words = options.rename(names, place)
    if options.text is not None:  # others are hidden, but for negatives
        roles = {"text", "pair", *_NEGATIVES, *_SCORES, *_LABELS}
        words = [word if word in roles else f"column {n}" for n, word in enumerate(words, 1)]
    if options.label is not None:
        words = [f"column {n}" if word in _SCORES else word for n, word in enumerate(words, 1)]
    return words


def _record(row: Sequence, layout: _Layout, place: str) -> TextRecord:
    """Return a row of a layout; texts and numbers checked."""
    texts = tuple(in_memory.text_of(row[n], f"column {n + 1}", place) for n in layout.texts)
    if len(texts) > 2 and texts[1] in texts[2:]:
        raise ValueError(f"{place}: a negative must differ from the positive, got the same text")
    score = label = None
    if layout.score is not None:
        score = _number(row[layout.score])
        if score is None:
            raise ValueError(f"{place}: the score must be a number, got {row[layout.score]!r:.60}")
    if layout.label is not None:
        label = in_memory.label_of(row[layout.label], f"column {layout.label + 1}", place)
    return TextRecord(texts, score, label, place)


def _number(value) -> float | None:
    """Return a finite number; None for what is none."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _described(record: TextRecord) -> str:
    if record.kind == KINDS[-1]:
        return f"{len(record.texts)} texts"
    return {"pairs": "2 texts", "scored pairs": "2 texts and a score"}.get(
        record.kind, "a text and a label"
    )


def _warn_of_labels(records: Sequence[TextRecord], name: str) -> None:
    """Warn if second texts are so few that they may be meant as labels."""
    if records[0].kind != "pairs":
        return
    different = len({record.texts[1] for record in records})
    if different * _FEW < len(records):
        _logger.warning(
            "%s: taken as pairs of texts, with only %d different second texts: if they are labels, "
            "put a line above: text, label",
            name,
            different,
        )
