"""What the tests of models by name share."""

import socket

import huggingface_hub
import pytest
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
