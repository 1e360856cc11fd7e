"""Diagrams of base, which several test modules read back."""

from pathlib import Path

import pytest

from kbert import plot


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    """The path of base's diagram in a format, drawn once."""
    folder = tmp_path_factory.mktemp("diagrams")

    def path(ending: str, collapse: bool) -> Path:
        place = folder / f"{'collapsed' if collapse else 'whole'}.{ending}"
        return place if place.exists() else plot("base", place, collapse=collapse)

    return path
