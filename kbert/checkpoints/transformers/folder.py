"""A transformers folder: config.json with model.safetensors, pytorch_model.bin or tf_model.h5.

Or one file of weights, see `kbert.checkpoints.transformers.layout`.
"""

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints import transfer, untrained_weights, weight_names, writing
from kbert.checkpoints.checkpoint import PROBLEM_TYPES, Checkpoint, Tensor
from kbert.checkpoints.model_files import README
from kbert.checkpoints.transformers import layout
from kbert.checkpoints.transformers.classes import CLASSES, Classes
from kbert.checkpoints.transformers.sentence_files import (
    folder_around,
    read_cross_encoder,
    read_sentence_settings,
    write_sentence_settings,
)
from kbert.checkpoints.transformers.weight_files import FILES, INDEXES, find_weights, list_files
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.io import json_schema as js

_logger = logging.getLogger("kbert")

_CONFIG = js.fields(
    optional={
        "architectures": js.or_null(js.list_of(js.TEXT, "class names")),
        untrained_weights.KEY: untrained_weights.DIGESTS,
    }
)
SPLIT_PUNCTUATION = "kbert_split_punctuation"  # kbert's own key of config.json
_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
_SHARD = re.compile(r"-\d+-of-\d+$")
_LABELS = js.mapping_of(js.TEXT)
_MOST_LABELS = 100_000  # of num_labels, which names none
ADAPTER = "adapter_config.json"  # of PEFT
ONNX = "onnx/model.onnx"  # where sentence-transformers and text-embeddings-inference look for it
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json")
_IGNORED = "%s: %s, got %s: it is ignored"
_OTHER = "ForMultipleChoice"  # classes with a head that kbert does not have


def is_checkpoint(path: Path) -> bool:
    """Return whether a path is a folder of transformers, or a file of weights of its models."""
    if path.is_file():
        is_weights = path.suffix in _ENDINGS or layout.is_keras_2_file(path)
        return is_weights and not _SHARD.search(path.stem)
    files = layout.find_layout(path)
    has_weights = any((files.folder / name).is_file() for name in FILES)
    if not path.is_dir() or not has_weights:
        return False
    with contextlib.suppress(ValueError):
        if files.config is None:
            return False
        return "class_name" not in js.read(files.config, js.OBJECT)
    return True  # what is wrong with it is said when it is opened


@contextlib.contextmanager
def open_checkpoint(path: Path, config: BertConfig | None = None) -> Iterator[Checkpoint]:
    """Open the checkpoint of a folder, or of a file of weights; see `layout.name_tensors`."""
    files = layout.find_layout(path)
    config = config or layout.read_config(files)
    values = _settings(files)
    classes = CLASSES[config.model_type]
    root = folder_around(files.folder)
    sentence, sentence_problem = read_sentence_settings(root, files.folder, config)
    named_class = _architecture(values, files.config, classes)

    tensors, left_out, notes = layout.name_tensors(files, classes)
    used, unused = list_files(files.weights or find_weights(files.folder))
    notes += _list_adapter_notes(files)

    new_labels = _new_labels(values)
    spec, architecture = _make_spec(files, config, named_class, tensors, new_labels or ())
    outputs = _describe_outputs(files, root, values, spec)
    vocabulary = files.folder if _has_tokenizer(files.folder) else None
    split = values.get(SPLIT_PUNCTUATION)

    yield Checkpoint(
        weight_names.column_of(config),
        spec,
        tensors,
        architecture=architecture,
        **outputs,
        sentence=sentence,
        sentence_problem=sentence_problem,
        new_labels=new_labels,
        other_head=_find_other_head(values, classes),
        untrained=values.get(untrained_weights.KEY) or {},
        split_punctuation=split if isinstance(split, str) else None,
        vocabulary=vocabulary,
        left_out=tuple(left_out),
        notes=tuple(notes),
        files=tuple(used),
        other_files=tuple(unused),
    )


def _list_adapter_notes(files: layout.Layout) -> list[str]:
    """Note, and warn, that an adapter in the folder is not loaded with the model."""
    if files.weights is not None or not (files.folder / ADAPTER).is_file():
        return []
    note = f"the adapter in the folder ({ADAPTER}) is loaded with adapter={str(files.folder)!r}"
    _logger.warning("%s: %s", files.folder, note)
    return [note]


def _make_spec(
    files: layout.Layout,
    config: BertConfig,
    named_class: str | None,
    tensors: Mapping[str, Tensor],
    new_labels: Sequence[str],
) -> tuple[GraphSpec, str | None]:
    """Return the spec of the checkpoint's graph, and the class of its head."""
    column = weight_names.column_of(config)
    by_weights = weight_names.find_head(tensors, column)
    head, architecture = _choose_head(files, config, named_class, by_weights)
    num_labels = weight_names.find_num_labels(tensors, column) or len(new_labels) or 2
    return GraphSpec(config, head, num_labels=num_labels), architecture


def _describe_outputs(
    files: layout.Layout, root: Path, values: dict, spec: GraphSpec
) -> dict[str, Any]:
    """Return what the files say of the head's outputs, under the names of `Checkpoint`."""
    labels = cross_encoder = None
    if spec.has_labels:
        labels = _labels(values, spec.num_labels, files.config)
    if HEADS[spec.head].classifies_texts:
        cross_encoder = read_cross_encoder(root, values)
    problem_type = _problem_type(values, files.config)
    return {"labels": labels, "cross_encoder": cross_encoder, "problem_type": problem_type}


def _choose_head(
    files: layout.Layout, config: BertConfig, named_class: str | None, by_weights: str
) -> tuple[str, str | None]:
    """Return the head and its class: those of config.json, or the head that the weights have."""
    if named_class is None:
        return by_weights, None

    head = CLASSES[config.model_type].named[named_class][0]
    groups = weight_names.parts_of(head, config)
    is_in_file = groups == weight_names.parts_of(by_weights, config)
    if files.weights is not None and not is_in_file:
        return by_weights, None  # the class is that of what was trained from
    return head, named_class


def _find_other_head(values: dict, classes: Classes) -> str | None:
    """Return the class in config.json that has a head which kbert does not have."""
    for name in values.get("architectures") or ():
        if _OTHER in name and name not in classes.named:
            return name
    return None


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _TOKENIZERS)


def read_head(path: Path) -> str | None:
    """Return the head of the class that config.json names."""
    files = layout.find_layout(path)
    if files.weights is not None:
        return None
    values = _settings(files)
    config = BertConfig.from_dict(values, source=str(files.config))
    classes = CLASSES[config.model_type]
    architecture = _architecture(values, files.config, classes)
    return classes.named[architecture][0] if architecture else None


def _settings(files: layout.Layout) -> dict:
    """Return the content of the configuration's file; empty without one."""
    if files.config is None:
        return {}
    return js.read(files.config, _CONFIG)


def write(
    bert,
    path: Path,
    architecture: str | None = None,
    also: Callable[[Path], None] | None = None,
) -> None:
    """Write config.json, model.safetensors, the tokenizer's files and the card, or nothing.

    `architecture` is the class of transformers to write; None: the one that it was read from, else
    the one that has the whole head. `also` writes further files, `onnx/model.onnx` among them.
    """
    name = class_to_write(bert, architecture)
    writing.refuse_leftovers(path, _list_stale_files(bert, has_onnx=also is not None))

    classes = CLASSES[bert.config.model_type]
    groups = classes.named[name][1]
    prefix = "" if name == classes.bare else classes.prefix
    arrays = _list_arrays(bert, groups, prefix)
    templates = weight_names.templates_of(groups, bert.config)
    layers = [row.layer for row in templates]
    losses = _list_losses(bert, groups)
    writing.warn_of_losses(bert, path, name, losses, layers)
    values = _make_config(bert, name, layers)

    with writing.replace_folder(path) as folder:
        writing.save_tensors(arrays, folder / "model.safetensors")
        writing.write_json(folder / "config.json", values)
        if bert.tokenizer is not None:
            bert.tokenizer.save(
                folder, max_length=bert.config.positions, tokenizer_class=classes.tokenizer
            )
        if bert.sentence is not None:
            write_sentence_settings(bert.sentence, bert.config, folder)
        if bert.card is not None:
            (folder / README).write_text(bert.card, encoding="utf-8")
        if also is not None:
            also(folder)


def _list_stale_files(bert, has_onnx: bool) -> list[str]:
    """Return the files that would be read with, or before, those that are written."""
    stale = [*INDEXES, "pytorch_model.bin", "model.onnx"]
    if not has_onnx:
        stale.append(ONNX)
    if bert.tokenizer is None:
        stale += _TOKENIZERS
    if bert.sentence is None:
        stale.append("modules.json")
    return stale


def _list_arrays(bert, groups: Collection[str], prefix: str) -> dict[str, np.ndarray]:
    """Return the weights by transformers' names, the encoder's with their prefix."""
    heads = CLASSES[bert.config.model_type].heads
    column = weight_names.column_of(bert.config)
    num_labels = bert.spec.num_labels
    entries = weight_names.entries(groups, bert.config, column, num_labels)

    arrays = {}
    values = transfer.arrays_of(bert.model, entries)
    for name, array in values.items():
        is_of_head = name.startswith(heads)
        arrays[name if is_of_head else prefix + name] = array
    return arrays


def _list_losses(bert, groups: Collection[str]) -> list[str]:
    """Say what of a model a class of transformers with these groups cannot store."""
    head_groups = weight_names.parts_of(bert.head, bert.config)
    losses = [group for group in head_groups if group not in groups]
    if bert.cross_encoder is not None and bert.cross_encoder.prompt:
        losses.append(f"the prompt {bert.cross_encoder.prompt!r}")
    if bert.sentence_problem is not None:
        losses.append(f"the pooling of sentence embeddings ({bert.sentence_problem})")
    return losses


def _make_config(bert, architecture: str, held: Collection[str]) -> dict:
    """Return config.json's content; `held` are the layers whose weights are written."""
    activation = bert.cross_encoder and bert.cross_encoder.activation
    optional = {
        "problem_type": bert.problem_type,
        untrained_weights.KEY: untrained_weights.make_digests(bert, held) or None,
        SPLIT_PUNCTUATION: bert.split_punctuation,
        "sentence_transformers": {"activation_fn": activation} if activation else None,
    }
    if bert.spec.has_labels:
        indices = range(bert.spec.num_labels)
        labels = bert.labels or [f"LABEL_{index}" for index in indices]
        optional["id2label"] = {str(index): label for index, label in enumerate(labels)}
        optional["label2id"] = {label: index for index, label in enumerate(labels)}

    values = bert.config.to_transformers_dict()
    values |= {"architectures": [architecture], "dtype": "float32"}
    for key, value in optional.items():
        if value is not None:
            values[key] = value
    return values


def class_to_write(bert, architecture: str | None) -> str:
    """Return the transformers class of a model: the requested, its own, or its whole head's."""
    classes = CLASSES[bert.config.model_type]
    fitting = [name for name, (head, _) in classes.named.items() if head == bert.head]
    if not fitting:
        raise ValueError(
            f"format transformers stores heads of its classes, got {bert.head}, which has none: "
            "save to a file that ends in .keras"
        )
    if architecture is None:
        return bert.architecture if bert.architecture in fitting else fitting[0]
    if architecture not in fitting:
        raise ValueError(
            f"architecture must be one of {', '.join(fitting)} for the head {bert.head}, got "
            f"{architecture!r}"
        )
    return architecture


def _architecture(values: dict, file: Path | None, classes: Classes) -> str | None:
    """Return the class that config.json names; None for none or one that kbert does not know."""
    names = values.get("architectures") or ()
    family = classes.bare.removesuffix("Model")
    if names and not any(name.startswith(family) for name in names):
        raise ValueError(
            f"{file}: architectures must name a class of {family.upper()}, one of "
            f"{', '.join(classes.named)}, got {', '.join(names)}"
        )
    for name in names:
        if name in classes.named:
            return name
    return None


def _problem_type(values: dict, file: Path | None) -> str | None:
    problem_type = values.get("problem_type")
    if problem_type is None or problem_type in PROBLEM_TYPES:
        return problem_type
    rule = f"problem_type must be one of {', '.join(PROBLEM_TYPES)}"
    _logger.warning(_IGNORED, file, rule, js.short_repr(problem_type))
    return None


def _labels(values: dict, count: int, file: Path | None) -> tuple[str, ...] | None:
    """Return the names of the outputs, if id2label has all of them."""
    names = values.get("id2label")
    if names is None or names == {}:
        return None
    indices = [str(index) for index in range(count)]
    if js.matches(names, _LABELS) and set(names) == set(indices):
        return tuple(names[index] for index in indices)
    rule = f"id2label must name the classifier's {count} outputs, 0 … {count - 1}"
    _logger.warning(_IGNORED, file, rule, js.short_repr(names))
    return None


def _new_labels(values: dict) -> tuple[str, ...] | None:
    """Return the labels that transformers gives a newly initialized head; None: its own two."""
    names = values.get("id2label") or {}
    count = values.get("num_labels") or values.get("_num_labels") or 0
    allowed_counts = js.whole(1, _MOST_LABELS)
    if not names and js.matches(count, allowed_counts):
        return tuple(f"LABEL_{index}" for index in range(count))
    if not js.matches(names, _LABELS):
        return None

    indices = [str(index) for index in range(len(names))]
    labels = tuple(names[index] for index in indices if index in names)
    are_unlike = len(names) == len(set(labels))
    return labels if names and are_unlike else None
