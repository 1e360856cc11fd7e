"""The operations of this process's backend."""

import keras
import pytest

from kbert import ops


@pytest.fixture
def selected():
    """The module that kbert's layers use, on a CPU here."""
    return ops.select(keras.backend.backend(), "cpu")
