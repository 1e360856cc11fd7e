"""Uploading a model to Hugging Face, in one commit, with its card."""

import contextlib
import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kbert.checkpoints import formats, run_models
from kbert.checkpoints.bert import Bert, save
from kbert.checkpoints.model_files import README
from kbert.hub import hugging_face
from kbert.hub.model_card import fill_in_name, make_card
from kbert.hub.names import ModelName
from kbert.hub.needed_files import choose_files, find_readable
from kbert.io import json_schema as js
from kbert.io import printable
from kbert.io.interrupted_saves import refuse_interrupted
from kbert.io.progress import is_shown
from kbert.io.wording import first_few
from kbert.version import __version__

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

TIMEOUT_S = 5.0
_logger = logging.getLogger("kbert")
_FORMATS = ("transformers", "transformers_onnx", "google", "keras_hub")  # folders that kbert opens
_TEXTS = re.compile(r"README\.md|(LICENSE|NOTICE)[^/]*")
_OF_MODEL = re.compile(r"generation_config\.json|onnx/[^/]+\.onnx(_data)?")  # for other programs
_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN (a token that may write)"


@printable.escape_errors()
def push(folder: str | os.PathLike, name: str, private: bool = False) -> str:
    """Upload a model to Hugging Face in one commit; create its repository if necessary.

    What kbert reads is uploaded, one format of the weights, with the card (README.md), a licence
    and onnx/. Everything else stays: states of optimizers, logs, hidden files. A folder without a
    README.md gets a card if the repository has none. The same commit deletes the files of an
    earlier model in the repository.

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
    path = Path(folder)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such folder. Give a checkpoint's or a run's")
    if not path.is_dir():
        raise NotADirectoryError(
            f"{path}: a file: kbert convert writes it as a folder, which can be pushed"
        )
    if run_models.is_run(path):
        run_models.model_of(path)  # raises where the run is not finished
        path = path / "model"
        if not path.is_dir():
            raise FileNotFoundError(f"{path}: the run is finished, but its model/ was removed")
    return upload(path, _parse_target(name), private=private)


def push_model(bert: Bert, address: str, form: str, options: dict) -> None:
    """Save a model to a temporary folder, and upload it with a card; see `save`."""
    target = _check_target(address, form)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "model")
        save(bert, folder, format=form, **options)
        card = make_card(bert, base=bert.source, form=form)
        upload(folder, target, card=card)


def upload(path: Path, target: ModelName, *, card: str | None = None, private: bool = False) -> str:
    """Upload the model in a folder, see `push`; `card` is for a folder without a README.md."""
    refuse_interrupted(path, "to be pushed")
    files = _choose(path)
    card = _find_card(path, card, README in files)
    _require_token()
    from huggingface_hub import HfApi

    is_new = False
    try:
        with (
            _explain_errors(target),
            hugging_face.show_progress(is_shown() and sys.stderr.isatty()),
            warnings.catch_warnings(action="ignore"),  # of a user's own card without metadata
        ):
            api = HfApi()
            there = _list_there(api, target.repo)
            is_new = there is None
            if is_new:
                api.create_repo(target.repo, private=private or None)
            commit = api.create_commit(
                target.repo,
                _list_operations(path, files, there or [], target, card),
                commit_message=f"Model saved by kbert {__version__}",
            )
            oid = js.check(commit.oid, js.TEXT, "the answer", "commitOid")
    except (OSError, ValueError) as error:
        if is_new and len(error.args) == 1:  # else it is of a file here
            error.args = (f"{error}. The new repository stays, without a model",)
        raise
    return str(ModelName("hf", target.repo, oid))


def _list_operations(
    path: Path, files: list[str], there: list[str], target: ModelName, card: str
) -> list:
    """Return a commit's operations: the files and the card are added, an older model deleted."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    names = {*files, README}
    if README in there and README not in files:
        names.remove(README)
        _logger.warning("%s keeps its README.md: %s has none", target, path)
    contents = {README: fill_in_name(card, target.repo).encode()}
    operations: list = []
    for name in sorted(names):
        file = contents.get(name, path / name)
        operations.append(CommitOperationAdd(name, file))

    old = set(find_readable(there))
    old.update(name for name in there if _OF_MODEL.fullmatch(name))
    operations += [CommitOperationDelete(name, is_folder=False) for name in old - names]
    return operations


def _check_target(name: str, form: str) -> ModelName:
    """Return the name of a model to write; raise if it cannot be pushed, before it is written."""
    target = _parse_target(name)
    if form not in _FORMATS:
        raise ValueError(
            f"format must be one of {', '.join(_FORMATS)} for Hugging Face, got {form!r}: kbert "
            "opens no other folder there"
        )
    _require_token()
    return target


def _parse_target(name: str) -> ModelName:
    """Read the name of a model to write; refuse all but Hugging Face's owner/name."""
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


def _find_card(path: Path, card: str | None, is_there: bool) -> str:
    """Return the card in a folder if one is there, else `card`, else one of its configuration."""
    with formats.open_checkpoint(path) as checkpoint:
        made = card or make_card(checkpoint, base=checkpoint.address, form=checkpoint.format)
    try:
        return (path / README).read_text(encoding="utf-8") if is_there else made
    except UnicodeDecodeError:
        raise ValueError(f"{path / README} must be UTF-8, got other bytes: convert it") from None


def _is_hidden(name: str) -> bool:
    """Return whether a file or a folder on the way to it begins with a dot."""
    return any(level.startswith(".") for level in Path(name).parts)


def _choose(path: Path) -> list[str]:
    """Return the files to upload; the log says which stay, hidden ones apart."""
    names = sorted(hugging_face.list_files(path))
    names = [name for name in names if not _is_hidden(name)]
    settings, weights = choose_files(names)
    texts = [name for name in names if _TEXTS.fullmatch(name)]
    of_model = [name for name in names if _OF_MODEL.fullmatch(name)]

    root = path.absolute()  # a hub's cache has the files of a snapshot in blobs/
    if root.parent.name == "snapshots":
        root = root.parent.parent
    root = root.resolve()
    outside = []
    for name in texts:
        target = (path / name).resolve()
        if not target.is_relative_to(root):
            outside.append(name)
    chosen = {*settings, *weights, *texts, *of_model}.difference(outside)

    if outside:
        _logger.warning("not pushed, links out of the folder: %s", first_few(outside, 5))
    unread = [name for name in names if name not in chosen and name not in outside]
    if unread:
        _logger.warning("not pushed, as kbert does not read it: %s", first_few(unread, 5))
    return sorted(chosen)


def _list_there(api: "HfApi", repo: str) -> list[str] | None:
    """List a repository's files, None without one; only this first request has a time limit."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        files = api.model_info(repo, timeout=TIMEOUT_S).siblings or ()
    except RepositoryNotFoundError:
        return None
    names = [file.rfilename for file in files]
    return js.check(names, js.list_of(js.TEXT), "the answer")


@contextlib.contextmanager
def _explain_errors(name: ModelName) -> Iterator[None]:
    """Turn huggingface_hub's errors into one line that says what to do."""
    from huggingface_hub import errors

    host = hugging_face.hub_host()

    try:
        yield
    except errors.OfflineModeIsEnabled:
        raise ConnectionError(
            f"{name} cannot be pushed, since HF_HUB_OFFLINE forbids the network: unset it"
        ) from None
    except errors.HfHubHTTPError as error:
        raise _explain_status(name, error) from None
    except hugging_face.OTHER_SHAPE as error:
        reason = " ".join(str(error).split())
        if not reason.startswith("Invalid metadata in README"):
            raise hugging_face.make_answer_error(f"{name} is not pushed") from None
        raise ValueError(  # of a user's own card, in several lines
            f"{name} is not pushed: {reason} Correct the metadata at the top of README.md, between "
            "the lines ---, and push again"
        ) from None
    except RuntimeError as error:  # of an upload, after huggingface_hub has tried it again
        raise ConnectionError(
            f"{name} is not pushed, since the upload to {host} broke off ({error}): push again; to "
            "a hub without Xet, set HF_HUB_DISABLE_XET=1"
        ) from None
    except Exception as error:
        package = type(error).__module__.split(".")[0]
        if package not in ("httpx", "httpx2"):
            raise
        raise ConnectionError(
            f"{name} cannot be pushed, since {host} cannot be reached ({type(error).__name__}): "
            "push again when there is a network"
        ) from None


def _explain_status(name: ModelName, error: "HfHubHTTPError") -> OSError:
    """Return the error for an answer of the hub that refuses, or fails."""
    host = hugging_face.hub_host()
    status = error.response.status_code
    if status in (401, 403):
        return PermissionError(
            f"{host} refuses to write {name.repo} (status {status}): check the owner's name, "
            f"and {_LOG_IN}"
        )
    message = error.server_message or ""
    reason = " ".join(message.split())[:200]
    answer = f"status {status}: {reason}" if reason else f"status {status}"
    return ConnectionError(
        f"{name} cannot be pushed, since {host} answers with {answer}: push again later"
    )
