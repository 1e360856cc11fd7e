"""Google's release: bert_config.json, bert_model.ckpt.* and vocab.txt; or a training run's folder.

google-research/bert keeps its weights in TensorFlow's own checkpoint files: only TensorFlow reads
and writes them, whichever backend Keras runs on.

A checkpoint is several files, and its path is the beginning of their names, a prefix without an
ending. The index is a sorted table from the tensors' names to their dtype, shape and place; the
numbers lie in the data files, often a single one, one tensor after the other. A training run keeps
its last few checkpoints, and the text file `checkpoint` names the latest (TensorFlow's
tensor_bundle.proto and checkpoint_state.proto):

    bert_model.ckpt.index                     the names, in order, with an entry for each:
        bert/embeddings/LayerNorm/beta          float32 (768,), data file 0, its offset and size
        bert/embeddings/LayerNorm/gamma         and a check sum, CRC-32C
        …
    bert_model.ckpt.data-00000-of-00001       the numbers of every tensor, as bytes
    checkpoint                                model_checkpoint_path: "model.ckpt-20"
"""

import contextlib
import errno
import glob
import logging
import math
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from kbert.checkpoints import transfer, weight_names, writing
from kbert.checkpoints.checkpoint import Checkpoint, Tensor
from kbert.data.tokenization.vocabulary import read_tokens
from kbert.graph.config import ACTIVATIONS, BertConfig
from kbert.graph.spec import GraphSpec
from kbert.io import bounds, extras
from kbert.io.bounds import damage_in_one_line

_logger = logging.getLogger("kbert")

CHECKPOINT = "bert_model.ckpt"
_CONFIG = "bert_config.json"
_FORM = "TensorFlow checkpoint"
# What a training run keeps beside the weights: optimization.py's slots, tf.train's, counters. A
# slot is named below its weight, word_embeddings/adam_m, or after it (Mesh TensorFlow's Adafactor).
_SLOT = re.compile(r"_slot_\w+$")
_COUNTERS = re.compile(
    r"(^|/)(beta[12]_power(_\d+)?|global_step|learning_rate|save_counter"
    r"|(current_)?loss_scale|(num_)?good_steps)$"
)
# tokenization.py, validate_case_matches_checkpoint: uncased models whose names do not say so.
_UNCASED = ("multilingual_L-12_H-768_A-12", "chinese_L-12_H-768_A-12")
_ENOUGH_TOKENS = 1000
_one_at_a_time = threading.Lock()  # TensorFlow's reader keeps its place in the file
# modeling.py, get_activation; "gelu" is listed under the name that kbert reads it by.
_GOOGLES_ACTIVATIONS = ("gelu", "relu", "tanh", "linear")
_GOOGLES_SETTINGS = {"layer_norm_eps": 1e-12, "pad_token_id": 0, "classifier_dropout": None}


def is_checkpoint(path: Path) -> bool:
    """Return whether it is a folder with bert_config.json and a checkpoint, or its .index file."""
    is_index = path.is_file() and path.suffix == ".index"
    folder = path.parent if is_index else path
    return (folder / _CONFIG).is_file() and any(folder.glob("*.ckpt*.index"))


@contextlib.contextmanager
def open_checkpoint(path: Path, config: BertConfig | None = None) -> Iterator[Checkpoint]:
    """Open the folder's checkpoint: bert_model.ckpt, `checkpoint`'s, or the only one.

    `path` may be the .index file of one of several. The slots of optimizers and the step counter
    are left out.
    """
    folder, prefix = _choose_checkpoint(path)
    config = config or BertConfig.from_json(folder / _CONFIG)
    tensors = _tensors(prefix)
    left_out = [name for name in tensors if _is_of_training(name, tensors)]
    for name in left_out:
        del tensors[name]
    _check_is_google(prefix, tensors)

    head = weight_names.find_head(tensors, "google")
    num_labels = weight_names.find_num_labels(tensors, "google") or 2
    has_vocabulary = (folder / "vocab.txt").is_file()
    rules = {"lowercase": _lowercase(folder)} if has_vocabulary else {}
    other_files = [f"{name}.*" for name in _list_prefixes(folder) if name != prefix.name]
    yield Checkpoint(
        "google",
        GraphSpec(config, head, num_labels=num_labels),
        tensors,
        vocabulary=folder if has_vocabulary else None,
        rules=rules,
        left_out=tuple(left_out),
        files=_list_files(folder, prefix.name),
        other_files=tuple(other_files),
    )


def _check_is_google(prefix: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise a ValueError for tensors of other names than google-research/bert's."""
    if "bert/embeddings/word_embeddings" in tensors:
        return
    what = ", ".join(list(tensors)[:3]) or "none"
    if len(tensors) > 3:
        what += " …"
    if "_CHECKPOINTABLE_OBJECT_GRAPH" in tensors:
        what = "those of an object-based checkpoint (TensorFlow 2's tf.train.Checkpoint)"
    raise ValueError(
        f"{prefix} must hold BERT under google-research/bert's names, "
        f"bert/embeddings/word_embeddings …, got {what}"
    )


def write(bert, path: Path) -> None:
    """Write bert_config.json, bert_model.ckpt.* and the tokenizer's files: all, or none.

    vocab.txt is Google's; tokenizer_config.json beside it keeps the casing.
    """
    writing.require_wordpiece_bert(bert, path, "google")
    parts = weight_names.parts_of(bert.head, bert.config)
    templates = weight_names.templates_of(parts, bert.config)
    nameless = [row.names["kbert"] for row in templates if "google" not in row.names]
    if nameless:
        raise ValueError(
            f"format google cannot store the head {bert.head}: Google's release has no names for "
            f"{', '.join(nameless)}. Save it with format='transformers' (--to transformers)"
        )
    writing.warn_of_losses(bert, path, "format google", _list_losses(bert))
    _warn_of_settings(bert.config, path)

    entries = weight_names.entries_of(bert.spec, "google")
    with writing.replace_folder(path) as folder:
        _save(bert.model, entries, folder / CHECKPOINT)
        bert.config.to_json(folder / _CONFIG)
        if bert.tokenizer is not None:
            bert.tokenizer.save(folder, max_length=bert.config.max_position_embeddings)


def _warn_of_settings(config: BertConfig, path: Path) -> None:
    """Log the settings that Google's code does not know."""
    unknown = []
    for key, value in _GOOGLES_SETTINGS.items():
        if getattr(config, key) != value:
            unknown.append(key)
    if ACTIVATIONS[config.hidden_act] not in _GOOGLES_ACTIVATIONS:
        unknown.append("hidden_act")
    if not unknown:
        return
    settings = ", ".join(f"{key}={getattr(config, key)!r}" for key in sorted(unknown))
    if ACTIVATIONS[config.hidden_act] == "gelu_tanh":
        settings += " (they call this form gelu: write that into bert_config.json for them)"
    _logger.warning("%s: Google's code and keras_bert do not know %s", path, settings)


def _choose_checkpoint(path: Path) -> tuple[Path, Path]:
    """Return the folder, and its checkpoint's path without the endings of its files."""
    if path.suffix == ".index":
        return path.parent, path.with_suffix("")
    names = _list_prefixes(path)
    if not names:
        raise FileNotFoundError(f"{path}: no {CHECKPOINT}.index")

    latest = _read_latest(path / "checkpoint")
    likely = dict.fromkeys((CHECKPOINT, latest))
    named = [name for name in likely if name in names]
    if len(named) > 1:
        raise ValueError(
            f"{path} must hold {CHECKPOINT} or a training run's checkpoints, got both, and the "
            f"file `checkpoint` names {named[1]}: give the path of one's .index file"
        )
    if not named and len(names) > 1:
        raise ValueError(
            f"{path} must hold one checkpoint, or a file `checkpoint` that names one, got "
            f"{', '.join(names)}: give the path of one's .index file"
        )
    return path, path / (named or names)[0]


def _read_latest(file: Path) -> str | None:
    """Return the checkpoint that a run's file names, a protocol buffer as text; None without."""
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8", errors="replace")
    match = re.search(r'^model_checkpoint_path:\s*"(?:.*[/\\])?([^"/\\]+)"', text, re.MULTILINE)
    return match[1] if match else None


def _list_prefixes(folder: Path) -> list[str]:
    """Return the checkpoints in a folder, each without the endings of its files."""
    return sorted(file.stem for file in folder.glob("*.ckpt*.index"))


def _list_files(folder: Path, prefix: str) -> tuple[str, ...]:
    data = folder.glob(f"{glob.escape(prefix)}.data-*")
    return (f"{prefix}.index", *sorted(file.name for file in data))


def _is_of_training(name: str, names: Collection[str]) -> bool:
    """Return whether a tensor is an optimizer's: named after a weight, or one of its counters."""
    weight_above = name.rpartition("/")[0]
    weight_before = _SLOT.sub("", name)
    is_slot = weight_above in names or (weight_before != name and weight_before in names)
    return is_slot or _COUNTERS.search(name) is not None


def _tensorflow(path: Path):
    extras.require(f"{path}, a TensorFlow checkpoint,", "tensorflow", "tensorflow")
    import tensorflow

    return tensorflow


def _tensors(prefix: Path) -> dict[str, Tensor]:
    """Return every tensor of the checkpoint by its name, in the order of names, unread."""
    tf = _tensorflow(prefix)
    index = Path(f"{prefix}.index")
    if index.is_file():
        bounds.check_size(index, bounds.INDEX)
    with damage_in_one_line(prefix, _FORM):
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
        dtypes = reader.get_variable_to_dtype_map()
    bounds.check_count(prefix, len(shapes))

    data = list(prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*"))
    if not data:
        raise FileNotFoundError(f"{prefix.parent}: no {prefix.name}.data-00000-of-00001")
    size = sum(file.stat().st_size for file in data)
    stated = 0
    for name, shape in shapes.items():
        stated += math.prod(shape) * dtypes[name].size
    if stated > size:
        raise ValueError(
            f"{prefix} must be a whole TensorFlow checkpoint, got tensors of {stated:,} bytes, and "
            f"data of {size:,}"
        )

    tensors = {}
    for name in sorted(shapes):
        read = partial(_read, reader, prefix, name)
        shape = tuple(shapes[name])
        tensors[name] = Tensor(name, shape, dtypes[name].name, read)
    return tensors


def _read(reader, prefix: Path, name: str) -> np.ndarray:
    with _one_at_a_time, damage_in_one_line(prefix, _FORM):
        return reader.get_tensor(name)


def _lowercase(folder: Path) -> bool | None:
    """Return whether the folder's name, else its tokens, are uncased; None if no one can say.

    A vocabulary is cased if a token has a capital, uncased if a thousand have letters and none has.
    """
    files = ("tokenizer_config.json", "tokenizer.json")
    if any((folder / name).is_file() for name in files):
        return None
    name = folder.resolve().name
    if name in _UNCASED or "uncased" in name:
        return True
    if "cased" in name:
        return False

    try:
        tokens = read_tokens(folder / "vocab.txt")
    except (OSError, ValueError):  # said when the tokenizer is made, if it is
        return None
    pieces = [token for token in tokens if not re.fullmatch(r"\[.*\]", token)]
    if any(piece != piece.lower() for piece in pieces):
        return False
    with_letters = sum(piece != piece.upper() for piece in pieces)
    return True if with_letters >= _ENOUGH_TOKENS else None


def _list_losses(bert) -> list[str]:
    """Return what a model has that the files do not hold."""
    losses = []
    if bert.labels is not None:
        losses.append(f"the labels' names: {', '.join(bert.labels)}")
    if bert.cross_encoder is not None:
        losses.append("a cross-encoder's activation and prompt")
    if bert.sentence is not None:
        pooling = "+".join(bert.sentence.poolings)
        normalize = bert.sentence.normalize
        option = "normalize" if normalize else "no-normalize"
        losses.append(
            f"the pooling of sentence embeddings: give embed pooling={pooling!r}, "
            f"normalize={normalize!r} (--pooling {pooling} --{option})"
        )
    return losses


def _save(model, entries: list[weight_names.Entry], prefix: Path) -> None:
    """Write the weights with one operation: no variables, no graph, one copy of them at a time."""
    tf = _tensorflow(prefix)
    names = [entry.name for entry in entries]
    try:
        with tf.device("CPU:0"):
            tensors = []
            for entry in entries:
                array = transfer.arrays_of(model, [entry])[entry.name]
                tensors.append(tf.constant(array))
            tf.raw_ops.SaveV2(
                prefix=str(prefix),
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=tensors,
            )
    except tf.errors.OpError as error:
        last_line = error.message.split("}} ")[-1]
        what = last_line.removesuffix(" [Op:SaveV2]")
        raise OSError(errno.EIO, f"the weights cannot be written: {what}", str(prefix)) from None
