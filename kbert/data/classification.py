"""Labelled texts, or pairs of them, from files: text, [second text,] label."""

import csv
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kbert.data.buckets import Examples
from kbert.data.text_lines import numbered_lines, numbered_objects
from kbert.names import CLASSIFIER

_logger = logging.getLogger("kbert")
_NAMES = ("label", "labels", "gold_label")  # of the column, in a header
_HEADERS = (*_NAMES, "class", "target")


class Labelled(NamedTuple):
    """A text with its label.

    Attributes:
        text: the text.
        label: as it stands in the file.
        pair: the second text, where there is one.
        place: file and line, for errors.
    """

    text: str
    label: str
    pair: str | None = None
    place: str = "a record"


def read_labelled(path: str | os.PathLike) -> list[Labelled]:
    """The records of a file, UTF-8.

    `.json`, `.jsonl`: an object a line, {"text": …, "pair": …, "label": …}; the label is a text or
    a whole number, "pair" may be missing. `.csv`: two or three columns between commas, with quotes
    as Python's csv reads them. Else a line each, columns between tabs, no quotes: a text holds
    neither tabs nor ends of line. A first line whose last column is called label is a header.
    Blank lines are left out.

    Raises:
        OSError: it cannot be read.
        ValueError: not UTF-8, nothing in it, a line with another number of columns than the first
            or with an empty one, a header whose label is not the last; with the line's number.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind in (".json", ".jsonl"):
        records, expected = list(_from_objects(path)), 'objects {"text": …, "label": …}'
    elif kind == ".csv":
        records = list(_from_cells(path, _between_commas(path), "commas"))
        expected = "lines of a text, a comma and a label"
    else:
        records = list(_from_cells(path, _between_tabs(path), "tabs"))
        expected = "lines of a text, a tab and a label"
    if not records:
        raise ValueError(f"{path}: {expected} expected, got none")
    return records


def _between_tabs(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path):
        if line.strip():
            yield number, line.split("\t")


def _between_commas(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of their first line: a quoted text may have several."""
    rows = csv.reader((f"{line}\n" for _, line in numbered_lines(path)), strict=True)
    number = 1
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise ValueError(f"{path}, line {number}: a row of CSV expected: {error}") from None
        if cells is None:
            return
        if len(cells) > 1 or any(map(str.strip, cells)):
            yield number, cells
        number = rows.line_num + 1


def _from_cells(
    path: Path, rows: Iterable[tuple[int, list[str]]], between: str
) -> Iterator[Labelled]:
    columns = None
    for number, row in rows:
        cells, place = [cell.strip() for cell in row], f"{path}, line {number}"
        if columns is None:
            columns = len(cells)
            if columns not in (2, 3):
                raise ValueError(
                    f"{place}: a text, or two, and a label expected, between {between}, got "
                    f"{columns} column{'s' if columns > 1 else ''}"
                )
            if _is_header(cells, place):
                continue
        if len(cells) != columns:
            raise ValueError(f"{place}: {columns} columns expected as before, got {len(cells)}")
        if not all(cells):
            column = cells.index("") + 1
            raise ValueError(f"{place}: column {column} of {columns} is empty")
        yield Labelled(cells[0], cells[-1], cells[1] if columns == 3 else None, place)


def _is_header(cells: Sequence[str], place: str) -> bool:
    *texts, last = (cell.lower() for cell in cells)
    if last in _HEADERS:
        return True
    if set(texts) & set(_NAMES):
        listed = ", ".join(cells)[:60]
        raise ValueError(f"{place}: the label must be the last column, got columns {listed}")
    return False


def _from_objects(path: Path) -> Iterator[Labelled]:
    for number, row in numbered_objects(path):
        place = f"{path}, line {number}"
        label = row.get("label")
        if isinstance(label, int) and not isinstance(label, bool):
            label = str(label)
        texts = {"text": row.get("text"), "label": label}
        if row.get("pair") is not None:
            texts["pair"] = row["pair"]
        for name, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                expected = "a text or a whole number" if name == "label" else "a text"
                raise ValueError(f'{place}: "{name}" must be {expected}, got {text!r:.60}')
        yield Labelled(place=place, **{name: text.strip() for name, text in texts.items()})


def labels_of(records: Sequence[Labelled]) -> tuple[str, ...]:
    """The labels of the training data: whole numbers in their order, else sorted as text.

    Raises:
        ValueError: fewer than two labels.
    """
    found = {record.label for record in records}
    if len(found) < 2:
        raise ValueError(
            f"{records[0].place}: two labels or more expected in the training data, got only "
            f"{records[0].label!r}"
        )
    numbers = all(label.isdecimal() and label.isascii() for label in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))


def encode_labelled(
    records: Sequence[Labelled], tokenizer, labels: Sequence[str], max_length: int
) -> Examples:
    """The records as a classifier reads them; a warning counts those that were cut.

    Raises:
        ValueError: a label that is not among `labels`; pairs and single texts mixed.
    """
    numbers = {label: number for number, label in enumerate(labels)}
    for record in records:
        if record.label not in numbers:
            raise ValueError(
                f"{record.place}: label must be one of the model's {_listed(labels)}, got "
                f"{record.label!r}"
            )
    pairs = [record.pair for record in records if record.pair is not None]
    if pairs and len(pairs) < len(records):
        raise ValueError("records must all be pairs of texts, or none, got both")
    texts = [record.text for record in records]
    encodings = tokenizer.encode_batch(texts, pairs or None, max_length=max_length).encodings
    if cut := sum(encoding.truncated for encoding in encodings):
        _logger.warning("%d of %d texts cut to %d tokens", cut, len(records), max_length)
    return Examples(
        ids=[encoding.ids for encoding in encodings],
        segment_ids=[encoding.segment_ids for encoding in encodings],
        labels={CLASSIFIER: [numbers[record.label] for record in records]},
    )


def _listed(labels: Sequence[str]) -> str:
    more = f" … ({len(labels)})" if len(labels) > 10 else ""
    return ", ".join(labels[:10]) + more
