"""The small models of the tasks' tests."""

import pytest
from helpers.small_berts import small_berts


@pytest.fixture(scope="session")
def small(small):
    """Two blocks: a third takes longer to trace, and shows nothing more."""
    return small.replace(num_hidden_layers=2)


@pytest.fixture(scope="session")
def berts(small):
    """A `Bert` for each head, built and traced once: tests must not change their weights."""
    return small_berts(small)
