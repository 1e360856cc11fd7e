"""Weights of transformers' TensorFlow classes (TFBert…, to transformers 4), as torch has them.

`save_pretrained` wrote tf_model.h5, its shards, or a safetensors file with TensorFlow's names.
"""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from kbert.checkpoints import hdf5
from kbert.checkpoints.checkpoint import Tensor
from kbert.io import json_schema as js
from kbert.io.bounds import damage_in_one_line

# The layers below a class, with which the names of torch begin.
_FIRST = ("bert", "cls", "classifier", "qa_outputs")
_NUMBERED = re.compile(rf"({'|'.join(_FIRST)})_\d+")  # TensorFlow's, of a session's second model
_CLASS = re.compile(r"tf_\w+_for_\w+")
_WHOLE = "model_weights/"  # of `model.save`; `save_weights` has the layers at the top
_OF_TRAINING = "optimizer_weights/"  # beside the weights of `model.save`
_LAST = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}


def tensors_of(file: Path) -> list[Tensor]:
    """Return every weight of a .h5 file once, unread: Keras repeats a shared layer's."""
    by_name: dict[str, Tensor] = {}
    for tensor in _list_tensors(file):
        if tensor.name.startswith(_OF_TRAINING):
            continue
        same = by_name.setdefault(torch_name(tensor.name), tensor)
        if same is tensor:
            continue
        first = same.read()
        if not np.array_equal(first, tensor.read(), equal_nan=True):
            raise ValueError(
                f"{file}: {tensor.name} must equal {same.name}, the same weight, got others"
            )
    return list(by_name.values())


def tensors_within(file: Path) -> tuple[list[Tensor], list[str]]:
    """Return the weights of the model of transformers in a Keras 2 model's .h5, and other names.

    It is one of the layers, each a group. A class with a head that was saved itself has a layer for
    its encoder and one for the head, both in the scope of the class.
    """
    tensors = []
    for tensor in _list_tensors(file):
        name = tensor.name.removeprefix(_WHOLE)
        if not name.startswith(_OF_TRAINING):
            tensors.append(replace(tensor, name=name))

    scopes: dict[str, str] = {}  # of the models' encoders, by group
    for tensor in tensors:
        levels = tensor.name.split("/")
        if "word_embeddings" in levels[1:-1]:
            scopes.setdefault(levels[0], levels[1])
    if len(scopes) > 1:
        raise ValueError(f"{file} must hold one model, got several: {', '.join(scopes)}")
    ((group, scope),) = scopes.items()
    is_class = _CLASS.match(scope) is not None

    inside = []
    outside = []
    for tensor in tensors:
        levels = tensor.name.split("/")
        if levels[0] == group or (is_class and levels[1] == scope):
            inside.append(tensor)
        else:
            outside.append(tensor.name)
    return inside, outside


def config_within(file: Path) -> dict | None:
    """Return the configuration of the transformers layer in a Keras 2 model."""
    with hdf5.open_file(file) as opened:
        text = hdf5.read_text(file, opened, "model_config")
    if not text:
        return None
    return _find_config(js.parse(text, js.OBJECT, f"{file}: model_config"))


def _find_config(value) -> dict | None:
    if isinstance(value, dict):
        if {"vocab_size", "hidden_size"} <= set(value):
            return value
        items = list(value.values())
    elif isinstance(value, list):
        items = value
    else:
        return None

    for item in items:
        config = _find_config(item)
        if config is not None:
            return config
    return None


def convert_to_torch(tensor: Tensor) -> Tensor:
    """Return a tensor with torch's shape: TensorFlow's kernels are (outputs, inputs) there."""
    if "/" not in tensor.name:
        return tensor
    if _split_levels(tensor.name)[-1] != "kernel":
        return tensor
    shape = tensor.shape[::-1]
    return replace(tensor, shape=shape, read=lambda: tensor.read().T)


def torch_name(name: str) -> str:
    """Return the name that the weight has in torch; a name of torch, which has no slashes, stays.

    transformers 4, convert_tf_weight_name_to_pt_weight_name: `layer_._0` is a level of two, and
    `mlm___cls` is cls. A number after a layer, `bert_1`, is TensorFlow's. Before the first layer
    stand the scopes, and Keras's groups.
    """
    levels = _split_levels(name)
    levels = [_NUMBERED.sub(r"\1", level) for level in levels]
    starts = [index for index, level in enumerate(levels) if level in _FIRST]
    if "/" not in name or not starts:
        return name
    last = _LAST.get(levels[-1], levels[-1])
    first = starts[-1]
    return ".".join([*levels[first:-1], last])


def _split_levels(name: str) -> list[str]:
    path = name.removesuffix(":0").replace("_._", "/")
    levels = path.split("/")
    return [level.rsplit("___", 1)[-1] for level in levels]


def _list_tensors(file: Path) -> list[Tensor]:
    """Return every tensor of a file; each opens the file again when it is read."""
    with hdf5.open_tensors(file) as tensors:
        for_later = []
        for tensor in tensors.values():
            read = partial(_read, file, tensor.name)
            for_later.append(replace(tensor, read=read))
        return for_later


def _read(file: Path, path: str) -> np.ndarray:
    with hdf5.open_file(file) as handle, damage_in_one_line(file, "HDF5"):
        return handle[path][()]
