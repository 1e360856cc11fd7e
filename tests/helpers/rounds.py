"""Marks of tests that run in a later round on some backends: `pytest -m full`, `-m nightly`."""

import keras
import pytest


def nightly_on(*backends: str) -> list:
    """Return the mark for these backends, where another backend's test covers the shared code."""
    return [pytest.mark.nightly] if keras.backend.backend() in backends else []


def nightly_test_on(*backends: str):
    """Decorate a test with that mark."""
    return pytest.mark.nightly if nightly_on(*backends) else lambda test: test


def full_on(*backends: str):
    """Decorate a test: on these backends it is left to the full round."""
    return pytest.mark.full if keras.backend.backend() in backends else lambda test: test
