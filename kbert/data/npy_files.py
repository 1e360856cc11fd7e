"""NumPy's files, read with one error for whatever damage they have."""

import os
import warnings
from typing import Literal

import numpy as np

from kbert.io import bounds

_BEGIN = b"\x93NUMPY"


def read_npy(path: str | os.PathLike, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """Return the array in an .npy file.

    Raise an OSError if it cannot be opened or is no regular file, a ValueError if it is damaged or
    no .npy file of numbers, or if it has more bytes than its header says.
    """
    bounds.check_regular(path)
    with open(path, "rb") as file:  # a file that may not be read is no damage
        begin = file.read(6)
    if begin != _BEGIN and not begin.startswith(b"PK"):  # PK: an archive, see below
        raise ValueError(f"{path} must be a whole .npy file, got a file of another kind")

    try:
        with warnings.catch_warnings():  # NumPy warns of headers that it has to mend
            warnings.simplefilter("ignore")
            array, size = _load(path, mmap_mode)
    except Exception as error:  # NumPy's parser of headers raises those of Python's own, too
        first_line = next(iter(str(error).splitlines()), "")
        reason = first_line or type(error).__name__
        raise ValueError(f"{path} must be a whole .npy file, got: {reason:.120}") from None

    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} must be a whole .npy file, got an archive of several arrays")
    length = os.path.getsize(path)
    if size != length:
        raise ValueError(
            f"{path} must be a whole .npy file of {size:,} bytes, as its header says, got "
            f"{length:,} bytes"
        )
    return np.asarray(array)


def _load(path: str | os.PathLike, mmap_mode: Literal["r"] | None) -> tuple[np.ndarray, int]:
    """Return the array, and the bytes of header and numbers: NumPy ignores what follows them."""
    if mmap_mode is None:
        with open(path, "rb") as file:
            return np.load(file, allow_pickle=False), file.tell()
    array = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    offset = getattr(array, "offset", 0)
    size = getattr(array, "nbytes", 0)
    return array, offset + size
