"""Runs of no particular backend: on torch, which traces nothing, they take least.

The tests on TensorFlow leave them out; test_backends.py has torch's process run them.
"""

import keras
import pytest
from helpers.labelled_texts import write_source

collect_ignore_glob = [] if keras.backend.backend() == "torch" else ["test_*.py"]


@pytest.fixture(scope="session")
def labelled(small, tmp_path_factory):
    """A folder that `tune` takes: 39 texts, 23 dev ones, a model of one block."""
    return write_source(tmp_path_factory.mktemp("labelled"), small)
