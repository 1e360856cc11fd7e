"""A run's folder as a checkpoint: the model that it came to (`kbert.training.run.run_folder`)."""

import os
from pathlib import Path

from kbert.checkpoints.model_files import README
from kbert.io import json_schema as js
from kbert.io.wording import way_to_resume

_MODELS = ("model.keras", "model")  # the same weights; the first is one file
_TASK = js.fields({"task": js.TEXT})
SETTINGS_FILE = "settings.json"
_SETTINGS = {"task", "run", "settings", "fingerprint"}


def is_run(path: Path) -> bool:
    """Return whether a folder is that of a run of `pretrain` or `finetune`."""
    file = path / SETTINGS_FILE
    try:
        if not file.is_file():
            return False
        settings = js.read(file, js.OBJECT)
        return set(settings) >= _SETTINGS
    except ValueError:  # somebody else's
        return False


def is_model_of_run(path: Path) -> bool:
    """Return whether a path is that of a model in a run's folder."""
    return path.name in _MODELS and is_run(path.parent)


def refuse_model_of_run(path: Path) -> None:
    """Raise a ValueError for a path to write to that is the model, or the adapter, of a run."""
    target = Path(os.path.realpath(path))
    if target.name in (*_MODELS, "adapter") and is_run(target.parent):
        raise ValueError(f"{path} must not be the model of a run: choose another place")


def find_card(model: Path) -> str | None:
    """Return the card of a model in a run's folder, whichever of its two files it is."""
    file = model.parent / "model" / README
    if not file.is_file() or not is_run(model.parent):
        return None
    return file.read_text(encoding="utf-8")


def model_of(path: Path) -> Path:
    """Return the model in a run's folder; raise a FileNotFoundError if the run is not finished."""
    task = js.read(path / SETTINGS_FILE, _TASK)["task"]
    if not (path / "result.json").is_file():
        raise FileNotFoundError(
            f"{path}: the run is not finished and has no model yet. To resume: "
            f"{way_to_resume(task, path)}"
        )
    for name in _MODELS:
        if (path / name).exists():
            return path / name
    raise FileNotFoundError(f"{path}: the run is finished, {' and '.join(_MODELS)} are gone")
