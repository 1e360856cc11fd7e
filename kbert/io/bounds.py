"""Upper bounds for the files of a checkpoint: far more than any BERT has, and no more.

The largest released models have 24 blocks, 400 tensors and 120,000 tokens; 1,000 blocks and 4
million tokens pass. Sizes are checked before anything is made from a file's content. JSON has
`json_schema.LARGEST`, which holds a tokenizer.json of a million tokens twice. What libraries raise
for a damaged file becomes one line (`damage_in_one_line`).
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kbert.io import urls

TEXT = 2**27  # bytes of a vocabulary
LINES = 2**22  # of a vocabulary
GRAPH = 2**24  # bytes of JSON in a .keras; 96 blocks have 1.2 million

DEEPEST = 1000  # encoder blocks of a configuration
BLOCKS = 100  # of a configuration, where the file has fewer tensors
TENSORS = 2**14
HEADER = 2**23  # bytes of a safetensors header, of torch's pickle: 500 for each tensor
INDEX = 2**24  # bytes of TensorFlow's index of a checkpoint
OBJECTS = 2**16  # groups and datasets of an HDF5 file; Keras makes 5 for a tensor at most
DEPTH = 32  # groups within groups of an HDF5 file; Keras makes 10
EXPANSION = 20  # times that what is compressed may grow; weights hardly do
_OF_THE_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
SMALL = 2**28  # bytes that it may have however small the file is
_OF_THE_SYSTEM = (errno.EACCES, errno.EMFILE, errno.ENOENT, errno.ENOSPC, errno.EPERM)


def check_regular(file: str | os.PathLike, *, pipes: bool = True) -> None:
    """Refuse a FIFO, a device or a socket: reading it may wait for ever, or never end.

    Args:
        file: the file.
        pipes: whether the shell's are taken, `<(command)` and /dev/stdin; they can be read once.

    Raises:
        ValueError: it is an address, see `kbert.io.urls`.
        OSError: the file is none of these and no regular file, or it is not there.
    """
    urls.refuse_url(file)
    mode = os.stat(file).st_mode
    of_the_shell = pipes and os.fspath(file).startswith(_OF_THE_SHELL)
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or of_the_shell:
        return
    kinds = {stat.S_ISFIFO: "a FIFO", stat.S_ISCHR: "a device", stat.S_ISSOCK: "a socket"}
    kind = next((name for is_one, name in kinds.items() if is_one(mode)), "no such file")
    raise OSError(f"{file}: expected a regular file, got {kind}: write its content to a file first")


def check_size(file: str | os.PathLike, most: int) -> None:
    """Raise a ValueError for a file of more bytes."""
    check_regular(file)
    size = os.stat(file).st_size
    if size > most:
        raise ValueError(f"{file} must have at most {most:,} bytes, got {size:,}")


def check_count(file: str | os.PathLike, tensors: int) -> None:
    """Raise a ValueError for more tensors than any model has that is read."""
    if tensors > TENSORS:
        raise ValueError(f"{file} must hold at most {TENSORS:,} tensors, got more")


def check_blocks(source: str, blocks: int, tensors: int) -> None:
    """Raise a ValueError for a configuration of more encoder blocks than there are tensors."""
    if blocks > max(BLOCKS, tensors):
        raise ValueError(
            f"{source}: num_hidden_layers is {blocks} in the configuration, and there are "
            f"{tensors} tensors in all"
        )


def check_unpacked(file: Path, what: str, packed: int, unpacked: int) -> None:
    """Raise a ValueError for what would be many times the bytes that it is packed in."""
    if unpacked > max(SMALL, EXPANSION * packed):
        raise ValueError(
            f"{file}: {what} must unpack to at most {EXPANSION} times the {packed:,} bytes that it "
            f"has there, got {unpacked:,}"
        )


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
