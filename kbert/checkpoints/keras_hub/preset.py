"""A KerasHub preset folder of BERT, read without KerasHub; and a live BertBackbone.

    config.json, model.weights.h5           BertBackbone; model.weights.json: its weights in shards
    tokenizer.json, assets/tokenizer/       BertTokenizer
    task.json, task.weights.h5              BertMaskedLM, BertTextClassifier or BertTextEmbedder

keras_nlp, as it was called, wrote the same files. KerasHub's BERT computes tanh GELU in its encoder
whatever the weights were trained with ("gelu_new"), with an epsilon of 1e-12; its MLM head computes
erf GELU with 1e-5. Its uncased tokenizer keeps accents unless told otherwise; kbert takes them off,
as Google does.
"""

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kbert.checkpoints.checkpoint import Checkpoint, Tensor
from kbert.checkpoints.keras.archive import package_of
from kbert.checkpoints.keras_hub import keras_file, objects
from kbert.checkpoints.keras_hub.weights import INDEX, WEIGHTS, name_within, open_tensors
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS, read_tokens
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.io import json_schema as js

_logger = logging.getLogger("kbert")

_PACKAGES = ("keras_hub", "keras_nlp")
_OBJECT = js.fields({"class_name": js.TEXT, "config": js.OBJECT})
_LENGTH = js.fields(optional={"sequence_length": js.or_null(js.whole(1))})
_TASK = js.fields(
    optional={
        "num_classes": js.whole(1),
        "dropout": js.number(0, 1),
        "pooling_mode": js.one_of("mean", "cls", "max"),
        "normalize": js.FLAG,
        "preprocessor": js.or_null(js.fields(optional={"config": _LENGTH})),
    }
)
_HEADS = {
    task: head.name
    for head in HEADS.values()
    for task in head.keras_hub
    if task != objects.BACKBONE
}
# BERT's tokenizer has these settings; KerasHub's can have others.
_TOKENIZER = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}


def is_checkpoint(path: Path) -> bool:
    """Return whether a folder has a preset's files, or a .keras file is KerasHub's."""
    if path.suffix == ".keras" and path.is_file():
        return package_of(path) in _PACKAGES
    has_weights = any((path / name).is_file() for name in (WEIGHTS, INDEX))
    return has_weights and (path / "config.json").is_file()


@contextlib.contextmanager
def open_checkpoint(
    path: Path, config: BertConfig | None = None, source: str = ""
) -> Iterator[Checkpoint]:
    """Open the checkpoint of a preset or a .keras file; messages call it `source`.

    Give a `config` with hidden_act="gelu" for weights that were trained with erf GELU.
    """
    if path.is_file():
        with (
            keras_file.unpack(path) as folder,
            open_checkpoint(folder, config, str(path)) as checkpoint,
        ):
            yield checkpoint
        return
    source = source or str(path)
    sizes = _read(path / "config.json", "BertBackbone")
    vocabulary, lowercase = _vocabulary(path)
    task: str | None = None
    settings: dict = {}
    if (path / "task.json").is_file():
        task, settings = _task_of(js.read(path / "task.json", _OBJECT), str(path / "task.json"))
    config = config or _config(sizes, source, task, settings, vocabulary)
    with open_tensors(path, config, with_task=task in _HEADS) as (tensors, left_out):
        yield Checkpoint(
            source,
            "keras_hub",
            "keras_hub",
            _spec(config, task, settings, source),
            tensors,
            sentence=_sentence(task, settings),
            vocabulary=vocabulary,
            lowercase=lowercase,
            left_out=left_out,
        )


@contextlib.contextmanager
def open_backbone(backbone) -> Iterator[Checkpoint]:
    """Open the checkpoint in a live BertBackbone of KerasHub, or in a task around it.

    The tokenizer is that of the task's preprocessor, if it has one.
    """
    name = _keras_hub_class(backbone)
    task = None if name == "BertBackbone" else name
    inner = backbone.backbone if task else backbone
    source = f"the {type(backbone).__name__} {backbone.name!r}"
    settings = backbone.get_config() if task else {}
    sizes = _config_of({"class_name": "BertBackbone", "config": inner.get_config()}, source)
    with tempfile.TemporaryDirectory(prefix="kbert-") as folder:
        vocabulary, lowercase = _live_vocabulary(backbone if task else None, Path(folder))
        yield Checkpoint(
            source,
            "keras_hub",
            "keras_hub",
            _spec(_config(sizes, source, task, settings, vocabulary), task, settings, source),
            _live_tensors(backbone),
            sentence=_sentence(task, settings),
            vocabulary=vocabulary,
            lowercase=lowercase,
        )


def _read(file: Path, wanted: str) -> dict:
    return _config_of(js.read(file, _OBJECT), str(file), wanted)


def _config_of(values: dict, source: str, wanted: str | None = None) -> dict:
    """Return the arguments in a serialized object of KerasHub, of a wanted class."""
    name, arguments = values["class_name"], values["config"]
    if name != (wanted or name):
        raise ValueError(f"{source} must be of a {wanted}, got {name}: not a BERT")
    dtype = arguments.get("dtype")
    policy = dtype.get("class_name") if isinstance(dtype, dict) else "DTypePolicy"
    if policy not in ("DTypePolicy", "FloatDTypePolicy"):
        raise ValueError(f"{source} must be of floating-point weights, got {policy}: quantized")
    return arguments


def _task_of(values, source: str) -> tuple[str | None, dict]:
    """Return a task's class and arguments; of a class that kbert does not know: None."""
    arguments = _config_of(values, source)
    name = values["class_name"]
    if name in _HEADS:
        return name, js.check(arguments, _TASK, source, "config")
    _logger.warning(
        "%s is a %s, which kbert does not know: only the encoder is loaded", source, name
    )
    return None, {}


def _config(
    sizes: dict, source: str, task: str | None, settings: dict, vocabulary: Path | None
) -> BertConfig:
    """Return the configuration that BertBackbone's arguments mean."""
    values = {ours: sizes[theirs] for theirs, ours in objects.SIZES.items() if theirs in sizes}
    if missing := [name for name in objects.SIZES if name not in sizes]:
        raise ValueError(f"{source}: the backbone must say {', '.join(missing)}, got none")
    dropout = sizes.get("dropout", 0.1)
    head = HEADS[_HEADS.get(task or "", "encoder")]
    classifier_dropout = settings.get("dropout") if head.has_labels else None
    try:
        return BertConfig(
            **values,
            hidden_act="gelu_new",
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            classifier_dropout=None if classifier_dropout == dropout else classifier_dropout,
            pad_token_id=_padding(vocabulary),
        )
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _spec(config: BertConfig, task: str | None, settings: dict, source: str) -> GraphSpec:
    head, num_labels = _HEADS.get(task or "", "encoder"), 2
    if task == "BertMaskedLM":
        _logger.warning(
            "%s: KerasHub's MLM head computes erf GELU with an epsilon of 1e-5, kbert's what the "
            "encoder does: logits differ (docs/concepts/gelu.md)",
            source,
        )
    if HEADS[head].has_labels:
        num_labels = settings.get("num_classes", 2)
        if settings.get("activation") not in (None, "linear"):
            _logger.warning("%s: kbert's outputs are logits, before the activation", source)
    return GraphSpec(config, head, num_labels=num_labels)


def _sentence(task: str | None, settings: dict) -> SentenceSettings | None:
    if task != "BertTextEmbedder":
        return None
    preprocessor = settings.get("preprocessor")
    length = (preprocessor or {}).get("config", {}).get("sequence_length")
    pooling = settings.get("pooling_mode", "mean")
    return SentenceSettings(pooling, settings.get("normalize", True), length)


def _vocabulary(path: Path) -> tuple[Path | None, bool | None]:
    """Return the vocabulary and whether it is uncased; None if kbert cannot tokenize alike."""
    file, description = path / objects.VOCABULARY, path / "tokenizer.json"
    if not file.is_file():
        return None, None
    if not description.is_file():
        return file, None
    rules = _read(description, "BertTokenizer")
    js.check(rules, js.fields(optional={"lowercase": js.FLAG}), str(description), "config")
    others = [f"{k}={rules[k]!r}" for k, v in _TOKENIZER.items() if rules.get(k, v) != v]
    if others:
        _logger.warning(
            "%s: left out, as BERT's tokenizer has not %s", description, ", ".join(others)
        )
        return None, None
    return file, rules.get("lowercase", False)


def _live_vocabulary(task, folder: Path) -> tuple[Path | None, bool | None]:
    """Write a task's tokenizer to a folder, and return the same as `_vocabulary`."""
    tokenizer = getattr(getattr(task, "preprocessor", None), "tokenizer", None)
    if tokenizer is None or tokenizer.vocabulary is None:
        return None, None
    tokenizer.save_to_preset(str(folder))
    return _vocabulary(folder)


def _padding(vocabulary: Path | None) -> int:
    """Return the id of [PAD]; 0 where there is no vocabulary, or one that is refused later."""
    if vocabulary is not None:
        with contextlib.suppress(ValueError):
            return read_tokens(vocabulary).index(SPECIAL_TOKENS["pad"])
    return 0


def _keras_hub_class(thing) -> str:
    known = ("BertBackbone", *_HEADS)
    for cls in type(thing).__mro__:
        if cls.__module__.split(".")[0] in _PACKAGES and cls.__name__ in known:
            return cls.__name__
    raise ValueError(
        "load needs the name or path of a checkpoint, or KerasHub's BertBackbone or a task around "
        f"it, got {type(thing).__name__}"
    )


def _live_tensors(model) -> dict[str, Tensor]:
    import keras

    tensors = {}
    for variable in model.weights:
        name, read = name_within(variable.path), partial(keras.ops.convert_to_numpy, variable)
        tensors[name] = Tensor(name, tuple(variable.shape), str(variable.dtype), read)
    return tensors
