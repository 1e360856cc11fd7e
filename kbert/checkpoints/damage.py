"""The many exceptions that libraries raise for a damaged file."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

_OF_THE_SYSTEM = (errno.EACCES, errno.EMFILE, errno.ENOENT, errno.ENOSPC, errno.EPERM)


@contextlib.contextmanager
def damage_in_one_line(file: Path, form: str) -> Iterator[None]:
    """Around a library's calls alone: whatever they raise becomes a ValueError of one line.

    Args:
        file: what the error calls the file.
        form: what it should be: "HDF5", ".zip".
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
            raise
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{file} must be a whole {form} file, got: {why}") from None
