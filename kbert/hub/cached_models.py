"""Models in the caches of Hugging Face and Kaggle: `kbert cache`."""

import json
import os
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
    snapshots = hugging_face.cache_folder().glob("models--*/snapshots/*")
    descriptions = [_describe(path) for path in snapshots]
    versions = kaggle.cache_folder().glob("*/*/*/*/*")
    descriptions += [_describe(path) for path in versions if path.name.isdigit() and path.is_dir()]

    models = [model for model in descriptions if model]
    models.sort(key=lambda model: (model.name.lower(), model.revision))
    return models


def _describe(folder: Path) -> CachedModel | None:
    address = fetching.address_of(folder)
    if address is None:
        return None
    name, _, revision = address.rpartition("@" if address.startswith("hf:") else "/")
    files = hugging_face.list_files(folder)
    size = sum((folder / file).stat().st_size for file in files)
    return CachedModel(
        name.removeprefix("hf://"),
        revision,
        _list_refs(folder),
        size,
        _kind(folder),
        has_model(files),
        str(folder),
    )


def _list_refs(folder: Path) -> tuple[str, ...]:
    """Return the branches and tags that stand for a snapshot."""
    root = folder.parent.parent / "refs"  # Kaggle has none
    refs = []
    for file in root.rglob("*"):
        if file.is_file() and file.read_text(errors="replace").strip() == folder.name:
            refs.append(file.relative_to(root).as_posix())
    return tuple(sorted(refs))


def measure_total() -> int:
    """Return the bytes of all models in the caches; files that revisions share count once."""
    files = set()
    for model in list_cached_models():
        folder = Path(model.path)
        files |= {os.path.realpath(folder / file) for file in hugging_face.list_files(folder)}
    return sum(os.path.getsize(file) for file in files)


def _kind(folder: Path) -> str:
    try:
        values = json.loads((folder / "config.json").read_bytes())
        return str(values.get("model_type") or values.get("class_name") or "bert")
    except (OSError, ValueError, AttributeError):
        return "bert" if (folder / "bert_config.json").is_file() else ""
