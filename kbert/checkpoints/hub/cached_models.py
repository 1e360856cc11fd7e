"""What the caches of Hugging Face and Kaggle hold: `kbert cache`."""

import json
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
        bytes: the size of its files; files that two revisions share count for each.
        kind: its model_type, or the class of KerasHub's backbone; "" without a configuration.
        is_whole: whether weights and configuration are there.
        path: its folder.
    """

    name: str
    revision: str
    bytes: int
    kind: str
    is_whole: bool
    path: str


def list_cached_models() -> list[CachedModel]:
    """List the models in the caches, by name; datasets and spaces are left out."""
    found = [_describe(path) for path in hugging_face.cache_folder().glob("models--*/snapshots/*")]
    versions = kaggle.cache_folder().glob("*/*/*/*/*")
    found += [_describe(path) for path in versions if path.name.isdigit() and path.is_dir()]
    return sorted((one for one in found if one), key=lambda one: (one.name.lower(), one.revision))


def _describe(folder: Path) -> CachedModel | None:
    address = fetching.address_of(folder)
    if address is None:
        return None
    name, _, revision = address.rpartition("@" if address.startswith("hf:") else "/")
    files = hugging_face.list_files(folder)
    return CachedModel(
        name.removeprefix("hf://"),
        revision,
        sum((folder / file).stat().st_size for file in files),
        _kind(folder),
        has_model(files),
        str(folder),
    )


def _kind(folder: Path) -> str:
    try:
        values = json.loads((folder / "config.json").read_bytes())
        return str(values.get("model_type") or values.get("class_name") or "bert")
    except (OSError, ValueError, AttributeError):
        return "bert" if (folder / "bert_config.json").is_file() else ""
