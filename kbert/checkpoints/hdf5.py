"""HDF5 files: every dataset that is within one, and its numbers."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

# HDF5's errors, as h5py maps them, and what h5py's own code makes of wrong types.
_OF_DAMAGE = (OSError, RuntimeError, LookupError, TypeError, AttributeError, ValueError)
_OF_DAMAGE += (ArithmeticError, AssertionError)


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
        if item.shape is None:  # HDF5's null dataspace
            raise ValueError(f"{file}: {place} must hold numbers, got none")
        found[place] = item

    with damage_in_one_line(file):
        group.visititems(visit)
    return found


def dtype_of(file: Path, place: str, dataset) -> str:
    """A dataset's dtype; Keras stores bfloat16 as bytes, and says so in an attribute.

    Raises:
        ValueError: a damaged file, or an attribute that cannot be true of the numbers.
    """
    with damage_in_one_line(file):
        found, said = dataset.dtype, dataset.attrs.get("dtype")
    if said is None or str(said) == str(found):
        return str(found)
    if str(said) != "bfloat16" or found.kind != "V" or found.itemsize != 2:
        raise ValueError(f"{file}: {place} must be of the dtype that it says, {said}, got {found}")
    return "bfloat16"


def numbers(file: Path, dataset, dtype: str | None = None) -> np.ndarray:
    """A dataset's numbers, of `dtype_of` it; a ValueError where the file is damaged."""
    with damage_in_one_line(file):
        array = dataset[()]
    if dtype == "bfloat16":
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array


@contextlib.contextmanager
def damage_in_one_line(file: Path) -> Iterator[None]:
    """What h5py raises for a damaged file becomes a ValueError that names it."""
    try:
        yield
    except _OF_DAMAGE as error:
        if type(error) is ValueError and str(file) in str(error):  # kbert's own
            raise
        raise ValueError(f"{file} must be a whole HDF5 file, got: {error}") from None
