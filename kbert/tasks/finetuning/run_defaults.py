"""Settings of a run that also hold when its model is evaluated or used."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbert.checkpoints import run_models
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


def complete_options(run: RunFolder | None, task: str, data, chosen: Mapping) -> dict[str, Any]:
    """Return the options of an evaluation that are not None, with a run's own for the others.

    `chosen` are the user's, by the names of `FinetuningSettings.evaluation`. The run's columns are
    left out if rows in memory do not have them, and its `no_header` if the user names columns.
    """
    options = {name: value for name, value in chosen.items() if value is not None}
    if run is None or run.settings.get("task") != task:
        return options
    own = {name: run.settings.get(name) for name in FinetuningSettings.evaluation}
    own = {name: value for name, value in own.items() if value not in (None, False)}
    if task_of(task).trains_embeddings:
        own.pop("max_length", None)  # such a model has its own

    columns = {name: own.pop(name) for name in COLUMNS if name in own}
    names: list[str] = []
    for value in columns.values():
        names += [value] if isinstance(value, str) else value
    if _has_columns(data, names):
        own |= columns
    if any(name in options for name in COLUMNS):
        own.pop("no_header", None)

    own = {name: value for name, value in own.items() if name not in options}
    if own:
        listed = ", ".join(f"{name}={value!r}" for name, value in own.items())
        _logger.warning("%s: settings of the run are used: %s", run.path, listed)
    return own | options


def trains_pairs(run: RunFolder | None) -> bool | None:
    """Return whether a run's training data are pairs of texts; None: that is not known."""
    train = None if run is None else run.summary.get("train")
    return train.get("pairs") if isinstance(train, dict) else None


def warn_of_pairs(run: RunFolder | None, are_pairs: bool, way: str = "") -> None:
    """Log that texts are no pairs, or are pairs, unlike a run's training data; `way` ends it."""
    trained_on_pairs = trains_pairs(run)
    if run is None or trained_on_pairs in (None, are_pairs):
        return
    kinds = "pairs of texts" if trained_on_pairs else "single texts"
    others = "pairs" if are_pairs else "single texts"
    _logger.warning("%s was trained on %s, and gets %s%s", run.path, kinds, others, way)


def _has_columns(data, wanted: list[str]) -> bool:
    """Return whether data may have some columns: a file, or rows in memory with these names."""
    if isinstance(data, (str, os.PathLike)):
        return True
    names = getattr(data, "columns", None)  # a DataFrame
    if names is None and isinstance(data, Mapping):
        names = data
    if names is None:
        names = getattr(data, "column_names", None)  # a datasets.Dataset
    if names is None and isinstance(data, list) and data and isinstance(data[0], Mapping):
        names = data[0]
    known = {str(name).strip().lower() for name in (() if names is None else names)}
    return known >= {name.strip().lower() for name in wanted}
