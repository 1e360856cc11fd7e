"""The small models of the tasks' tests."""

import pytest
from helpers.small_berts import small_berts


@pytest.fixture(scope="session")
def berts(small):
    """A `Bert` for each head, built and traced once: tests must not change their weights."""
    return small_berts(small)
