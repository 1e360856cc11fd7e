"""Models in the caches of Hugging Face and Kaggle: `kbert cache`."""

import json
from dataclasses import dataclass
from pathlib import Path

from kbert.hub import fetching, hugging_face, kaggle
from kbert.hub.needed_files import has_model


@dataclass(frozen=True)
class CachedModel:
    """A model in a cache.

    Attributes:
        name: what `kbert.load` opens it by.
        revision: the commit, or Kaggle's version.
        refs: the branches and tags that stand for this commit; load(name) opens "main".
        bytes: the size of its files; files that two revisions share count for each.
        kind: its model_type, or the class of KerasHub's backbone; "" without a configuration.
        is_whole: whether weights and configuration are there.
        path: its folder.
    """

    name: str
    revision: str
    refs: tuple[str, ...]
    bytes: int
    kind: str
    is_whole: bool
    path: str


def list_cached_models() -> list[CachedModel]:
    """List the models in the caches, by name; datasets and spaces are left out."""
    models = []
    for repository in _scan_hugging_face():
        for snapshot in repository.revisions:
            refs = tuple(sorted(snapshot.refs))
            models.append(_describe(snapshot.snapshot_path, snapshot.size_on_disk, refs))
    for folder in _list_presets():
        models.append(_describe(folder, _measure(folder)))

    named = [model for model in models if model is not None]
    return sorted(named, key=lambda model: (model.name.lower(), model.revision))


def measure_total() -> int:
    """Return the bytes of all models in the caches; files that revisions share count once."""
    repositories = sum(repository.size_on_disk for repository in _scan_hugging_face())
    return repositories + sum(_measure(folder) for folder in _list_presets())


def _scan_hugging_face() -> list:
    """List Hugging Face's models; like `hf cache ls`, leave out those with damaged folders."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        cache = scan_cache_dir(hugging_face.cache_folder())
    except CacheNotFound:
        return []
    return [repository for repository in cache.repos if repository.repo_type == "model"]


def _list_presets() -> list[Path]:
    """List the folders of the presets in Kaggle's cache."""
    folders = kaggle.cache_folder().glob("*/*/*/*/*")
    presets = [folder for folder in folders if folder.name.isdigit() and folder.is_dir()]
    return presets


def _measure(folder: Path) -> int:
    files = hugging_face.list_files(folder)
    return sum((folder / file).stat().st_size for file in files)


def _describe(folder: Path, size: int, refs: tuple[str, ...] = ()) -> CachedModel | None:
    address = fetching.address_of(folder)
    if address is None:
        return None
    separator = "@" if address.startswith("hf:") else "/"
    name, _, revision = address.rpartition(separator)
    return CachedModel(
        name.removeprefix("hf://"),
        revision,
        refs,
        size,
        _kind(folder),
        has_model(hugging_face.list_files(folder)),
        str(folder),
    )


def _kind(folder: Path) -> str:
    try:
        values = json.loads((folder / "config.json").read_bytes())
        kind = values.get("model_type") or values.get("class_name")
        return str(kind or "bert")
    except (OSError, ValueError, AttributeError):
        return "bert" if (folder / "bert_config.json").is_file() else ""
