"""Uploading a model to Hugging Face, in one commit, with its card."""

import contextlib
import fnmatch
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kbert.checkpoints import formats, run_models
from kbert.checkpoints.hub import hugging_face
from kbert.checkpoints.hub.model_card import PLACEHOLDER, README, make_card
from kbert.checkpoints.hub.names import ModelName
from kbert.checkpoints.hub.needed_files import choose_files
from kbert.io.progress import is_said
from kbert.io.wording import first_few

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_TIMEOUT_S = 5.0
_logger = logging.getLogger("kbert")
_FORMATS = ("transformers", "transformers_onnx", "google", "keras_hub")  # folders that kbert opens
_ALSO = (README, "LICENSE*", "NOTICE*", "generation_config.json", "onnx/*.onnx", "onnx/*.onnx_data")
_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN; the token must be one that may write"


def push(folder: str | os.PathLike, name: str, private: bool = False) -> str:
    """Upload a model to Hugging Face in one commit; create its repository if necessary.

    What kbert reads is uploaded, one format of the weights, with the card (README.md), a licence
    and onnx/. Everything else stays: states of optimizers, logs, hidden files. A folder without a
    README.md gets a card.

    Args:
        folder: the folder of a checkpoint that `load` opens; or a finished run, whose folder
            model/ is uploaded.
        name: owner/name, or hf://owner/name.
        private: whether a new repository can be seen by its owner alone.

    Returns:
        The address of the commit, hf://owner/name@COMMIT, which `load` opens.

    Raises:
        ValueError: a name that is none of Hugging Face's, or a folder without a checkpoint.
        FileNotFoundError: no such folder, or a run that is not finished.
        PermissionError: not logged in, or no right to write there.
        ConnectionError: no network.
    """
    if not isinstance(folder, (str, os.PathLike)):
        raise ValueError(
            f"push must be given a folder, got a {type(folder).__name__}: save(bert, "
            f"'hf://{name}') uploads a model"
        )
    target, path = _parse_target(name), _find_model(folder)
    card, files = _find_card(path), _choose(path)
    _require_token()
    from huggingface_hub import CommitOperationAdd, HfApi

    from kbert import __version__

    added = [CommitOperationAdd(file, path / file) for file in files if file != README]
    added.append(CommitOperationAdd(README, card.replace(PLACEHOLDER, target.repo).encode()))
    with (
        _explained_errors(target),
        hugging_face.shown_progress(is_said()),
        warnings.catch_warnings(action="ignore"),  # of a user's own card without metadata
    ):
        api = HfApi()
        if not _exists(api, target.repo):
            api.create_repo(target.repo, private=private or None)
        commit = api.create_commit(
            target.repo, added, commit_message=f"Model saved by kbert {__version__}"
        )
    return str(ModelName("hf", target.repo, commit.oid))


def check_target(name: str, form: str) -> None:
    """Raise where a model cannot be pushed, before it is written.

    Raises:
        ValueError: a name that is none of Hugging Face's; a format that kbert does not open there.
        PermissionError: not logged in.
    """
    _parse_target(name)
    if form not in _FORMATS:
        raise ValueError(
            f"format must be one of {', '.join(_FORMATS)} for Hugging Face, got {form!r}: kbert "
            "opens no other folder there"
        )
    _require_token()


def _parse_target(name: str) -> ModelName:
    """Read the name of a model to write.

    Raises:
        ValueError: it is not Hugging Face's owner/name.
    """
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    if str(name).startswith("kaggle:"):
        raise ValueError(
            f"kbert pushes only to Hugging Face, got {name}: save(bert, FOLDER, "
            "format='keras_hub') writes what kagglehub.model_upload takes"
        )
    repo = str(name).removeprefix("hf:").lstrip("/")
    try:
        validate_repo_id(repo)
        target = ModelName.parse(f"hf://{repo}")
    except (HFValidationError, ValueError):
        target = None
    if target is None:
        raise ValueError(f"the model's name must be owner/name on Hugging Face, got {name!r}")
    return target


def _require_token() -> None:
    """Raise a PermissionError where nobody is logged in to Hugging Face."""
    from huggingface_hub import get_token

    if get_token() is None:
        raise PermissionError(f"you are not logged in to Hugging Face: {_LOG_IN}")


def _find_model(folder: str | os.PathLike) -> Path:
    path = Path(folder)
    if not path.exists():
        raise FileNotFoundError(2, "no such folder", str(path))
    if not path.is_dir():
        raise NotADirectoryError(
            20, "a file: kbert convert writes it as a folder, which can be pushed", str(path)
        )
    if run_models.is_one(path):
        run_models.model_of(path)  # raises where the run is not finished
        path = path / "model"
        if not path.is_dir():
            raise FileNotFoundError(2, "the run is finished, but its model/ was removed", str(path))
    return path


def _find_card(path: Path) -> str:
    """Return the card in a folder, else one that is made of its configuration.

    Raises:
        ValueError, OSError: no checkpoint is there.
    """
    with formats.opened(path) as checkpoint:
        card = make_card(checkpoint, base=checkpoint.address, form=checkpoint.format)
    file = path / README
    return file.read_text(encoding="utf-8") if file.is_file() else card


def _choose(path: Path) -> list[str]:
    """Return the files to upload; the log says which stay, hidden ones apart."""
    names = sorted(hugging_face.list_files(path))
    settings, weights = choose_files(names)
    also = [name for name in names if any(fnmatch.fnmatch(name, one) for one in _ALSO)]
    chosen = {*settings, *weights, *also}
    hidden = [name for name in names if any(part[0] == "." for part in Path(name).parts)]
    if left := sorted({*names} - chosen - {*hidden}):
        _logger.warning("not pushed, as kbert does not read it: %s", first_few(left, 5))
    return sorted(chosen - {*hidden})


def _exists(api: "HfApi", repo: str) -> bool:
    """Return whether a model is there; of all requests this first one has a time limit."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        api.model_info(repo, timeout=_TIMEOUT_S)
    except RepositoryNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _explained_errors(name: ModelName) -> Iterator[None]:
    """Turn huggingface_hub's errors into one line that says what to do."""
    from huggingface_hub import constants, errors

    host = constants.ENDPOINT.partition("://")[2].rpartition("@")[2]
    try:
        yield
    except errors.OfflineModeIsEnabled:
        raise ConnectionError(
            f"{name} cannot be pushed, since HF_HUB_OFFLINE forbids the network: unset it"
        ) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise PermissionError(
                f"{host} refuses to write {name.repo} (status {status}): check the owner's name, "
                f"and {_LOG_IN}"
            ) from None
        said = " ".join((error.server_message or "").split())[:200]
        raise ConnectionError(
            f"{host} answers with status {status}{': ' if said else ''}{said}: push again later"
        ) from None
    except RuntimeError as error:  # of an upload, after huggingface_hub has tried it again
        raise ConnectionError(
            f"the upload to {host} broke off ({error}): push again; to a hub without Xet, set "
            "HF_HUB_DISABLE_XET=1"
        ) from None
    except ValueError as error:  # metadata of a user's own card, in several lines
        raise ValueError(" ".join(str(error).split())) from None
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("httpx", "httpx2"):
            raise
        raise ConnectionError(
            f"{name} cannot be pushed, since {host} cannot be reached ({type(error).__name__}): "
            "push again when there is a network"
        ) from None
