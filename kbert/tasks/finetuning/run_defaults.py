"""Settings of a run that also hold when its model is evaluated or used."""

import itertools
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbert.checkpoints import run_models
from kbert.data.labelled.in_memory import iterate_records
from kbert.data.labelled.parquet_file import is_parquet
from kbert.data.labelled.text_lines import has_json_lines
from kbert.tasks.finetuning.settings import COLUMNS, FinetuningSettings
from kbert.tasks.finetuning.task import task_of
from kbert.training.run.run_folder import RunFolder

_logger = logging.getLogger("kbert")


def find_run(source) -> RunFolder | None:
    """Return the fine-tuning run whose folder, or whose model in it, a source is; else None."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = Path(source)
    folder = path.parent if run_models.is_model_of_run(path) else path
    if not run_models.is_run(folder):
        return None
    run = RunFolder.open(folder)
    return run if run.task == FinetuningSettings.command else None


def peek_names(data, run: RunFolder | None) -> tuple[Any, list[str] | None]:
    """Return the data, unchanged, and the names of the columns of rows in memory.

    None: the data are a file, which names its own columns, or there is no run to use them for. The
    list is empty where rows have no names: tuples. A generator gives its rows once, so what is
    returned in its place begins with the row that was looked at.
    """
    if run is None or isinstance(data, (str, os.PathLike)):
        return data, None

    sample = data
    if isinstance(data, Iterator):
        sample = list(itertools.islice(data, 1))
        data = itertools.chain(sample, data)
    _, row = next(iterate_records(sample, "data"), ("", None))
    if not isinstance(row, dict):
        return data, []
    return data, [str(name) for name in row]


def has_named_columns(data) -> bool:
    """Return whether data are a file whose rows name their columns: JSON lines or Parquet."""
    is_path = isinstance(data, (str, os.PathLike))
    return is_path and (has_json_lines(Path(data)) or is_parquet(data))


def complete_options(
    run: RunFolder | None,
    task: str,
    names: list[str] | None,
    chosen: Mapping,
    has_names: bool = False,
) -> dict[str, Any]:
    """Return the options of an evaluation that are not None, with a run's own for the others.

    `chosen` are the user's, by the names of `FinetuningSettings.evaluation`. `names` are those of
    `peek_names`, and `has_names` whether the data are a file that names the columns in each row.
    """
    options = {name: value for name, value in chosen.items() if value is not None}
    if run is None or run.settings.get("task") != task:
        return options

    defaults = {}
    for name in FinetuningSettings.evaluation:
        value = run.settings.get(name)
        if value not in (None, False):
            defaults[name] = value
    if task_of(task).trains_embeddings:
        defaults.pop("max_length", None)  # such a model has its own
    defaults = _choose_columns(defaults, options, names, has_names)

    used = {name: value for name, value in defaults.items() if name not in options}
    if used:
        listed = ", ".join(f"{name}={value!r}" for name, value in used.items())
        _logger.warning("%s: settings of the run are used: %s", run.path, listed)
    return used | options


def _choose_columns(
    defaults: dict, options: Mapping, names: list[str] | None, has_names: bool
) -> dict[str, Any]:
    """Return a run's settings without the columns that do not hold for an evaluation's data.

    A column holds even if the data lack it: their reading then says so, rather than reading another
    one. Rows in memory, JSON lines and Parquet have no numbered columns, as files without a header
    have, and tuples none.
    """
    left_out = set()
    if any(name in options for name in COLUMNS):
        left_out.add("no_header")
    if "label_column" in options:
        left_out.add("label_columns")
    if "label_columns" in options:
        left_out.add("label_column")
    if has_names and defaults.get("no_header"):
        left_out |= {"no_header", *COLUMNS}

    if names is not None:
        left_out.add("no_header")
        for name in COLUMNS:
            value = defaults.get(name, ())
            columns = [value] if isinstance(value, str) else value
            numbered = [column for column in columns if column.isdecimal()]
            if not names or not set(numbered) <= set(names):
                left_out.add(name)
    return {name: value for name, value in defaults.items() if name not in left_out}


def trains_pairs(run: RunFolder | None) -> bool | None:
    """Return whether a run's training data are pairs of texts; None: that is not known."""
    train = None if run is None else run.summary.get("train")
    return train.get("pairs") if isinstance(train, dict) else None


def warn_of_pairs(run: RunFolder | None, are_pairs: bool, way: str = "") -> None:
    """Log that texts are no pairs, or are pairs, unlike a run's training data; `way` ends it."""
    trained_on_pairs = trains_pairs(run)
    if run is None or trained_on_pairs in (None, are_pairs):
        return
    kind = "pairs of texts" if trained_on_pairs else "single texts"
    received = "pairs" if are_pairs else "single texts"
    _logger.warning("%s was trained on %s, and gets %s%s", run.path, kind, received, way)
