"""The operations of this process's backend."""

import keras
import pytest

from kbert import ops

DEVICES = ["cpu", "tpu"] if keras.backend.backend() == "jax" else ["cpu"]


@pytest.fixture(params=DEVICES)
def selected(request):
    """The modules that kbert's layers use, on a CPU here."""
    return ops.select(keras.backend.backend(), request.param)
