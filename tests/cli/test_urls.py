"""An address is refused where only a path is possible, and no path is taken for an address."""

from pathlib import Path

import pytest

import kbert
from kbert.io.bounds import refuse_url


def test_saving_to_a_url_writes_nothing(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bert = kbert.Bert(small, "encoder", model=None)
    with pytest.raises(
        ValueError, match=r"s3://bucket/run is an address.*write to one, and copy that"
    ):
        kbert.save(bert, "s3://bucket/run")
    assert list(tmp_path.iterdir()) == []


def test_paths_are_not_taken_for_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hf:").mkdir()
    for path in ("C:/bert", r"C:\bert", "a/b", Path("hf:"), "hf:/", "12:/x", "a b://x"):
        refuse_url(path)
