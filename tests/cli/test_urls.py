"""An address where only a path is possible is refused in one line that shows it as written."""

from pathlib import Path

import pytest
from helpers.command_line import kbert as run

import kbert
from kbert.io.bounds import refuse_url

HUB = "hf://google/bert"
LINE = f"kbert: {HUB} is an address, and kbert "
READ = "opens local paths only: download it first, hf download google/bert --local-dir FOLDER, and "
READ += "give the folder\n"
WRITE = "writes to local paths here: write a folder, then kbert push FOLDER google/bert\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "x", HUB),
        ("finetune", "x", "--task", "classify", "--train", HUB, "-o", "run"),
        ("pretrain", "x", "--steps", "1", "-o", HUB),
        ("account", HUB),
        ("prepare", HUB, "--vocab", "x", "-o", "y"),
    ],
)
def test_url_is_refused_as_it_was_written(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    done = run(capsys, *arguments)
    way = WRITE if arguments[-1] == HUB and arguments[0] in ("convert", "pretrain") else READ
    assert (done.status, done.out, done.err) == (2, "", LINE + way)
    assert list(tmp_path.iterdir()) == []


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
