"""From a path or a model's name to a folder: a local path, then the caches, then the network."""

import functools
import json
import logging
import os
import re
import shutil
from pathlib import Path

from kbert.checkpoints.model_files import SOURCE_FILE
from kbert.graph.aliases import answer_old_names
from kbert.hub import hugging_face, kaggle
from kbert.hub.names import ModelName, explain_missing, list_known_models
from kbert.hub.needed_files import choose_files
from kbert.io import json_schema as js
from kbert.io import printable
from kbert.io.folders import atomic_folder
from kbert.io.interrupted_saves import is_unmoved

_logger = logging.getLogger("kbert")
_HUBS = {"hf": hugging_face, "kaggle": kaggle}


def locate(source: str | os.PathLike) -> Path:
    """Return the path of a local path, else of a model's name; download what is in no cache."""
    path = Path(source)
    if not path.exists():
        return fetch(_parse(source))
    warn_of_namesake(os.fspath(source))

    root = path.absolute()
    if root.name == "snapshots":
        root = root.parent
    snapshots = root / "snapshots"
    if not root.name.startswith("models--") or not snapshots.is_dir():
        return path

    # A model's folder of Hugging Face's cache stands for its snapshot.
    snapshot = hugging_face.find_snapshot(root, "main")
    if snapshot is not None:
        return snapshot
    commits = sorted(entry.name for entry in snapshots.iterdir() if entry.is_dir())
    if len(commits) != 1:
        raise ValueError(
            f"{path} must have one snapshot, or a file refs/main that names one, got "
            f"{', '.join(commits) or 'none'}: give the path of one, {root}/snapshots/COMMIT"
        )
    return root / "snapshots" / commits[0]


def pin(source: str | os.PathLike) -> str:
    """Return what opens the same model later: its address with the commit, or an absolute path."""
    refuse_unknown(source)
    path = Path(source)
    if path.exists() or ModelName.parse(os.fspath(source)) is not None:
        path = locate(source)
    address = address_of(path)
    path = path.absolute()

    # A path in a cache is where the address leads to again.
    caches = [hugging_face.cache_folder(), kaggle.cache_folder()]
    is_cached = any(cache.absolute() in path.parents for cache in caches)
    endings = ("@" + path.name, "/" + path.name)
    if address is not None and is_cached and address.endswith(endings):
        return address  # of the whole model, not of a part
    return str(path)


def refuse_unknown(source: str | os.PathLike) -> None:
    """Raise a FileNotFoundError for what is neither a checkpoint's path nor a model's name."""
    path = Path(source)
    if path.exists() or is_unmoved(path):
        return
    index = path.with_name(f"{path.name}.index")
    if not index.is_file() and ModelName.parse(os.fspath(source)) is None:
        raise FileNotFoundError(explain_missing(os.fspath(source)))


def fetch(name: ModelName, *, update: bool = False) -> Path:
    """Return the folder of a model in the caches; download a missing one, or to `update` it."""
    hub = _HUBS[name.hub]
    cached = hub.find_cached(name)
    if cached is not None and not (update and cached.name != name.revision):
        return cached
    try:
        return hub.download(name)
    except ConnectionError:
        if cached is not None:
            _warn_of_cache(name)
            return cached

        part = None
        if name.hub == "hf":
            part = hugging_face.find_cached(name, certain=False)
        if part is None:
            raise
        _warn_of_cache(name, ", where files of the tokenizer or modules may be missing")
        return part


def _warn_of_cache(name: ModelName, restriction: str = "") -> None:
    """Say that a model is used as it is in the cache, because no hub can be reached."""
    from huggingface_hub.constants import HF_HUB_OFFLINE

    why = "HF_HUB_OFFLINE forbids the network" if HF_HUB_OFFLINE else "the hub cannot be reached"
    _logger.warning("%s: %s is used as it is in the cache%s", why, name, restriction)


@printable.escape_errors()
@answer_old_names
def download(name: str, output: str | os.PathLike | None = None) -> Path:
    """Download the newest commit of a model: the files that kbert reads, weights in one format.

    `load` opens what is in the cache without asking for a newer commit. Without a network this
    returns what is in the cache, with a warning.

    Args:
        name: such as "bert-base-uncased", "google-bert/bert-base-uncased@COMMIT",
            "kaggle://keras/bert/keras/bert_base_en".
        output: a new or empty folder to copy the files to; None: they stay in the cache of
            Hugging Face or Kaggle, where `load` finds them by the name.

    Returns:
        The folder of the files.

    Raises:
        FileNotFoundError: no such model or revision, or no weights that kbert reads.
        FileExistsError: `output` is not empty.
        PermissionError: a model that is gated or private.
        ConnectionError: no network.
        OSError: the cache or the folder cannot be written.
    """
    if ModelName.parse(os.fspath(name)) is None and Path(name).exists():
        raise ValueError(f"{name} is a local path: there is nothing to download")
    parsed = _parse(name, local=False)
    if output is None:
        return fetch(parsed, update=True)

    folder = Path(output)
    is_empty = folder.is_dir() and not any(folder.iterdir())
    is_free = is_empty or not folder.exists()
    if not is_free:
        raise FileExistsError(f"{folder} must be a new or an empty folder")

    source = fetch(parsed, update=True)
    settings, weights = choose_files(hugging_face.list_files(source))
    with atomic_folder(folder) as part:
        for file in settings + weights:
            (part / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / file, part / file)
        address = {"address": address_of(source)}
        (part / SOURCE_FILE).write_text(json.dumps(address) + "\n")
    return folder


def address_of(path: Path) -> str | None:
    """Return the address, with commit or version, of a path in a hub's cache or a copy."""
    if (path / SOURCE_FILE).is_file():  # `download` wrote the folder
        values = js.read(path / SOURCE_FILE, js.OBJECT)
        address = values.get("address")
        return address if isinstance(address, str) else None

    text = path.absolute().as_posix()
    match = re.search(r"/models--([^/]+)/snapshots/([0-9a-f]{40})(/|$)", text)
    if match:
        repo = match[1].replace("--", "/", 1)
        name = ModelName.parse(repo)
        return str(ModelName("hf", name.repo, match[2])) if name else None

    kaggle_models = f"{kaggle.cache_folder().absolute().as_posix()}/"
    if text.startswith(kaggle_models):
        levels = text.removeprefix(kaggle_models).split("/")
        address = "/".join(levels[:5])
        name = ModelName.parse(f"kaggle://{address}")
        return str(name) if name and name.revision else None
    return None


def _parse(source: str | os.PathLike, *, local: bool = True) -> ModelName:
    name = ModelName.parse(os.fspath(source))
    if name is None:
        raise FileNotFoundError(explain_missing(os.fspath(source), local=local))
    return name


@functools.cache  # once for each text
def warn_of_namesake(text: str) -> None:
    """Say that a local path is opened where a model has the same name."""
    models = list_known_models()
    addresses = {name: row["address"] for name, row in models.items()}
    address = addresses.get(text, text)
    folder = f"models--{text.replace('/', '--')}"
    cached = hugging_face.cache_folder() / folder
    if address in addresses.values() or cached.is_dir():
        if "://" not in address:
            address = f"hf://{address}"
        _logger.warning(
            "%s is read from the local path of this name (%s means the model on the hub)",
            text,
            address,
        )
