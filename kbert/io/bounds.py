"""Checks of a file before it is read: no URL, no device, and not larger than any BERT's.

The largest released models have 24 blocks, 400 tensors and 120,000 tokens; 1,000 blocks and 4
million tokens pass. `json_schema.LARGEST` is the bound for JSON.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

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
SMALL = 2**28  # bytes that it may have however small the file is

_SHELL_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_SYSTEM_ERRORS = (errno.EACCES, errno.EIO, errno.EMFILE, errno.ENOENT, errno.ENOSPC, errno.EPERM)
# A Path makes one slash of two. One letter is a drive of Windows.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


def refuse_url(path: str | os.PathLike, *, to_write: bool = False) -> None:
    """Raise a ValueError for a URL, such as `hf://google/bert`, unless a file has that name."""
    text = os.fspath(path)
    match = _URL.fullmatch(text) if isinstance(text, str) else None
    if match is None or os.path.exists(text):
        return

    scheme, rest = match.groups()
    is_on_hub = scheme == "hf"
    if to_write:
        what = "writes to local paths here"
        way = "write to one, and copy that"
        if is_on_hub:
            way = f"write a folder, then kbert push FOLDER {rest}"
    else:
        what = "opens local paths only"
        way = "copy what it names here first"
        if is_on_hub:
            way = f"download it first, {_way_to_download(rest)}, and give the folder"
    raise ValueError(f"{scheme}://{rest} is an address, and kbert {what}: {way}")


def _way_to_download(rest: str) -> str:
    """Return the command for what follows hf://: [datasets/]owner/name[@revision][/file]."""
    is_data = rest.startswith("datasets/")
    owner, _, rest = rest.removeprefix("datasets/").partition("/")
    name, _, file = rest.partition("/")
    name, _, revision = name.partition("@")

    arguments = [f"hf download {owner}/{name}"]
    if file:
        arguments.append(file)
    if revision:
        arguments.append(f"--revision {revision}")
    if is_data:
        arguments.append("--repo-type dataset")
    arguments.append("--local-dir FOLDER")
    command = " ".join(arguments)
    return command if is_data else f"{command} (a data set also needs --repo-type dataset)"


def check_regular(file: str | os.PathLike, *, pipes: bool = True) -> None:
    """Raise an OSError for a FIFO, a device or a socket, because reading it may never end.

    `pipes`: whether to accept the shell's `<(command)` and /dev/stdin, which can be read once. A
    URL is a ValueError.
    """
    refuse_url(file)
    mode = os.stat(file).st_mode
    is_pipe = pipes and os.fspath(file).startswith(_SHELL_PIPES)
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_pipe:
        return

    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFCHR: "a device",
        stat.S_IFSOCK: "a socket",
    }
    kind = kinds.get(stat.S_IFMT(mode), "no such file")
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
    """Raise a ValueError for data that would unpack to many times its packed size."""
    if unpacked > max(SMALL, EXPANSION * packed):
        raise ValueError(
            f"{file}: {what} must unpack to at most {EXPANSION} times the {packed:,} bytes that it "
            f"has there, got {unpacked:,}"
        )


@contextlib.contextmanager
def damage_in_one_line(file: Path, form: str) -> Iterator[None]:
    """Turn whatever a library raises for a damaged file into a ValueError of one line.

    `form` is what the file should be, such as "HDF5" or ".zip".
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS:
            raise
        texts = str(error).split()
        why = " ".join(texts) or type(error).__name__
        raise ValueError(f"{file} must be a whole {form} file, got: {why}") from None


@contextlib.contextmanager
def rename_in_errors(folder: Path, name: str) -> Iterator[None]:
    """Make errors call a temporary folder, which is gone when they are read, by another name."""
    try:
        yield
    except (OSError, ValueError) as error:
        texts = list(error.args)
        if isinstance(error, OSError) and error.errno:
            texts = [error.errno, error.strerror, error.filename]
        if not any(str(folder) in str(text) for text in texts):
            raise

        named = []
        for text in texts:
            if isinstance(text, str):
                text = text.replace(str(folder), name)
            named.append(text)
        if isinstance(error, OSError):
            raise type(error)(*named) from None
        error.args = tuple(named)
        raise
