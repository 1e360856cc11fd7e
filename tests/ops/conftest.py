"""The operations of this process's backend."""

import pytest

from kbert import ops


@pytest.fixture
def selected():
    """The operations that kbert's layers use, on a CPU here."""
    with ops.compile_for("cpu"):
        yield ops
