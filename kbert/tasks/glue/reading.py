"""GLUE's files as they are downloaded: columns between tabs, no quotes, most with a header."""

import hashlib
import logging
import math
import os
from pathlib import Path
from typing import NamedTuple

from kbert.data.labelled.text_lines import read_numbered_lines
from kbert.io.wording import first_few
from kbert.tasks.classification.reading import Labelled
from kbert.tasks.glue.benchmark import GlueTask, is_folder_of

_logger = logging.getLogger("kbert")
_MOST_BROKEN = 0.001  # share of a file's lines that may be left out


class TaskData(NamedTuple):
    """A task's records.

    Attributes:
        train: to train with.
        dev: to measure with, by what is put behind the task's name.
    """

    train: list[Labelled]
    dev: dict[str, list[Labelled]]


def folders(data: str | os.PathLike, tasks: list[GlueTask]) -> dict[str, Path]:
    """Return the folder of each task within GLUE's, by the task's name.

    Raises:
        FileNotFoundError: no folder `data`; or one of the tasks has none in it.
    """
    data = Path(data)
    if not data.is_dir():
        raise FileNotFoundError(f"{data}: expected one folder per task, found none")
    subfolders = sorted(path for path in data.iterdir() if path.is_dir())
    task_folders = {}
    for task in tasks:
        own = [path for path in subfolders if is_folder_of(path.name, task)]
        if not own:
            names = first_few([path.name for path in subfolders], 9) or "nothing"
            raise FileNotFoundError(
                f"{data}: expected a folder {task.name}, got {names}: choose tasks that are there"
            )
        task_folders[task.name] = own[0]
    return task_folders


def read_task(task: GlueTask, folder: Path) -> TaskData:
    """Return the records of train.tsv and of the dev files.

    Raises:
        OSError: a file that cannot be read.
        ValueError: one that is not as GLUE has it; with file and line.
    """
    dev = {suffix: read_file(task, folder / name) for suffix, name in task.dev.items()}
    return TaskData(read_file(task, folder / "train.tsv"), dev)


def read_file(task: GlueTask, path: Path) -> list[Labelled]:
    """Return the records of one file with labels.

    Lines that QQP's own download breaks, with other columns than its header, are left out with a
    warning, as `datasets` leaves them out; of other tasks they are an error.

    Raises:
        OSError: it cannot be read.
        ValueError: not UTF-8, no header where there must be one, a line with other columns, an
            empty text, a label that the task has not; with file and line. No line at all.
    """
    lines = ((n, line.split("\t")) for n, line in read_numbered_lines(path) if line.strip())
    records, broken = [], []
    layout = None
    for number, cells in lines:
        location = f"{path}, line {number}"
        if layout is None:
            layout, is_header = _layout(task, cells, location)
            if is_header:
                continue
        record, problem = _record(task, layout, cells, location)
        if record is not None:
            records.append(record)
        elif task.may_be_broken:
            broken.append(problem)
        else:
            raise ValueError(problem)
    return _checked(path, records, broken)


def _checked(path: Path, records: list[Labelled], broken: list[str]) -> list[Labelled]:
    """Return the records; say what was left out, and raise where that is no accident."""
    if len(broken) > max(3, _MOST_BROKEN * len(records)):
        raise ValueError(f"{broken[0]} (and {len(broken) - 1:,} more such lines)")
    if broken:
        _logger.warning("%d lines left out: %s", len(broken), broken[0])
    if not records:
        raise ValueError(f"{path}: expected lines of texts and labels, got none")
    return records


class _Layout(NamedTuple):
    columns: int
    text: int
    pair: int | None
    label: int


def _layout(task: GlueTask, cells: list[str], location: str) -> tuple[_Layout, bool]:
    """Return the columns' positions, and whether the first line is a header."""
    names, columns = [cell.strip() for cell in cells], task.columns
    wanted = [name for name in columns if name is not None]
    if set(wanted) <= set(names):
        pair = None if columns.pair is None else names.index(columns.pair)
        text, label = names.index(columns.text), names.index(columns.label)
        return _Layout(len(names), text, pair, label), True
    if task.unnamed is None:
        raise ValueError(
            f"{location}: expected a header of {task.name} with {', '.join(wanted)} between tabs, "
            f"got {', '.join(names)[:80]!r}"
        )
    return _Layout(task.unnamed.columns, task.unnamed.text, None, task.unnamed.label), False


def _record(
    task: GlueTask, layout: _Layout, cells: list[str], location: str
) -> tuple[Labelled | None, str]:
    """Return a line's record, or None and what is wrong with it."""
    if len(cells) != layout.columns:
        return (
            None,
            f"{location}: expected {layout.columns} columns for {task.name}, got {len(cells)}",
        )
    cells = [cell.strip() for cell in cells]
    pair = None if layout.pair is None else cells[layout.pair]
    if not cells[layout.text] or pair == "":
        return None, f"{location}: expected a text, got an empty column"
    label = _label(task, cells[layout.label])
    if label is None:
        wanted = f"one of {', '.join(task.labels)}" if task.labels else "a number"
        return None, f"{location}: label must be {wanted}, got {cells[layout.label]!r:.60}"
    return Labelled(cells[layout.text], label, pair, location), ""


def _label(task: GlueTask, cell: str) -> str | float | None:
    if task.labels:
        return cell if cell in task.labels else None
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def digest_of(data: TaskData) -> str:
    """Return a hash of all records, 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for records in (data.train, *data.dev.values()):
        for record in records:
            digest.update(f"{record.text}\t{record.pair}\t{record.label}\n".encode())
        digest.update(b"\n")
    return digest.hexdigest()
