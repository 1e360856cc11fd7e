"""HDF5 files: every dataset that is within one, and its numbers."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np


def datasets(file: Path, group) -> dict:
    """Every dataset of a group by its place there, unread; links to elsewhere are not followed.

    Raises:
        ValueError: a damaged file, or a dataset whose numbers are in another one.
    """
    import h5py

    found = {}

    def visit(place: str, item) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.external or item.is_virtual:
            raise ValueError(f"{file} must hold its own numbers, got {place} in another file")
        found[place] = item

    with damage_in_one_line(file):
        group.visititems(visit)
    return found


def numbers(file: Path, dataset) -> np.ndarray:
    """A dataset's numbers; a ValueError where the file is damaged."""
    with damage_in_one_line(file):
        return dataset[()]


@contextlib.contextmanager
def damage_in_one_line(file: Path) -> Iterator[None]:
    """What h5py raises for a damaged file becomes a ValueError."""
    try:
        yield
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(f"{file} must be a whole HDF5 file, got: {error}") from None
