"""Point huggingface_hub to a local hub and an empty cache, here and in processes of a test."""

import sys
from pathlib import Path

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
    import time
    from types import SimpleNamespace

    from huggingface_hub import file_download
    from huggingface_hub.utils import _http

    for module in (file_download, _http):
        at_once = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: None})
        monkeypatch.setattr(module, "time", at_once)
