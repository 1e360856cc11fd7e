"""Search for transformers' weights and configuration, without additions of training code.

A folder holds config.json (or bert_config.json, as pytorch-pretrained-bert had it) and the weights.
A file of weights is opened alone too, with the configuration beside it: what torch.save, Lightning
or Keras 2 wrote around a model of transformers.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbert.checkpoints import hdf5
from kbert.checkpoints.checkpoint import Tensor
from kbert.checkpoints.transformers import tf_weights
from kbert.checkpoints.transformers.classes import Classes
from kbert.checkpoints.transformers.sentence_files import transformer_folder
from kbert.checkpoints.transformers.weight_files import read_file, read_tensors
from kbert.graph.config import BertConfig, find_config

_logger = logging.getLogger("kbert")

_BUFFERS = re.compile(r"embeddings\.(position_ids|token_type_ids)$")
_OLD_NAMES = re.compile(r"(?<=LayerNorm\.)(gamma|beta)$")
_NEW_NAMES = {"gamma": "weight", "beta": "bias"}
_TOKEN_TABLE = "embeddings.word_embeddings.weight"
# Modules that torch puts around another: DataParallel, torch.compile, FSDP, DeepSpeed in Lightning.
_AROUND = ("module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module")


@dataclass(frozen=True)
class Layout:
    """The files of a checkpoint."""

    folder: Path  # with the tokenizer's files
    weights: Path | None  # None: those that the folder holds
    config: Path | None


def is_keras_2_file(path: Path) -> bool:
    """Return whether a path is the .h5 of a Keras 2 model with a TFBertModel in it."""
    return hdf5.recognize_model(path) == "transformers"


def find_layout(path: Path) -> Layout:
    """Return the files of a checkpoint at a folder, or at a file of weights."""
    folder = transformer_folder(path) if path.is_dir() else path.parent
    return Layout(folder, None if path.is_dir() else path, find_config(folder))


def read_config(layout: Layout) -> BertConfig:
    """Read the configuration beside the weights, or within a Keras 2 model."""
    file = layout.weights
    values = tf_weights.config_within(file) if file and is_keras_2_file(file) else None
    if values is not None:
        return BertConfig.from_dict(values, source=f"{file}: model_config")
    if layout.config is None:
        raise ValueError(
            f"{file} must have a config.json in its folder, got none: put it there, or give "
            "config=kbert.BertConfig(…) (kbert convert --config FILE)"
        )
    return BertConfig.from_json(layout.config)


def name_tensors(files: Layout, classes: Classes) -> tuple[dict[str, Tensor], list[str], list[str]]:
    """Return every tensor by its name in the table, the names of tensors left out, and notes.

    Prefixes, TensorFlow's and old names, buffers and copies of tied weights are handled here.
    """
    tensors: dict[str, Tensor] = {}
    path = files.weights or files.folder
    left_out, notes = list[str](), list[str]()
    if files.weights is None:
        stored = read_tensors(files.folder)
    elif not is_keras_2_file(files.weights):
        stored = read_file(files.weights)
    else:
        stored, left_out = tf_weights.tensors_within(files.weights)
        if layers := dict.fromkeys(name.split("/")[0] for name in left_out):
            note = f"layers of the Keras model around BERT are left out: {', '.join(layers)}"
            _logger.warning("%s: %s", path, note)
            notes.append(note)
    names = [tf_weights.torch_name(tensor.name) for tensor in stored]
    names, taken = unwrap_names(names, classes.prefix, path)
    if taken:
        notes.append(f"the names of the tensors are read without {taken!r} before them")
    for tensor, plain in zip(stored, names, strict=True):
        name = plain.removeprefix(classes.prefix)
        name = _OLD_NAMES.sub(lambda old: _NEW_NAMES[old[0]], name)
        if _BUFFERS.search(name):
            left_out.append(tensor.name)
        elif name in tensors:  # with `bert.` and without: a name that no model has is reported
            tensors[f"{tensor.name} beside {tensors[name].name}"] = tensor
        else:
            tensors[name] = tf_weights.convert_to_torch(tensor)
    for copy, original in classes.tied.items():
        if copy not in tensors:
            continue
        tensor = tensors.pop(copy)
        if original in tensors:
            left_out.append(tensor.name)
            if not np.array_equal(tensor.read(), tensors[original].read(), equal_nan=True):
                raise ValueError(
                    f"{path}: {copy} must equal {original}, to which BERT ties it, got others"
                )
        else:
            tensors[original] = tensor
    return tensors, left_out, notes


def unwrap_names(names: Sequence[str], prefix: str, source: Path) -> tuple[list[str], str]:
    """Remove prefixes of training code, such as "module."; return names and prefix.

    The token table's name shows it; `prefix` is the family's own, "bert.". A tensor outside of the
    model gets a name that no model has.
    """
    plain = [".".join(part for part in name.split(".") if part not in _AROUND) for name in names]
    tables = [name for name in plain if f".{name}".endswith(f".{_TOKEN_TABLE}")]
    beginnings = dict.fromkeys(name.removesuffix(_TOKEN_TABLE) for name in tables)
    if len(beginnings) > 1 and not {"", prefix} & set(beginnings):
        raise ValueError(f"{source} must hold one model, got several: {', '.join(beginnings)}")
    wrapper = next(iter(beginnings)).removesuffix(prefix) if len(beginnings) == 1 else ""
    around = [part for part in _AROUND if any(part in name.split(".") for name in names)]
    taken = ".".join([*around, wrapper.rstrip(".")] if wrapper else around)
    outside = f"(outside of {wrapper.rstrip('.')})"
    stripped = [
        name.removeprefix(wrapper) if name.startswith(wrapper) else f"{name} {outside}"
        for name in plain
    ]
    return stripped, taken
