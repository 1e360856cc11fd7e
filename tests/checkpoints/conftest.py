"""What the tests of models by name share."""

import os
import shutil
import socket
from pathlib import Path

import huggingface_hub
import pytest
from helpers.forks import Forks
from helpers.hub_models import BERT, MINILM, write_model


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory):
    """A small model in a folder with all files that BERT's repository has."""
    folder = tmp_path_factory.mktemp("hub") / "bert"
    write_model(folder, BERT)
    return folder


@pytest.fixture(scope="session")
def minilm_folder(tmp_path_factory):
    """A small model in a folder with all files that MiniLM's repository has."""
    folder = tmp_path_factory.mktemp("hub") / "minilm"
    write_model(folder, MINILM)
    return folder


@pytest.fixture(scope="session")
def berts(saved):
    """A small `Bert` of each head, which no test changes."""
    return saved[1]


@pytest.fixture
def no_sockets(monkeypatch):
    """A function after which each socket that is opened is an error."""

    def refuse(*_, **__):
        raise AssertionError("a socket is opened")

    def forbid():
        huggingface_hub.close_session()
        monkeypatch.setattr(socket, "socket", refuse)
        monkeypatch.setattr(socket, "create_connection", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)

    return forbid


@pytest.fixture(scope="session")
def killed_at():
    """A function that writes in a process, dies before a step, and returns whether it died."""
    forks = Forks(dict(os.environ), "helpers.killed_writer")

    def write(step: int, source: Path, target: Path, alone: bool = False) -> bool:
        arguments = str(source), str(target), step, alone
        status = forks.wait(forks.start("helpers.killed_writer:main", *arguments))
        assert status in (0, 9)
        return status == 9

    yield write
    forks.close()


@pytest.fixture
def interrupt(killed_at, tmp_path):
    """A function that writes a folder's files into another, and dies when some are moved.

    It returns the folder of those that wait.
    """

    def write(source: Path, target: Path, alone: bool = False, moved: int = 1) -> Path:
        count = sum(path.is_file() for path in source.rglob("*"))
        before = shutil.copytree(target, tmp_path / "before", symlinks=True)
        for step in range(1, 100):
            assert killed_at(step, source, target, alone), "no such moment"
            for new in target.glob(".kbert.*.new"):
                waiting = sum(p.is_file() and p.name != ".kbert.json" for p in new.rglob("*"))
                if waiting == count - moved:
                    shutil.rmtree(before)
                    return new
            shutil.rmtree(target)
            shutil.copytree(before, target, symlinks=True)
        raise AssertionError("no such moment")

    return write
