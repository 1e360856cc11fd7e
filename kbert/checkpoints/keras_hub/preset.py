"""A KerasHub preset folder of BERT, or a .keras, read without KerasHub; and a live BertBackbone.

    config.json, model.weights.h5           BertBackbone; model.weights.json: its weights in shards
    tokenizer.json, assets/tokenizer/       BertTokenizer
    task.json, task.weights.h5              BertMaskedLM, BertTextClassifier or BertTextEmbedder

keras_nlp, as it was called, wrote the same files. KerasHub's BERT computes tanh GELU in its encoder
whatever the weights were trained with ("gelu_new"), with an epsilon of 1e-12; its MLM head computes
erf GELU with 1e-5. Its uncased tokenizer keeps accents unless told otherwise, and so does kbert.
"""

import contextlib
import dataclasses
import json
import logging
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kbert.checkpoints import hdf5
from kbert.checkpoints.checkpoint import Checkpoint, Tensor
from kbert.checkpoints.keras.archive import KerasArchive, package_of
from kbert.checkpoints.keras_hub.tokenizer_files import (
    PREPROCESSOR,
    VOCABULARY,
    check_same,
    find_max_length,
    read_rules,
)
from kbert.checkpoints.keras_hub.weights import (
    INDEX,
    OF_TRAINING,
    TASK_WEIGHTS,
    WEIGHTS,
    find_files,
    list_files,
    name_tensors,
    name_within,
)
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.checkpoints.zip_archive import temporary_folder
from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS, read_tokens
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS, Head
from kbert.io import json_schema as js

_logger = logging.getLogger("kbert")

BACKBONE = "BertBackbone"  # the class without a task
# BertBackbone's arguments, and what kbert calls them.
SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
_PACKAGES = ("keras_hub", "keras_nlp")
_IN_KERAS_FILE = "assets/preprocessor/tokenizer/vocabulary.txt"
_OBJECT = js.fields({"class_name": js.TEXT, "config": js.OBJECT})
_WITH_BACKBONE = js.fields({"config": js.fields({"backbone": _OBJECT})})
_WITH_TOKENIZER = js.fields({"config": js.fields({"tokenizer": _OBJECT})})
_OF_EVERY_LAYER = ("name", "trainable", "dtype")
_TASK = js.fields(
    optional={
        "num_classes": js.whole(1),
        "dropout": js.number(0, 1),
        "pooling_mode": js.one_of("mean", "cls", "max"),
        "normalize": js.FLAG,
        "preprocessor": js.or_null(js.fields(optional={"config": PREPROCESSOR})),
    }
)
# what the activation of a classifier says of its labels
_PROBLEM_TYPES = {"sigmoid": "multi_label_classification", "softmax": "single_label_classification"}


def _map_tasks() -> dict[str, Head]:
    """Return the heads by KerasHub's classes."""
    heads: dict[str, Head] = {}
    for head in HEADS.values():
        heads |= dict.fromkeys(head.keras_hub, head)
    return heads


_HEADS = _map_tasks()
_OF_TASK = (
    "backbone",
    "preprocessor",
    "num_classes",
    "activation",
    "dropout",
    "pooling_mode",
    "normalize",
)


def is_checkpoint(path: Path) -> bool:
    """Return whether a folder has a preset's files, or a .keras file is KerasHub's."""
    if path.suffix == ".keras" and path.is_file():
        return package_of(path) in _PACKAGES
    paths = (path / WEIGHTS, path / INDEX)
    has_weights = any(file.is_file() for file in paths)
    return has_weights and (path / "config.json").is_file()


@contextlib.contextmanager
def open_checkpoint(path: Path, config: BertConfig | None = None) -> Iterator[Checkpoint]:
    """Open the checkpoint of a preset or a .keras file.

    Give a `config` with hidden_act="gelu" for weights that were trained with erf GELU.
    """
    with contextlib.ExitStack() as stack:
        used: tuple[str, ...] = (path.name,)
        others: tuple[str, ...] = ()
        if path.is_file():
            archive = stack.enter_context(KerasArchive(path))
            folder = stack.enter_context(temporary_folder(str(path)))
            _unpack(archive, folder)
            body = of_task = archive.tensors()
        else:
            folder = path
            body = stack.enter_context(hdf5.open_tensors(*find_files(path)))
            of_task = stack.enter_context(hdf5.open_tensors(*path.glob(TASK_WEIGHTS)))
            used, others = list_files(path)

        checkpoint, task = _read_folder(folder, str(path), config)
        config = checkpoint.spec.config
        tensors = name_tensors(body, config, of_task=False)
        if task != BACKBONE:
            tensors |= name_tensors(of_task, config, of_task=True)

        left_out = [name for name in tensors if not OF_TRAINING.isdisjoint(name.split("/"))]
        for name in left_out:
            del tensors[name]
        yield dataclasses.replace(
            checkpoint,
            tensors=tensors,
            left_out=tuple(left_out),
            files=used,
            other_files=others,
        )


@contextlib.contextmanager
def open_backbone(backbone) -> Iterator[Checkpoint]:
    """Open the checkpoint in a live BertBackbone of KerasHub, or in a task around it."""
    task = _find_task(backbone)
    import keras

    source = f"the {type(backbone).__name__} {backbone.name!r}"
    with temporary_folder(source) as folder:
        inner = backbone
        if task != BACKBONE:
            inner = backbone.backbone
            _write_task(folder, task, backbone)
        _write_object(folder / "config.json", BACKBONE, inner.get_config())
        checkpoint, _ = _read_folder(folder, source)

        tensors = {}
        for variable in backbone.weights:
            path = name_within(variable.path)
            read = partial(keras.ops.convert_to_numpy, variable)
            shape = tuple(variable.shape)
            dtype = str(variable.dtype)
            tensors[path] = Tensor(path, shape, dtype, read)
        yield dataclasses.replace(checkpoint, tensors=tensors)


def _find_task(backbone) -> str:
    """Return the class of KerasHub that a live model is of, `BACKBONE` or a task."""
    for cls in type(backbone).__mro__:
        package = cls.__module__.split(".")[0]
        if package in _PACKAGES and cls.__name__ in _HEADS:
            return cls.__name__
    raise ValueError(
        "load needs the name or path of a checkpoint, or KerasHub's BertBackbone or a task "
        f"around it, got {type(backbone).__name__}"
    )


def _write_task(folder: Path, task: str, model) -> None:
    """Write the files of a live task, and of its tokenizer, as a preset has them."""
    _write_object(folder / "task.json", task, model.get_config())
    tokenizer = getattr(model.preprocessor, "tokenizer", None)
    if tokenizer is not None and tokenizer.vocabulary is not None:
        tokenizer.save_to_preset(str(folder))
        _add_split_on_cjk(folder / "tokenizer.json", tokenizer)


def _add_split_on_cjk(file: Path, tokenizer) -> None:
    """Write split_on_cjk of a live tokenizer, which KerasHub 0.32 leaves out of its files."""
    values = js.read(file, _OBJECT)
    values["config"].setdefault("split_on_cjk", getattr(tokenizer, "split_on_cjk", True))
    file.write_text(json.dumps(values), encoding="utf-8")


def _unpack(archive: KerasArchive, folder: Path) -> None:
    """Write the files of a .keras (`backbone.save`, `task.save`) as a preset has them."""
    root = archive.json("config.json", _OBJECT)
    backbone = root
    if root["class_name"] != BACKBONE and "backbone" in root["config"]:
        source = f"{archive.path}: config.json"
        backbone = js.check(root, _WITH_BACKBONE, source)["config"]["backbone"]
        text = json.dumps(root)
        (folder / "task.json").write_text(text, encoding="utf-8")

        preprocessor = root["config"].get("preprocessor")
        if preprocessor is not None and _IN_KERAS_FILE in archive:
            tokenizer = js.check(preprocessor, _WITH_TOKENIZER, source)["config"]["tokenizer"]
            text = json.dumps(tokenizer)
            (folder / "tokenizer.json").write_text(text, encoding="utf-8")
            (folder / VOCABULARY).parent.mkdir(parents=True)
            (folder / VOCABULARY).write_bytes(archive.text(_IN_KERAS_FILE))
    text = json.dumps(backbone)
    (folder / "config.json").write_text(text, encoding="utf-8")


def _write_object(file: Path, name: str, config: dict) -> None:
    text = json.dumps({"class_name": name, "config": config})
    file.write_text(text, encoding="utf-8")


def _read_folder(
    folder: Path, source: str, config: BertConfig | None = None
) -> tuple[Checkpoint, str]:
    """Return a preset's checkpoint without tensors, and its task's class, else `BACKBONE`."""
    _, sizes = _read_object(folder / "config.json", BACKBONE)
    _refuse_unknown(sizes, (*SIZES, "dropout"), folder / "config.json")
    task, settings = _read_task(folder / "task.json")

    preprocessors = _read_preprocessors(folder, settings.get("preprocessor"))
    length = find_max_length(preprocessors, folder)
    vocabulary, rules = _read_tokenizer(folder, preprocessors)
    sentence = None
    if task == "BertTextEmbedder":
        pooling = settings.get("pooling_mode", "mean")
        sentence = SentenceSettings(pooling, settings.get("normalize", True), length)

    config = config or _make_config(sizes, source, task, settings, vocabulary)
    checkpoint = Checkpoint(
        "keras_hub",
        _make_spec(config, task, settings, source),
        {},
        source,
        sentence=sentence,
        vocabulary=vocabulary,
        rules=rules | {"max_length": length},
        problem_type=_PROBLEM_TYPES.get(settings.get("activation") or ""),
    )
    return checkpoint, task


def _read_task(file: Path) -> tuple[str, dict[str, Any]]:
    """Return a task's class and arguments; `BACKBONE` and none without one that kbert knows."""
    if not file.is_file():
        return BACKBONE, {}
    name, arguments = _read_object(file)
    is_known = name in _HEADS and name != BACKBONE
    if not is_known:
        _logger.warning(
            "%s is a %s, which kbert does not know: only the encoder is loaded", file, name
        )
        return BACKBONE, {}

    settings = js.check(arguments, _TASK, str(file), "config")
    _refuse_unknown(settings, _OF_TASK, file)
    return name, settings


def _read_object(file: Path, wanted: str | None = None) -> tuple[str, dict]:
    """Return class and arguments of a serialized object of KerasHub, which must be of a class."""
    values = js.read(file, _OBJECT)
    name = values["class_name"]
    arguments = values["config"]
    if wanted not in (None, name):
        raise ValueError(f"{file} must be of a {wanted}, got {name}: not a BERT")

    dtype = arguments.get("dtype")
    policy = dtype.get("class_name") if isinstance(dtype, dict) else "DTypePolicy"
    if policy not in ("DTypePolicy", "FloatDTypePolicy"):
        raise ValueError(f"{file} must be of floating-point weights, got {policy}: quantized")
    return name, arguments


def _make_config(
    sizes: dict, source: str, task: str, settings: dict, vocabulary: Path | None
) -> BertConfig:
    """Return the configuration that BertBackbone's arguments mean."""
    missing = [name for name in SIZES if name not in sizes]
    if missing:
        raise ValueError(f"{source}: the backbone must say {', '.join(missing)}, got none")

    dropout = sizes.get("dropout", 0.1)
    classifier_dropout = settings.get("dropout") if _HEADS[task].has_labels else None
    if classifier_dropout == dropout:
        classifier_dropout = None
    padding = 0  # where there is no vocabulary, or one that is refused later
    with contextlib.suppress(ValueError):
        if vocabulary is not None:
            padding = read_tokens(vocabulary).index(SPECIAL_TOKENS["pad"])

    try:
        return BertConfig(
            **{ours: sizes[theirs] for theirs, ours in SIZES.items()},
            hidden_act="gelu_new",
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            classifier_dropout=classifier_dropout,
            pad_token_id=padding,
        )
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _make_spec(config: BertConfig, task: str, settings: dict, source: str) -> GraphSpec:
    head = _HEADS[task]
    if head.predicts_tokens:
        _logger.warning(
            "%s: KerasHub's MLM head computes erf GELU with an epsilon of 1e-5, kbert's what the "
            "encoder does: logits differ (docs/concepts/gelu.md)",
            source,
        )

    num_labels = 2
    if head.has_labels:
        num_labels = settings.get("num_classes", 2)
        if settings.get("activation") not in (None, "linear"):
            _logger.warning("%s: kbert's outputs are logits, before the activation", source)
    return GraphSpec(config, head.name, num_labels=num_labels)


def _refuse_unknown(arguments: dict, known: Collection[str], file: Path) -> None:
    """Raise a ValueError for an argument that kbert does not know: it may change the numbers."""
    known = (*known, *_OF_EVERY_LAYER)
    unknown = []
    for key, value in arguments.items():
        if value is not None and key not in known:
            unknown.append(key)
    if unknown:
        raise ValueError(
            f"{file}: kbert knows the arguments {', '.join(known)}, got {', '.join(unknown)}"
        )


def _read_preprocessors(folder: Path, of_task: dict | None) -> dict[str, dict]:
    """Return the arguments of the task's preprocessor, then of the folder's, by their file."""
    task = of_task or {}
    arguments = {"task.json": task.get("config") or {}}
    file = folder / "preprocessor.json"
    if file.is_file():
        _, settings = _read_object(file)
        checked = js.check(settings, PREPROCESSOR, str(file), "config")
        arguments[file.name] = checked
    return arguments


def _read_tokenizer(
    folder: Path, preprocessors: dict[str, dict]
) -> tuple[Path | None, dict[str, Any]]:
    """Return the vocabulary and its rules; no vocabulary if kbert cannot tokenize alike."""
    file = folder / VOCABULARY
    description = folder / "tokenizer.json"
    if not file.is_file():
        return None, {}
    if not description.is_file():
        return file, {}

    _, arguments = _read_object(description, "BertTokenizer")
    for name, values in preprocessors.items():
        check_same(arguments, values.get("tokenizer"), str(folder / name))
    rules = read_rules(arguments, str(description))
    return (None, {}) if rules is None else (file, rules)
