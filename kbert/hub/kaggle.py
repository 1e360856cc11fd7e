"""KerasHub's presets on Kaggle: found in kagglehub's cache without a network, else downloaded.

models/keras/bert/keras/bert_base_en/3/              the files of version 3
models/keras/bert/keras/bert_base_en/3.complete      all of them are there
…/bert_base_en/.complete/3/config.json.complete      this one is: KerasHub downloads one by one
"""

import contextlib
import os
import sys
from pathlib import Path

from kbert.hub.names import ModelName
from kbert.io import extras

_NEEDED = ("config.json", "model.weights.h5", "tokenizer.json", "assets/tokenizer/vocabulary.txt")


def cache_folder() -> Path:
    """Return the folder of models in kagglehub's cache, by KAGGLEHUB_CACHE."""
    root = os.environ.get("KAGGLEHUB_CACHE") or Path.home() / ".cache" / "kagglehub"
    return Path(root) / "models"


def find_cached(name: ModelName) -> Path | None:
    """Find a preset in the cache, its newest version unless one is named; opens no connection."""
    folder = cache_folder() / name.repo
    if name.revision:
        versions = [name.revision]
    else:
        entries = folder.iterdir() if folder.is_dir() else ()
        folders = [entry for entry in entries if entry.is_dir()]
        numbers = [entry.name for entry in folders if entry.name.isdigit()]
        versions = sorted(numbers, key=int, reverse=True)

    for version in versions:
        if is_whole(folder / version):
            return folder / version
    return None


def is_whole(folder: Path) -> bool:
    """Return whether the files of a version are all there: kagglehub writes them in their place."""
    has_weights = all((folder / name).is_file() for name in _NEEDED[:2])
    if not has_weights:
        return False

    completed = folder.parent / ".complete" / folder.name
    is_marked = folder.with_name(f"{folder.name}.complete").is_file()
    if is_marked or not completed.parent.is_dir():
        return True  # without any marks it is a copy of somebody's cache
    return all((completed / f"{name}.complete").is_file() for name in _NEEDED)


def download(name: ModelName) -> Path:
    """Download a preset by kagglehub, and return its folder in the cache."""
    extras.require(f"{name}, a model of Kaggle,", "kaggle", "kagglehub")
    # kagglehub writes what it does to stdout, where a command prints its result
    try:
        with contextlib.redirect_stdout(sys.stderr):
            import kagglehub

            return Path(kagglehub.model_download(str(name).removeprefix("kaggle://")))
    except OSError as error:  # those of requests are OSErrors without a number
        if error.errno:
            raise
        raise _explain_answer(name, error) from None
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):  # of other JSON
        raise ConnectionError(
            f"{name} is not in the cache, and Kaggle does not answer as it should: is a login page "
            "of the network in between? Download it again later"
        ) from None
    except Exception as error:  # kagglehub's own have no base of theirs
        if not type(error).__module__.startswith("kagglehub"):
            raise
        raise OSError(f"{name} cannot be downloaded from Kaggle: {error}") from None


def _explain_answer(name: ModelName, error: OSError) -> OSError:
    """Return the error for what Kaggle answered, or for no answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 404:
        return FileNotFoundError(f"Kaggle has no model {name}: check name and version")
    if status in (401, 403):
        return PermissionError(
            f"Kaggle refuses access to {name} (status {status}): accept the model's licence on "
            "its page, and log in with `kagglehub.login()` or set KAGGLE_API_TOKEN"
        )

    why = f"answers with status {status}" if status else "cannot be reached"
    return ConnectionError(  # which `fetching.fetch` may answer from the cache
        f"{name} is not in the cache, and Kaggle {why}: on a machine with a network, run "
        f"`kbert download {name} -o FOLDER`, and give the folder here"
    )
