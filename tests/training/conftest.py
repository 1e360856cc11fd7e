"""Share the processes of the training tests."""

import os

import pytest
from helpers.backends import environment_of
from helpers.forks import Forks


@pytest.fixture(scope="session")
def forks():
    """Processes on a backend, by its name; those that import it are started once."""
    found = {}

    def on(backend: str) -> Forks:
        if backend not in found:
            pytest.importorskip(backend)
            found[backend] = Forks(os.environ | environment_of(backend))
        return found[backend]

    yield on
    for one in found.values():
        one.close()
