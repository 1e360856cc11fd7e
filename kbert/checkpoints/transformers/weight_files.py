"""The files that transformers keeps weights in, one or in shards: safetensors, .bin, TensorFlow's.

What a file holds is known from its header; the numbers are read one tensor at a time.
"""

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from kbert.checkpoints.checkpoint import Tensor
from kbert.checkpoints.transformers import tf_weights, torch_file
from kbert.io import bounds
from kbert.io import json_schema as js
from kbert.io.wording import first_few

WEIGHTS = ("model.safetensors", "pytorch_model.bin", "tf_model.h5")
INDEXES = tuple(f"{name}.index.json" for name in WEIGHTS)
# Which is read, where there are several: transformers' order (modeling_utils.py,
# _get_resolved_checkpoint_files), and TensorFlow's after it.
FILES = tuple(name for pair in zip(WEIGHTS, INDEXES, strict=True) for name in pair)
_ENDINGS = (".safetensors", ".bin", ".h5", ".pt", ".pth", ".ckpt", ".msgpack", ".onnx", ".gguf")
# of transformers' Trainer, in the same folders
_OF_TRAINING = re.compile(r"(training_args|optimizer|scheduler|scaler|rng_state\w*)\.\w+")
_INDEX = js.fields({"weight_map": js.mapping_of(js.TEXT, "file names by tensor")})
_NUMBERS = js.list_of(js.whole(0, 2**63))
_HEADER = js.mapping_of(js.fields({"dtype": js.TEXT, "shape": _NUMBERS, "data_offsets": _NUMBERS}))


def find_weights(folder: Path) -> Path:
    """Return the file of weights, or the index of shards, that counts in a folder."""
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder}: no {' or '.join(WEIGHTS)}")


def list_files(file: Path) -> tuple[list[str], list[str]]:
    """Return the names of the files that a file or an index is read from, and of its neighbours.

    The neighbours are the other files of weights in the folder, which are not read.
    """
    used = [file.name]
    if file.suffix == ".json":
        shards = js.read(file, _INDEX)["weight_map"].values()
        used += [shard.name for shard in list_shards(file, shards)]
    others = [
        other.name
        for other in sorted(file.parent.iterdir())
        if other.name.endswith((*_ENDINGS, *INDEXES))
        and other.name not in used
        and not _OF_TRAINING.fullmatch(other.name)
    ]
    return used, others


def read_tensors(folder: Path) -> list[Tensor]:
    """Return every tensor of a folder's weights, unread, by its name in the file."""
    index = find_weights(folder)
    if index.suffix != ".json":
        return read_file(index)
    shard_of = js.read(index, _INDEX)["weight_map"]
    by_shard = {file.name: read_file(file) for file in list_shards(index, shard_of.values())}
    bounds.check_count(index, sum(map(len, by_shard.values())))
    _check_held_once(index, by_shard)
    plain = tf_weights.torch_name  # the shards lack the scopes that TensorFlow's index has
    held = {(plain(one.name), name) for name, tensors in by_shard.items() for one in tensors}
    if absent := [name for name, one in shard_of.items() if (plain(name), one) not in held]:
        raise ValueError(
            f"{index} must name what its shards hold, got {len(absent)} tensors that the shard "
            f"named does not: {first_few(absent)}"
        )
    return [tensor for tensors in by_shard.values() for tensor in tensors]


def _check_held_once(index: Path, by_shard: dict[str, list[Tensor]]) -> None:
    """Raise a ValueError if two shards hold tensors of one name: each could be the one meant."""
    first: dict[str, str] = {}
    for shard, tensors in by_shard.items():
        for tensor in tensors:
            other = first.setdefault(tensor.name, shard)
            if other != shard:
                raise ValueError(
                    f"{index}: each tensor must be in one shard, got {tensor.name} in {other} and "
                    f"in {shard}: save the checkpoint again"
                )


def list_shards(index: Path, names: Iterable[str]) -> list[Path]:
    """Return the files that an index names, each once; raise if one is missing or elsewhere."""
    names = list(dict.fromkeys(names))
    if not names:
        raise ValueError(f"{index} must name the files of the weights, got none")
    if outside := [name for name in names if name in ("", "..") or Path(name).name != name]:
        raise ValueError(
            f"{index}: a shard must be in the same folder, got {', '.join(map(repr, outside))}"
        )
    if missing := [name for name in names if not (index.parent / name).is_file()]:
        what = f"{index.name} names {'a shard' if len(missing) == 1 else 'shards'} not there"
        raise FileNotFoundError(f"{index.parent}: {what}: {first_few(missing)}")
    return [index.parent / name for name in names]


def read_file(file: Path) -> list[Tensor]:
    """Return every tensor of one file, unread, by its name there; raises as `read_tensors`."""
    with open(file, "rb") as opened:  # a file that may not be read is said to be one
        start = opened.read(40)
    if start.startswith(b"version https://git-lfs"):
        raise ValueError(f"{file} must be weights, got a Git LFS pointer: `git lfs pull` gets them")
    readers = dict.fromkeys((".bin", ".pt", ".pth", ".ckpt"), torch_file.tensors_of)
    readers[".h5"] = tf_weights.tensors_of
    return readers.get(file.suffix, _safetensors)(file)


def _safetensors(file: Path) -> list[Tensor]:
    from safetensors import SafetensorError, safe_open

    with open(file, "rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if bounds.HEADER < size < file.stat().st_size:  # beyond the file's end, the library says it
            raise ValueError(
                f"{file} must have a header of at most {bounds.HEADER:,} bytes, got one of {size:,}"
            )
        try:
            with safe_open(file, framework="numpy"):  # the library checks the header
                pass
        except SafetensorError as error:
            length = f"{file.stat().st_size:,} bytes"
            raise ValueError(
                f"{file} must be a whole safetensors file, got: {error} ({length})"
            ) from None
        header = js.parse(opened.read(size), js.OBJECT, str(file))
    header.pop("__metadata__", None)
    bounds.check_count(file, len(header))
    tensors = []
    for name, entry in sorted(js.check(header, _HEADER, str(file)).items()):
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        start = 8 + size + entry["data_offsets"][0]
        read = partial(_map_tensor, file, dtype, shape, start)
        tensors.append(Tensor(name, shape, dtype, read))
    return tensors


def _map_tensor(file: Path, dtype: str, shape: tuple[int, ...], start: int) -> np.ndarray:
    """Return one tensor, not copied; the file is mapped for it alone: what was read is let go."""
    import ml_dtypes

    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": ml_dtypes.bfloat16}
    kind = kinds.get(dtype, "u1")  # others are refused: only compared, as bytes
    if 0 in shape:  # nothing to map
        return np.empty(shape, kind)
    return np.memmap(file, kind, "r", start, shape)
