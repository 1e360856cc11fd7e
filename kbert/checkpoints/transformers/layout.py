"""Search for transformers' weights and configuration, without additions of training code.

A folder holds config.json (or bert_config.json, as pytorch-pretrained-bert had it) and the weights.
A file of weights is opened alone too, with the configuration beside it: what torch.save, Lightning
or Keras 2 wrote around a model of transformers.
"""

import logging
import re
from collections.abc import Mapping, Sequence
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
    if not path.is_dir():
        folder = path.parent
        return Layout(folder, path, find_config(folder))
    folder = transformer_folder(path)
    return Layout(folder, None, find_config(folder))


def read_config(layout: Layout) -> BertConfig:
    """Read the configuration beside the weights, or within a Keras 2 model."""
    file = layout.weights
    if file and is_keras_2_file(file):
        values = tf_weights.config_within(file)
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
    path = files.weights or files.folder
    stored, left_out, notes = _read_stored(files)
    names = [tensor.name for tensor in stored]
    if any("/" in name for name in names):
        stored = [tf_weights.convert_to_torch(tensor) for tensor in stored]
        names = [tf_weights.torch_name(name) for name in names]
    names, taken = unwrap_names(names, classes.prefix, path)
    if taken:
        notes.append(f"the names of the tensors are read without {taken!r} before them")

    tensors: dict[str, Tensor] = {}
    for tensor, plain in zip(stored, names, strict=True):
        name = plain.removeprefix(classes.prefix)
        name = _OLD_NAMES.sub(lambda old: _NEW_NAMES[old[0]], name)
        if _BUFFERS.search(name):
            left_out.append(tensor.name)
        elif name in tensors:  # with `bert.` and without: a name that no model has is reported
            tensors[f"{tensor.name} beside {tensors[name].name}"] = tensor
        else:
            tensors[name] = tensor

    left_out += _remove_copies(tensors, classes.tied, path)
    return tensors, left_out, notes


def _read_stored(files: Layout) -> tuple[list[Tensor], list[str], list[str]]:
    """Return the tensors by the names in the files, the names of tensors left out, and notes."""
    if files.weights is None:
        return read_tensors(files.folder), [], []
    if not is_keras_2_file(files.weights):
        return read_file(files.weights), [], []

    stored, left_out = tf_weights.tensors_within(files.weights)
    levels = [name.split("/") for name in left_out]
    layers = dict.fromkeys(first for first, *_ in levels)
    if not layers:
        return stored, left_out, []
    note = f"layers of the Keras model around BERT are left out: {', '.join(layers)}"
    _logger.warning("%s: %s", files.weights, note)
    return stored, left_out, [note]


def _remove_copies(tensors: dict[str, Tensor], tied: Mapping[str, str], path: Path) -> list[str]:
    """Remove the copies of tied weights, and return their names; a lone copy is the original."""
    removed = []
    for copy, original in tied.items():
        if copy not in tensors:
            continue
        tensor = tensors.pop(copy)
        if original not in tensors:
            tensors[original] = tensor
            continue
        original_array = tensors[original].read()
        if not np.array_equal(tensor.read(), original_array, equal_nan=True):
            raise ValueError(
                f"{path}: {copy} must equal {original}, to which BERT ties it, got others"
            )
        removed.append(tensor.name)
    return removed


def unwrap_names(names: Sequence[str], prefix: str, source: Path) -> tuple[list[str], str]:
    """Remove prefixes of training code, such as "module."; return names and prefix.

    The token table's name shows it; `prefix` is the family's own, "bert.". A tensor outside of the
    model gets a name that no model has.
    """
    levels: set[str] = set()
    plain = []
    for name in names:
        levels.update(name.split("."))
        inner = [level for level in name.split(".") if level not in _AROUND]
        plain.append(".".join(inner))

    tables = [name for name in plain if f".{name}".endswith(f".{_TOKEN_TABLE}")]
    beginnings = [name.removesuffix(_TOKEN_TABLE) for name in tables]
    beginnings = list(dict.fromkeys(beginnings))
    has_plain_model = "" in beginnings or prefix in beginnings
    if len(beginnings) > 1 and not has_plain_model:
        raise ValueError(f"{source} must hold one model, got several: {', '.join(beginnings)}")
    wrapper = ""
    if len(beginnings) == 1:
        wrapper = beginnings[0].removesuffix(prefix)

    stripped = []
    for name in plain:
        if name.startswith(wrapper):
            stripped.append(name.removeprefix(wrapper))
        else:
            stripped.append(f"{name} (outside of {wrapper.rstrip('.')})")

    taken = [module for module in _AROUND if module in levels]
    if wrapper:
        taken.append(wrapper.rstrip("."))
    return stripped, ".".join(taken)
