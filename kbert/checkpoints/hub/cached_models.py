"""Models in the caches of Hugging Face and Kaggle: `kbert cache`."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints.hub import fetching, hugging_face, kaggle
from kbert.checkpoints.hub.needed_files import has_model


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
    models = [_describe(path) for path in hugging_face.cache_folder().glob("models--*/snapshots/*")]
    versions = kaggle.cache_folder().glob("*/*/*/*/*")
    models += [_describe(path) for path in versions if path.name.isdigit() and path.is_dir()]
    return sorted((one for one in models if one), key=lambda one: (one.name.lower(), one.revision))


def _describe(folder: Path) -> CachedModel | None:
    address = fetching.address_of(folder)
    if address is None:
        return None
    name, _, revision = address.rpartition("@" if address.startswith("hf:") else "/")
    files = hugging_face.list_files(folder)
    refs = folder.parent.parent / "refs"  # Kaggle has none
    named = [file for file in refs.rglob("*") if file.is_file()]
    named = [f for f in named if f.read_text(errors="replace").strip() == folder.name]
    return CachedModel(
        name.removeprefix("hf://"),
        revision,
        tuple(sorted(file.relative_to(refs).as_posix() for file in named)),
        sum((folder / file).stat().st_size for file in files),
        _kind(folder),
        has_model(files),
        str(folder),
    )


def measure_total() -> int:
    """Return the bytes of all models in the caches; files that revisions share count once."""
    files = {
        os.path.realpath(Path(one.path) / file)
        for one in list_cached_models()
        for file in hugging_face.list_files(Path(one.path))
    }
    return sum(os.path.getsize(file) for file in files)


def _kind(folder: Path) -> str:
    try:
        values = json.loads((folder / "config.json").read_bytes())
        return str(values.get("model_type") or values.get("class_name") or "bert")
    except (OSError, ValueError, AttributeError):
        return "bert" if (folder / "bert_config.json").is_file() else ""
