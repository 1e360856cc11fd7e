"""What the tests of models by name share."""

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
