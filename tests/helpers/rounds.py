"""A test that the gate has time for on some backends alone; elsewhere `pytest -m long` runs it."""

import keras
import pytest


def long_on(*backends: str) -> list:
    """Marks for these backends, whose engines share what another one's test shows."""
    return [pytest.mark.long] if keras.backend.backend() in backends else []


def long_test_on(*backends: str):
    """The same as a decorator."""
    return pytest.mark.long if long_on(*backends) else lambda test: test
