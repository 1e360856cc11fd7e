"""The tasks of GLUE, a table (tasks.tsv) with their columns, labels, metrics and dev files.

Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language
Understanding" (arXiv 1804.07461), table 1; the files are those of its download, gluebenchmark.com.
"""

import hashlib
import itertools
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kbert.data.labelled.columns import ColumnOptions
from kbert.data.labelled.table_format import TableLayout, TableRow
from kbert.data.labelled.text_lines import read_rows
from kbert.io.row_formats import read_package_table
from kbert.tasks.classification.reading import Labelled, find_columns
from kbert.tasks.classification.tables import make_classified, make_numbered
from kbert.tasks.finetuning.task import task_of
from kbert.training.settings.setting_rules import check_settings

_logger = logging.getLogger("kbert")
_MOST_BROKEN = 0.001  # of QQP's lines, which may be left out


class GlueTask(NamedTuple):
    """A row of tasks.tsv.

    Attributes:
        name: as GLUE writes it, of its folder too.
        kind: the task of `kbert.finetune`.
        columns: names of the columns of the text, the second text ("": there is none), the label.
        labels: all labels.
        metrics: the official ones, by name in `kbert.tasks.common.metrics`.
        header: the columns of files without a header; one "": they have one.
        suffixes: what is put behind the name, for each dev file.
        dev: its dev files.
    """

    name: str
    kind: str
    columns: list[str]
    labels: list[str]
    metrics: list[str]
    header: list[str]
    suffixes: list[str]
    dev: list[str]


TASKS = {}
for _name, _kind, *_cells in read_package_table(__package__, "tasks.tsv"):
    TASKS[_name] = GlueTask(_name, _kind, *[cell.split(",") for cell in _cells])
# "sane" is the selection of cramming (Geiping and Goldstein 2022, arXiv 2212.14034, section 5, and
# cramming/config/eval/GLUE_sane.yaml in its repository): without WNLI, as in BERT's paper, which
# leaves it out because all systems did worse there than the most frequent label.
SUBSETS = {"all": list(TASKS), "sane": [name for name in TASKS if name != "WNLI"]}


def find_tasks(names: str | Sequence[str]) -> list[GlueTask]:
    """Return the tasks of some names, in GLUE's order; "sst2" is SST-2.

    `names` are a key of `SUBSETS`, names between commas, or a list of them.
    """
    if isinstance(names, str):
        names = SUBSETS.get(names) or names.split(",")
    wanted = {_simplify(str(name)) for name in names}
    tasks = [task for task in TASKS.values() if _simplify(task.name) in wanted]
    if not tasks or len(tasks) != len(wanted):
        raise ValueError(f"tasks must be of {', '.join([*SUBSETS, *TASKS])}, got {names!r}")
    return tasks


def _simplify(name: str) -> str:
    return re.sub(r"\W|_", "", name).lower()


def find_folder(data, task: GlueTask) -> Path:
    """Return a task's folder within GLUE's; that of SST-2 may be called sst2."""
    for folder in sorted(Path(data).glob("*/")):
        if _simplify(folder.name) == _simplify(task.name):
            return folder
    raise FileNotFoundError(
        f"{data}: expected a folder {task.name}, got none: choose tasks that are there"
    )


def read_task(task: GlueTask, data) -> list[list[Labelled]]:
    """Return the records of a task's train.tsv and of each dev file in GLUE's folder `data`.

    Raises:
        FileNotFoundError: there is no folder or file.
        ValueError: a file is not in the task's format, with file and line.
    """
    folder = find_folder(data, task)
    return [_read_file(task, folder / name) for name in ("train.tsv", *task.dev)]


def _read_file(task: GlueTask, path: Path) -> list[Labelled]:
    """Return the records of a file.

    `read_table` cannot read it: two of the tasks may have no header, and QQP's own download breaks
    a few lines, which are left out with a warning, as `datasets` leaves them out.
    """
    rows = read_rows(path)
    text, pair, label = task.columns
    options = ColumnOptions(text, pair or None, label)
    names = task.header
    if rows and (len(names) == 1 or set(options.names) <= set(rows[0][1])):
        names = rows.pop(0)[1]
    layout = TableLayout(names, find_columns(names, f"{path}, line 1", options))
    make_record = make_classified if task.kind == "classify" else make_numbered

    records, broken = [], []
    is_qqp = task.name == "QQP"
    for location, cells in rows:
        is_whole = len(cells) == len(names) and not (is_qqp and "" in cells)
        record = make_record(TableRow(location, layout, cells)) if is_whole else None
        if record is None:
            broken.append(location)
        else:
            records.append(record)
    if broken or not records:
        place = broken[0] if broken else path
        problem = (
            f"{place}: expected {len(names)} columns for {task.name}, a label in one, as "
            f"{len(records):,} of {len(rows):,} lines have"
        )
        most_broken = max(3, _MOST_BROKEN * len(records)) if is_qqp else 0
        if not records or len(broken) > most_broken:
            raise ValueError(problem)
        _logger.warning("%s: the others are left out", problem)
    task_of(task.kind).check_labels(records, task.labels)
    return records


def digest_records(data: Sequence[Sequence[Labelled]]) -> str:
    """Return a hash of all records, 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for records in data:
        for record in records:
            digest.update(f"{record.text}\t{record.pair}\t{record.label}\n".encode())
        digest.update(b"\n")
    return digest.hexdigest()


class Setting(NamedTuple):
    """Point of the hyperparameter grid.

    Attributes:
        batch_size, learning_rate, epochs: settings of its runs.
    """

    batch_size: int
    learning_rate: float
    epochs: int

    def __str__(self) -> str:
        return f"batch {self.batch_size}, rate {self.learning_rate:g}, epochs {self.epochs}"


def list_settings(**grid: Sequence) -> list[Setting]:
    """Return every combination of a grid's values, by argument and in the order of `Setting`."""
    for name, values in grid.items():
        if not isinstance(values, Sequence) or not values:
            raise ValueError(f"{name} must be one number or more, in a list, got {values!r}")
    points = [Setting(*values) for values in itertools.product(*grid.values())]
    for point in points:
        check_settings(point._asdict())
    return list(dict.fromkeys(points))
