"""KerasHub's weights: a variable's path (names.tsv) and its place in Keras 3's .weights.h5 files.

A .weights.h5 is addressed by classes and attributes, not by the layers' names:

    transformer_layer_1/self_attention_layer/query/kernel
    layers/transformer_encoder_1/_self_attention_layer/query_dense/vars/0

Big presets are split: model.weights.json says which groups are in which file.
"""

import io
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kbert.checkpoints import weight_names
from kbert.checkpoints.checkpoint import Tensor
from kbert.checkpoints.transformers.weight_files import list_shards
from kbert.graph.config import BertConfig
from kbert.io import json_schema as js

WEIGHTS = "model.weights.h5"
INDEX = "model.weights.json"
_FILES = js.either(js.TEXT, js.list_of(js.TEXT))
_INDEX = js.fields({"weight_map": js.mapping_of(_FILES, "file names by group")})
TASK_WEIGHTS = "task.weights.h5"
TASK_GROUPS = ("mlm", "classifier")

_BACKBONE = re.compile(r"layers/[^/]+/(?=layers/)")  # a model within a model
_OPTIMIZER = (np.int64(0), np.float32(5e-5))  # `compile` of TextClassifier and MaskedLM
_BLOCK = "transformer_layer_"
OF_TRAINING = {"optimizer", "seed_generator"}  # the dropouts' random numbers, in older files
_LAYERS = {
    "token_embedding": "reversible_embedding",
    "position_embedding": "position_embedding",
    "segment_embedding": "embedding",
    "embeddings_layer_norm": "layer_normalization",
    "pooled_dense": "dense",
    "mlm_head": "masked_lm_head",
    "logits": "dense",  # in task.weights.h5
}
_OF_ATTENTION = {
    "query": "query_dense",
    "key": "key_dense",
    "value": "value_dense",
    "attention_output": "output_dense",
}
_NUMBERS = {
    "embeddings": "0", "kernel": "0", "gamma": "0", "output_bias": "0", "bias": "1", "beta": "1",
}  # fmt: skip


def path_of(name: str) -> str:
    """Return the place of a path's variable in a .weights.h5."""
    layer, *inner, variable = name.split("/")
    number = layer.removeprefix(_BLOCK)
    if number == layer:
        group = _LAYERS[layer]
    elif number == "0":
        group = "transformer_encoder"
    else:
        group = f"transformer_encoder_{number}"
    inner = [_OF_ATTENTION.get(part, f"_{part}") for part in inner]
    levels = ["layers", group, *inner, "vars", _NUMBERS[variable]]
    return "/".join(levels)


def name_within(path: str) -> str:
    """Return the path of a live variable from its layer on, without the scopes it was made in."""
    levels = path.split("/")
    for index, level in enumerate(levels):
        if level in _LAYERS or level.startswith(_BLOCK):
            return "/".join(levels[index:])
    return path


def name_tensors(
    tensors: Mapping[str, Tensor], config: BertConfig, of_task: bool
) -> dict[str, Tensor]:
    """Return the backbone's tensors, or the task's, by name; those without one by their path."""
    parts = [part for part in weight_names.PARTS if (part in TASK_GROUPS) == of_task]
    entries = weight_names.entries(parts, config, "keras_hub")
    names = {}
    for entry in entries:
        path = path_of(entry.name)
        names[_normal(path)] = entry.name

    paths = {path: path for path in tensors}
    within = {path: _BACKBONE.sub("", path) for path in tensors if _BACKBONE.match(path)}
    if within and of_task:  # a task's .keras has both
        paths = {path: path for path in tensors if path not in within}
    elif within:
        paths = within
    named = {}
    for path, inner in paths.items():
        name = names.get(_normal(inner), inner)
        named[name] = tensors[path]
    return named


def write_weights(
    file: Path, arrays: dict[str, np.ndarray], root: str, compiled: bool = False
) -> None:
    """Write a .weights.h5 of a model called `root`; `arrays` are by the paths of their variables.

    A task's is `compiled`: KerasHub looks for the optimizer's variables in the file.
    """
    import h5py

    buffer = io.BytesIO()  # HDF5 crashes the process if a write to a disk fails
    with h5py.File(buffer, "w") as handle:
        handle.create_group("vars").attrs["name"] = root
        for name, array in arrays.items():
            path = path_of(name)
            handle[path] = array
            group = handle[path].parent
            group.attrs["name"] = name.split("/")[-2]
        if compiled:  # Keras's Adam as KerasHub's tasks begin with it: steps done, learning rate
            group = handle.create_group("optimizer/vars")
            group.attrs["name"] = "adam"
            group["0"], group["1"] = _OPTIMIZER

    try:
        file.write_bytes(buffer.getbuffer())
    except OSError as error:
        why = f"the weights cannot be written, {error.strerror}"
        raise OSError(error.errno, why, str(file)) from None


def find_files(folder: Path) -> list[Path]:
    """Return model.weights.h5, which KerasHub takes first, else the shards."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    names: list[str] = []
    weight_map = js.read(folder / INDEX, _INDEX)["weight_map"]
    for shards in weight_map.values():
        names += shards if isinstance(shards, list) else [shards]
    return list_shards(folder / INDEX, sorted(names))


def list_files(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the files that are read, and of the others with weights."""
    used = [file.name for file in find_files(folder)]
    if (folder / TASK_WEIGHTS).is_file():
        used.append(TASK_WEIGHTS)
    if WEIGHTS not in used:
        used.append(INDEX)
    weights = sorted(file.name for file in folder.glob("*.weights.*"))
    unused = [name for name in weights if name not in used]
    return tuple(used), tuple(unused)


def _normal(path: str) -> str:
    """Remove the underscores that attributes had in some versions of Keras."""
    levels = [part.lstrip("_") for part in path.split("/")]
    if levels[0] == "layer_checkpoint_dependencies":  # Keras 2.13's
        levels[0] = "layers"
    return "/".join(levels)
