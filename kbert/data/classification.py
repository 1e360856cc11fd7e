"""Labelled texts, or pairs of them, from tab-separated files: text, [second text,] label."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kbert.data.buckets import Examples
from kbert.names import CLASSIFIER

_logger = logging.getLogger("kbert")
_HEADERS = ("label", "labels", "class", "target", "gold_label")


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
    """The records of a file: UTF-8, a line each, two or three columns between tabs.

    A first line whose last column is called label is a header. Blank lines are left out. There are
    no quotes: a text holds neither tabs nor ends of line.

    Raises:
        OSError: it cannot be read.
        ValueError: not UTF-8, nothing in it, a line with another number of columns than the first
            or with an empty one; with the line's number.
    """
    path, records, columns = Path(path), [], None
    for number, line in _lines(path):
        cells = [cell.strip() for cell in line.split("\t")]
        place = f"{path}, line {number}"
        if columns is None:
            columns = len(cells)
            if columns not in (2, 3):
                raise ValueError(
                    f"{place}: a text, or two, and a label expected, between tabs, got {columns} "
                    f"column{'s' if columns > 1 else ''}"
                )
            if cells[-1].lower() in _HEADERS:
                continue
        if len(cells) != columns:
            raise ValueError(f"{place}: {columns} columns expected as before, got {len(cells)}")
        if not all(cells):
            column = cells.index("") + 1
            raise ValueError(f"{place}: column {column} of {columns} is empty")
        records.append(Labelled(cells[0], cells[-1], cells[1] if columns == 3 else None, place))
    if not records:
        raise ValueError(f"{path}: lines of a text, a tab and a label expected, got none")
    return records


def _lines(path: Path):
    """The lines that are not blank, with their numbers from 1 on."""
    content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: UTF-8 text expected, got byte 0x{line[error.start]:02x}"
            ) from None
        if text.strip():
            yield number, text


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
