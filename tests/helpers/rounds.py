"""Marks of tests that run in a later round on some backends: `pytest -m full`, `-m nightly`."""

import keras
import pytest

# A mark without effect: a test and one of its cases can both take it.
NO_MARK = pytest.mark.skipif(False, reason="")


def full_on(*backends: str):
    """Return the mark of the full round on these backends, for a test or one of its cases."""
    return pytest.mark.full if keras.backend.backend() in backends else NO_MARK


def nightly_on(*backends: str):
    """Return the mark of the nightly round on these backends, for a test or one of its cases."""
    return pytest.mark.nightly if keras.backend.backend() in backends else NO_MARK
