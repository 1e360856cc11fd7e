"""The files that transformers keeps weights in, one or in shards: safetensors, .bin, TensorFlow's.

What a file holds is known from its header; the numbers are read one tensor at a time.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
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
FILES = tuple(itertools.chain.from_iterable(zip(WEIGHTS, INDEXES, strict=True)))
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

    neighbours = []
    for path in sorted(file.parent.iterdir()):
        is_weights = path.name.endswith((*_ENDINGS, *INDEXES))
        if not is_weights or path.name in used:
            continue
        if not _OF_TRAINING.fullmatch(path.name):
            neighbours.append(path.name)
    return used, neighbours


def read_tensors(folder: Path) -> list[Tensor]:
    """Return every tensor of a folder's weights, unread, by its name in the file."""
    index = find_weights(folder)
    if index.suffix != ".json":
        return read_file(index)

    shard_of = js.read(index, _INDEX)["weight_map"]
    shards = list_shards(index, shard_of.values())
    by_shard = {file.name: read_file(file) for file in shards}
    tensors = list(itertools.chain.from_iterable(by_shard.values()))
    bounds.check_count(index, len(tensors))
    _check_held_once(index, by_shard)
    _check_index(index, shard_of, by_shard)
    return tensors


def _check_index(
    index: Path, shard_of: Mapping[str, str], by_shard: Mapping[str, list[Tensor]]
) -> None:
    """Raise a ValueError if an index names a tensor in a shard that does not have it."""
    plain = tf_weights.torch_name  # the shards lack the scopes that TensorFlow's index has
    names = {}
    for shard, tensors in by_shard.items():
        names[shard] = {plain(tensor.name) for tensor in tensors}
    absent = [name for name, shard in shard_of.items() if plain(name) not in names[shard]]
    if absent:
        raise ValueError(
            f"{index} must name what its shards hold, got {len(absent)} tensors that the shard "
            f"named does not: {first_few(absent)}"
        )


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

    outside = [name for name in names if name in ("", "..") or Path(name).name != name]
    if outside:
        shown = ", ".join([repr(name) for name in outside])
        raise ValueError(f"{index}: a shard must be in the same folder, got {shown}")

    folder = index.parent
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        what = f"{index.name} names {'a shard' if len(missing) == 1 else 'shards'} not there"
        raise FileNotFoundError(f"{index.parent}: {what}: {first_few(missing)}")
    return [index.parent / name for name in names]


def read_file(file: Path) -> list[Tensor]:
    """Return every tensor of one file, unread, by its name there; raises as `read_tensors`."""
    with open(file, "rb") as opened:  # a file that may not be read is said to be one
        start = opened.read(40)
    if start.startswith(b"version https://git-lfs"):
        raise ValueError(f"{file} must be weights, got a Git LFS pointer: `git lfs pull` gets them")

    if file.suffix == ".h5":
        return tf_weights.tensors_of(file)
    if file.suffix in (".bin", ".pt", ".pth", ".ckpt"):
        return torch_file.tensors_of(file)
    return _safetensors(file)


def _safetensors(file: Path) -> list[Tensor]:
    header, start_of_data = _read_header(file)
    header.pop("__metadata__", None)
    bounds.check_count(file, len(header))

    tensors = []
    checked = js.check(header, _HEADER, str(file))
    for name, entry in sorted(checked.items()):
        dtype = entry["dtype"]
        shape = tuple(entry["shape"])
        start = start_of_data + entry["data_offsets"][0]
        read = partial(_map_tensor, file, dtype, shape, start)
        tensors.append(Tensor(name, shape, dtype, read))
    return tensors


def _read_header(file: Path) -> tuple[dict, int]:
    """Return a safetensors file's header, and the position where the numbers begin."""
    from safetensors import SafetensorError, safe_open

    length = file.stat().st_size
    with open(file, "rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if bounds.HEADER < size < length:  # beyond the file's end, the library says it
            raise ValueError(
                f"{file} must have a header of at most {bounds.HEADER:,} bytes, got one of {size:,}"
            )
        try:
            with safe_open(file, framework="numpy"):  # the library checks the header
                pass
        except SafetensorError as error:
            raise ValueError(
                f"{file} must be a whole safetensors file, got: {error} ({length:,} bytes)"
            ) from None
        text = opened.read(size)
        header = js.parse(text, js.OBJECT, str(file))
    return header, 8 + size


def _map_tensor(file: Path, dtype: str, shape: tuple[int, ...], start: int) -> np.ndarray:
    """Return one tensor, not copied; the file is mapped for it alone: what was read is let go."""
    import ml_dtypes

    kinds = {
        "F64": "<f8",
        "F32": "<f4",
        "F16": "<f2",
        "BF16": ml_dtypes.bfloat16,
    }
    kind = kinds.get(dtype, "u1")  # others are refused: only compared, as bytes
    if 0 in shape:  # nothing to map
        return np.empty(shape, kind)
    return np.memmap(file, kind, "r", start, shape)
