"""The operations of this process's backend."""

import pytest

from kbert import ops


@pytest.fixture
def selected(monkeypatch):
    """The operations that kbert's layers use, on a CPU here."""
    monkeypatch.setattr(ops, "device_names", lambda: ["CPU"])
    ops._select.cache_clear()
    yield ops
    ops._select.cache_clear()
