"""A transformers folder: config.json with model.safetensors, pytorch_model.bin or tf_model.h5."""

import contextlib
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from kbert.checkpoints import first_values, transfer, weight_names
from kbert.checkpoints.checkpoint import PROBLEM_TYPES, Checkpoint, Tensor
from kbert.checkpoints.sentence_settings import read_sentence_settings, write_sentence_settings
from kbert.checkpoints.transformers import tf_weights
from kbert.checkpoints.transformers.classes import Classes, classes_of
from kbert.checkpoints.transformers.weight_files import FILES, INDEXES, read_tensors
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.io import json_schema as js
from kbert.io.folders import atomic_folder

_logger = logging.getLogger("kbert")

_CONFIG = js.fields(
    optional={
        "architectures": js.or_null(js.list_of(js.TEXT, "class names")),
        first_values.KEY: first_values.MARKS,
    }
)
SPLIT_PUNCTUATION = "kbert_split_punctuation"  # kbert's own key of config.json
_LABELS = js.mapping_of(js.TEXT)
ONNX = "onnx/model.onnx"  # where sentence-transformers and text-embeddings-inference look for it
_BUFFERS = re.compile(r"embeddings\.(position_ids|token_type_ids)$")


def is_one(path: Path) -> bool:
    """Whether a folder has transformers' files: a config.json that is not Keras's, and weights."""
    if not any((path / name).is_file() for name in FILES):
        return False
    file = path / "config.json"
    with contextlib.suppress(ValueError):
        return file.is_file() and "class_name" not in js.read_object(file)
    return True  # what is wrong with it is said when it is opened


@contextlib.contextmanager
def opened(path: Path, config: BertConfig | None = None) -> Iterator[Checkpoint]:
    """The folder's checkpoint.

    The prefix `bert.` (or its family's), the old names gamma and beta, TensorFlow's names,
    position_ids buffers and the decoder's copies of tied weights are dealt with here.

    Args:
        path: the folder.
        config: the configuration to go by; None: config.json's.

    Raises:
        FileNotFoundError: no weights, or a shard that the index names and the folder lacks.
        ValueError: a file that is damaged, or a decoder that is not tied.
        ImportError: a pytorch_model.bin where torch is not installed.
    """
    config = config or BertConfig.from_json(path / "config.json")
    values = js.read(path / "config.json", _CONFIG)
    classes = classes_of(config)
    architecture = _architecture(values, path, classes)
    tensors, left_out = _named_tensors(path, classes)
    head = classes.named[architecture][0] if architecture else _head_of(tensors)
    weight = tensors.get("classifier.out_proj.weight", tensors.get("classifier.weight"))
    num_labels = (weight.shape[0] if weight and weight.shape else 0) or 2
    spec = GraphSpec(config, head, num_labels=num_labels)
    has_tokens = any(
        (path / name).is_file() for name in ("tokenizer.json", "vocab.txt", "vocab.json")
    )
    yield Checkpoint(
        str(path),
        "transformers",
        weight_names.column_of(config),
        spec,
        tensors,
        architecture=architecture,
        labels=_labels(values, num_labels, path) if spec.has_labels else None,
        sentence=read_sentence_settings(path),
        problem_type=_problem_type(values, path),
        untrained=values.get(first_values.KEY) or {},
        split_punctuation=_split_punctuation(values),
        vocabulary=path if has_tokens else None,
        left_out=tuple(left_out),
    )


def head_said(path: Path) -> str | None:
    """The head of the class that config.json names."""
    values = js.read(path / "config.json", _CONFIG)
    classes = classes_of(BertConfig.from_dict(values, source=str(path / "config.json")))
    architecture = _architecture(values, path, classes)
    return classes.named[architecture][0] if architecture else None


def write(
    bert,
    path: Path,
    architecture: str | None = None,
    also: Callable[[Path], None] | None = None,
) -> None:
    """Writes config.json, model.safetensors and the tokenizer's files: all of them, or none.

    Args:
        bert: a `kbert.Bert`.
        path: the folder.
        architecture: the class of transformers to write; None: the one that it was read from,
            else the one that has the whole head.
        also: writes further files of this model into a folder, `onnx/model.onnx` among them.

    Raises:
        ValueError: a class that is unknown or has another head; a folder with other weights, an
            ONNX file that would stay, a vocabulary or modules.json where this model has none.
        OSError: it cannot be written.
    """
    classes = classes_of(bert.config)
    name = class_to_write(bert, architecture)
    _refuse_leftovers(bert, path, [] if also else [ONNX])
    labels = bert.labels or [f"LABEL_{label}" for label in range(bert.spec.num_labels)]
    parts, column = classes.named[name][1], weight_names.column_of(bert.config)
    has = weight_names.parts_of(bert.head, bert.config)
    left_out = [part for part in has if part not in parts]
    if left_out:
        _logger.warning("%s is saved as %s, without: %s", path, name, ", ".join(left_out))
    entries = [
        entry
        for part in parts
        for entry in weight_names.entries(part, bert.config, column, len(labels))
    ]
    arrays = transfer.arrays_of(bert.model, entries)
    values = bert.config.to_transformers_dict()
    values |= {"architectures": [name], "dtype": "float32"}
    if bert.spec.has_labels:
        values["id2label"] = {str(place): label for place, label in enumerate(labels)}
        values["label2id"] = {label: place for place, label in enumerate(labels)}
    if bert.problem_type is not None:
        values["problem_type"] = bert.problem_type
    held = [row.layer for part in parts for row in weight_names.rows_of(part, bert.config)]
    first_values.warn_of_untrained(bert, path, held)
    if marks := first_values.make_marks(bert, held):
        values[first_values.KEY] = marks
    if bert.split_punctuation is not None:
        values[SPLIT_PUNCTUATION] = bert.split_punctuation
    with atomic_folder(path) as folder:
        _save(arrays, classes, name == classes.bare, folder / "model.safetensors")
        text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        (folder / "config.json").write_text(text, encoding="utf-8")
        if bert.tokenizer is not None:
            bert.tokenizer.save(
                folder, max_length=bert.config.positions, tokenizer_class=classes.tokenizer
            )
        if bert.sentence is not None:
            write_sentence_settings(bert.sentence, bert.config, folder)
        if also is not None:
            also(folder)


def class_to_write(bert, architecture: str | None) -> str:
    """transformers' class for a model: the one asked for, its own, or that of its whole head."""
    classes = classes_of(bert.config)
    fitting = [name for name, (head, _) in classes.named.items() if head == bert.head]
    if architecture is None:
        return bert.architecture if bert.architecture in fitting else fitting[0]
    if architecture not in fitting:
        raise ValueError(
            f"architecture must be one of {', '.join(fitting)} for the head {bert.head}, got "
            f"{architecture!r}"
        )
    return architecture


def _refuse_leftovers(bert, path: Path, stale: list[str]) -> None:
    """Raises where the folder holds what would be read with, or before, what is written."""
    names = [*INDEXES, "pytorch_model.bin", "model.onnx", *stale]
    if bert.tokenizer is None:
        names += ["tokenizer.json", "vocab.txt", "vocab.json"]
    if bert.sentence is None:
        names.append("modules.json")
    if others := [name for name in names if (path / name).is_file()]:
        raise ValueError(
            f"{path} must hold nothing that would be read as a part of this checkpoint, got "
            f"{', '.join(others)}: choose another folder"
        )


def _save(arrays: dict[str, np.ndarray], classes: Classes, bare: bool, file: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    prefix = "" if bare else classes.prefix
    named = {
        (name if name.startswith(classes.heads) else prefix + name): array
        for name, array in arrays.items()
    }
    try:
        save_file(named, file, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(5, f"the weights cannot be written, {error}", str(file)) from None


def _head_of(tensors: dict[str, Tensor]) -> str:
    """The head that the tensors have, where the folder names no class."""
    if "qa_outputs.weight" in tensors:
        return "qa"
    if "classifier.out_proj.weight" in tensors or "pre_classifier.weight" in tensors:
        return "classifier"
    if "classifier.weight" in tensors:
        return "classifier" if "pooler.dense.weight" in tensors else "tokens"
    heads = ("cls.", "lm_head.", "vocab_")
    return "pretraining" if any(name.startswith(heads) for name in tensors) else "encoder"


def _architecture(values: dict, path: Path, classes: Classes) -> str | None:
    """The class that config.json names; None where it names none, or another of the family's."""
    names = values.get("architectures") or ()
    family = classes.bare.removesuffix("Model")
    if names and not any(name.startswith(family) for name in names):
        raise ValueError(
            f"{path / 'config.json'}: architectures must name a class of {family.upper()}, one of "
            f"{', '.join(classes.named)}, got {', '.join(names)}"
        )
    return next((name for name in names if name in classes.named), None)


def _problem_type(values: dict, path: Path) -> str | None:
    found = values.get("problem_type")
    if found is None or found in PROBLEM_TYPES:
        return found
    _logger.warning(
        "%s: problem_type must be one of %s, got %s: it is left out",
        *(path / "config.json", ", ".join(PROBLEM_TYPES), js.shown(found)),
    )
    return None


def _split_punctuation(values: dict) -> str | None:
    found = values.get(SPLIT_PUNCTUATION)
    return found if isinstance(found, str) else None


def _labels(values: dict, count: int, path: Path) -> tuple[str, ...] | None:
    """What the outputs are called, where id2label says it of each."""
    names = values.get("id2label")
    if names is None or names == {}:
        return None
    places = [str(place) for place in range(count)]
    if not js.matches(names, _LABELS) or set(names) != set(places):
        _logger.warning(
            "%s: id2label must name the classifier's %d outputs, 0 … %d, got %s: it is left out",
            path / "config.json",
            count,
            count - 1,
            js.shown(names),
        )
        return None
    return tuple(names[place] for place in places)


def _named_tensors(path: Path, classes: Classes) -> tuple[dict[str, Tensor], list[str]]:
    """Every tensor by its name in the table, unread; and what is no weight of its own."""
    tensors: dict[str, Tensor] = {}
    left_out = []
    for tensor in read_tensors(path):
        name = _table_name(tf_weights.torch_name(tensor.name), classes.prefix)
        if _BUFFERS.search(name):
            left_out.append(tensor.name)
        elif name in tensors:  # with `bert.` and without: a name that no model has is reported
            tensors[f"{tensor.name} beside {tensors[name].name}"] = tensor
        else:
            tensors[name] = tf_weights.as_torch(tensor)
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
    return tensors, left_out


def _table_name(name: str, prefix: str) -> str:
    name = name.removeprefix(prefix)
    return re.sub(r"LayerNorm\.(gamma|beta)$", _layer_norm, name)


def _layer_norm(match: re.Match) -> str:
    return f"LayerNorm.{'weight' if match[1] == 'gamma' else 'bias'}"
