"""GLUE's files as they are downloaded: columns between tabs, no quotes, most with a header."""

import hashlib
import logging
from pathlib import Path
from typing import NamedTuple, NoReturn

from kbert.data.labelled.cells import parse_number
from kbert.data.labelled.text_lines import read_numbered_lines
from kbert.tasks.classification.reading import Labelled
from kbert.tasks.glue.benchmark import GlueTask, Layout

_logger = logging.getLogger("kbert")
_MOST_BROKEN = 0.001  # share of a file's lines that may be left out


class TaskData(NamedTuple):
    """A task's records: to train with, and to measure with by what is put behind its name."""

    train: list[Labelled]
    dev: dict[str, list[Labelled]]

    @property
    def digest(self) -> str:
        """A hash of all records, 16 hexadecimal digits."""
        digest = hashlib.blake2b(digest_size=8)
        for records in (self.train, *self.dev.values()):
            for record in records:
                digest.update(f"{record.text}\t{record.pair}\t{record.label}\n".encode())
            digest.update(b"\n")
        return digest.hexdigest()


def read_task(task: GlueTask, folder: Path) -> TaskData:
    """Return the records of train.tsv and of the dev files; it raises what `read_file` raises."""
    dev = {}
    for suffix, name in task.dev.items():
        dev[suffix] = read_file(task, folder / name)
    return TaskData(read_file(task, folder / "train.tsv"), dev)


def read_file(task: GlueTask, path: Path) -> list[Labelled]:
    """Return the records of one file with labels; an error names file and line.

    Lines that QQP's own download breaks, with other columns than its header, are left out with a
    warning, as `datasets` leaves them out; of other tasks they are an error.
    """
    records, broken = [], []
    layout: Layout | None = None
    for number, line in read_numbered_lines(path):
        if not line.strip():
            continue
        location = f"{path}, line {number}"
        cells = [cell.strip() for cell in line.split("\t")]
        if layout is None and set(task.columns) <= set(cells):
            indices = [cells.index(name) for name in task.columns]
            layout = Layout(len(cells), *indices)
            continue
        layout = layout or task.headless
        if layout is None:
            _refuse_header(task, cells, location)

        try:
            records.append(_read_record(task, layout, cells, location))
        except ValueError as error:
            if not task.may_be_broken:
                raise
            broken.append(error)

    if len(broken) > max(3, _MOST_BROKEN * len(records)):
        raise ValueError(f"{broken[0]} (and {len(broken) - 1:,} more such lines)")
    if broken:
        _logger.warning("%d lines left out: %s", len(broken), broken[0])
    if not records:
        raise ValueError(f"{path}: expected lines of texts and labels, got none")
    return records


def _refuse_header(task: GlueTask, cells: list[str], location: str) -> NoReturn:
    """Raise a ValueError for a first line without the task's columns."""
    label, *texts = task.columns
    raise ValueError(
        f"{location}: expected a header of {task.name} with {', '.join([*texts, label])} "
        f"between tabs, got {', '.join(cells)[:80]!r}"
    )


def _read_record(task: GlueTask, layout: Layout, cells: list[str], location: str) -> Labelled:
    if len(cells) != layout.columns:
        raise ValueError(
            f"{location}: expected {layout.columns} columns for {task.name}, got {len(cells)}"
        )
    text, cell = cells[layout.text], cells[layout.label]
    pair = None if layout.pair is None else cells[layout.pair]
    if not text or pair == "":
        raise ValueError(f"{location}: expected a text, got an empty column")

    label: str | float | None = cell if cell in task.labels else None
    if not task.labels:
        label = parse_number(cell)
    if label is None:
        wanted = f"one of {', '.join(task.labels)}" if task.labels else "a number"
        raise ValueError(f"{location}: label must be {wanted}, got {cell!r:.60}")
    return Labelled(text, label, pair, location)
