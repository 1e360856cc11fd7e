"""What the files of a checkpoint may hold at most: far more than any BERT has, and no more.

The largest that were released have 24 blocks, 400 tensors and 120,000 tokens; 1,000 blocks and
4 million tokens pass. Sizes are asked of a file before anything is made of what it says. JSON has
`json_schema.LARGEST`, which holds a tokenizer.json of a million tokens twice.
"""

import os
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


def check_size(file: str | os.PathLike, most: int) -> None:
    """A ValueError for a file of more bytes."""
    size = os.stat(file).st_size
    if size > most:
        raise ValueError(f"{file} must have at most {most:,} bytes, got {size:,}")


def check_count(file: str | os.PathLike, tensors: int) -> None:
    """A ValueError for more tensors than any model has that is read."""
    if tensors > TENSORS:
        raise ValueError(f"{file} must hold at most {TENSORS:,} tensors, got more")


def check_blocks(source: str, blocks: int, tensors: int) -> None:
    """A ValueError for a configuration of more encoder blocks than there are tensors."""
    if blocks > max(BLOCKS, tensors):
        raise ValueError(
            f"{source}: num_hidden_layers is {blocks} in the configuration, and there are "
            f"{tensors} tensors in all"
        )


def check_unpacked(file: Path, what: str, packed: int, unpacked: int) -> None:
    """A ValueError for what would be many times the bytes that it is packed in."""
    if unpacked > max(SMALL, EXPANSION * packed):
        raise ValueError(
            f"{file}: {what} must unpack to at most {EXPANSION} times the {packed:,} bytes that it "
            f"has there, got {unpacked:,}"
        )
