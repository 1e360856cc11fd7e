"""HDF5 files: every dataset that is within one, and its numbers."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kbert.io import bounds
from kbert.io.bounds import damage_in_one_line


@contextlib.contextmanager
def open_file(file: Path) -> Iterator:
    """Open the file with h5py; raise a ValueError if it is damaged."""
    import h5py

    with damage_in_one_line(file, "HDF5"):
        handle = h5py.File(file, "r")
    with handle:
        yield handle


def datasets(file: Path, group, form: str = "HDF5") -> dict:
    """Return every dataset of a group by its place there, unread.

    Links to elsewhere are not followed.

    Args:
        file: what errors call the file.
        group: the group.
        form: what errors call the file's format.

    Raises:
        ValueError: a damaged file, one beyond `kbert.io.bounds`, or a dataset whose numbers are not
            in it.
    """
    import h5py

    by_path = {}
    count = depth = 0

    def visit(path: str, item) -> bool | None:
        nonlocal count, depth
        count, depth = count + 1, path.count("/")
        if isinstance(item, h5py.Dataset):
            by_path[path] = item
        return count > bounds.OBJECTS or depth > bounds.DEPTH or None  # but for None it ends

    with damage_in_one_line(file, form):
        group.visititems(visit)
        lacking = _lacking(by_path)
        size, unpacked = group.file.id.get_filesize(), sum(_size(item) for item in by_path.values())
    if count > bounds.OBJECTS or depth > bounds.DEPTH:
        raise ValueError(
            f"{file} must have at most {bounds.OBJECTS:,} groups and datasets, {bounds.DEPTH} "
            "within each other, got more"
        )
    bounds.check_count(file, len(by_path))
    if lacking:
        raise ValueError(f"{file} must hold its own numbers, got {lacking}")
    bounds.check_unpacked(file, "its datasets", size, unpacked)
    return by_path


def dtype_of(file: Path, path: str, dataset, form: str = "HDF5") -> str:
    """Return a dataset's dtype; Keras stores bfloat16 as bytes, and says so in an attribute.

    Raises:
        ValueError: a damaged file, or an attribute that cannot be true of the numbers.
    """
    with damage_in_one_line(file, form):
        dtype, stated = dataset.dtype, dataset.attrs.get("dtype")
        stated = None if stated is None else str(stated)
    if stated is None or stated == str(dtype):
        return str(dtype)
    if stated != "bfloat16" or dtype.kind != "V" or dtype.itemsize != 2:
        raise ValueError(f"{file}: {path} must be of the dtype that it says, {stated}, got {dtype}")
    return "bfloat16"


def read_array(file: Path, dataset, dtype: str | None = None, form: str = "HDF5") -> np.ndarray:
    """Return a dataset's numbers, of `dtype_of` it; a ValueError where the file is damaged."""
    with damage_in_one_line(file, form):
        array = dataset[()]
    if dtype == "bfloat16":
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array


def _size(item) -> int:
    return 0 if item.shape is None else item.nbytes


def _lacking(by_path: dict) -> str | None:
    """Return the first dataset with its numbers elsewhere or nowhere: HDF5 would return zeros."""
    for path, item in by_path.items():
        if item.shape is None:  # HDF5's null dataspace
            return f"{path} without any"
        if item.external or item.is_virtual:
            return f"{path} in another file"
        plain = item.chunks is None and item.id.get_create_plist().get_nfilters() == 0
        if item.nbytes and item.id.get_storage_size() < (item.nbytes if plain else 1):
            return f"{path} without any"
    return None
