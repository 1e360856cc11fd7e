"""Writes a KerasHub preset folder, without KerasHub: BertBackbone.from_preset opens it.

The JSON files are those of KerasHub 0.32, as Keras serializes its classes.
"""

import logging
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbert.checkpoints import transfer, weight_names, writing
from kbert.checkpoints.bert import Bert, require_bert
from kbert.checkpoints.keras_hub.preset import BACKBONE, SIZES
from kbert.checkpoints.keras_hub.tokenizer_files import VOCABULARY, list_losses, make_arguments
from kbert.checkpoints.keras_hub.weights import (
    INDEX,
    TASK_GROUPS,
    TASK_WEIGHTS,
    WEIGHTS,
    write_weights,
)
from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS
from kbert.graph import closed_form, names
from kbert.graph.config import ACTIVATIONS
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.io import extras

if TYPE_CHECKING:
    import keras

_logger = logging.getLogger("kbert")

_EPSILON = 1e-12  # bert_backbone.py
_INITIALIZER_RANGE = 0.02
_MASKED_LM = "BertMaskedLM"
_CLASSIFIER = "BertTextClassifier"
_EMBEDDER = "BertTextEmbedder"
# BertMaskedLMPreprocessor's defaults, which are the paper's rates (section 3.1).
_MASKING = {
    "mask_selection_rate": 0.15,
    "mask_selection_length": 96,
    "mask_token_rate": 0.8,
    "random_token_rate": 0.1,
}
_OTHER_PROBLEMS = ("multi_label_classification", "regression")  # that no file of a preset names
# Bert|Masked|LM|Preprocessor
_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def to_keras_nlp(bert: Bert) -> "keras.Model":
    """Convert a model to keras_nlp, with its preprocessor; `kbert.load` converts it back.

    Args:
        bert: from `kbert.load`, with the head "encoder", "pretraining" or "classifier".

    Returns:
        A `keras_nlp.models.BertBackbone`, `BertMaskedLM` or `BertTextClassifier`; the last two with
        their preprocessor if there is a tokenizer. The new model has its own copy of the weights.
        The log names what keras_nlp computes differently (it always uses tanh GELU, whatever
        hidden_act is) and what it cannot hold (next-sentence prediction); docs/how_to/keras_nlp.md
        has the size of the differences.

    Raises:
        ImportError: keras-nlp is not installed.
        ValueError: a head that keras_nlp's BERT does not have; an activation that is not a GELU; a
            model of another family (RoBERTa, DistilBERT …); a tokenizer that is not WordPiece.
    """
    require_bert(bert, "to_keras_nlp")
    extras.require("to_keras_nlp", "keras-nlp", "keras_nlp")
    with tempfile.TemporaryDirectory(prefix="kbert-") as folder:
        preset = Path(folder) / "preset"
        write(bert, preset)
        import keras_nlp

        # KerasHub's current name of the class, which keras_nlp has too
        class_name = HEADS[bert.head].keras_hub[0]
        kind = getattr(keras_nlp.models, class_name)
        return kind.from_preset(os.fspath(preset))


def write(bert, path: Path) -> None:
    """Write a preset folder, all of it or nothing.

    The pretraining heads become a BertMaskedLM, without NSP; a classifier a BertTextClassifier; an
    encoder with sentence settings a BertTextEmbedder. The log names what KerasHub computes
    differently or cannot store. Raise a ValueError for a head that KerasHub does not have, an
    activation other than GELU, special tokens of other names, and files of another preset in the
    folder.
    """
    path = Path(path)
    _check(bert, path)
    task = _choose_task(bert)
    files = _make_objects(bert, task, path)
    written = set(files)
    if task in (_MASKED_LM, _CLASSIFIER):
        written.add(TASK_WEIGHTS)
    readable = {"tokenizer.json", "preprocessor.json", "task.json", TASK_WEIGHTS, INDEX}
    writing.refuse_leftovers(path, sorted(readable - written))

    _warn(bert, task, path)

    body = _read_arrays(bert, of_task=False)
    of_task = _read_arrays(bert, of_task=True)
    with writing.replace_folder(path) as folder:
        write_weights(folder / WEIGHTS, body, _name_module(BACKBONE))
        if of_task:
            write_weights(folder / TASK_WEIGHTS, of_task, _name_module(task), compiled=True)
        for name, values in files.items():
            writing.write_json(folder / name, values)
        if bert.tokenizer is not None:
            (folder / VOCABULARY).parent.mkdir(parents=True)
            lines = "".join(f"{token}\n" for token in bert.tokenizer.tokens)
            (folder / VOCABULARY).write_bytes(lines.encode())


def _warn(bert, task: str, path: Path) -> None:
    """Log what KerasHub computes differently, cannot store, or gets untrained."""
    differences = _list_differences(bert, task)
    if differences:
        what = "; ".join(differences)
        _logger.warning("%s: outputs differ in KerasHub, which computes %s", path, what)
    layers = [layer.name for layer in bert.model.layers]
    held = [layer for layer in layers if layer != names.NSP]
    losses = _list_losses(bert, task)
    writing.warn_of_losses(bert, path, "format keras_hub", losses, held)


def _choose_task(bert) -> str:
    """Return the class of KerasHub that has the same output."""
    task = HEADS[bert.head].keras_hub[0]
    sentence = bert.sentence
    if task != BACKBONE or not sentence:
        return task
    pools_alone = not sentence.dense and sentence.dimensions is None
    if pools_alone and sentence.pooling in ("mean", "cls", "max"):
        return _EMBEDDER
    return task


def _list_differences(bert, task: str) -> list[str]:
    """Say what KerasHub computes differently."""
    config = bert.config
    differences = []
    if ACTIVATIONS[config.hidden_act] != "gelu_tanh":
        differences.append(f"tanh GELU, not hidden_act={config.hidden_act}")
    if config.layer_norm_eps != _EPSILON:
        differences.append(f"layer_norm_eps={_EPSILON}, not {config.layer_norm_eps}")
    if task == _MASKED_LM:
        differences.append("erf GELU and layer_norm_eps=1e-05 in the MLM head")
    return differences


def _check(bert, path: Path) -> None:
    """Refuse what KerasHub's BERT cannot be."""
    activation = bert.config.hidden_act
    writing.require_wordpiece_bert(bert, path, "keras_hub")
    if not HEADS[bert.head].keras_hub:
        raise ValueError(
            f"format keras_hub must have the head pretraining, encoder or classifier, got "
            f"{bert.head}: save it with format='transformers'"
        )

    if ACTIVATIONS[activation] not in ("gelu", "gelu_tanh"):
        raise ValueError(
            f"format keras_hub must have hidden_act gelu_new, which KerasHub's BERT computes, or "
            f"gelu, which comes near it, got {activation}: save it with format='transformers'"
        )

    special = bert.tokenizer.vocabulary.special_tokens if bert.tokenizer else SPECIAL_TOKENS
    if special != SPECIAL_TOKENS:
        raise ValueError(
            f"format keras_hub must have the special tokens {' '.join(SPECIAL_TOKENS.values())}, "
            f"got {' '.join(special.values())}: save it with format='transformers'"
        )


def _make_objects(bert, task: str, path: Path) -> dict[str, dict]:
    """Return the content of each JSON file by its name."""
    import keras

    config = bert.config
    encoder = GraphSpec(config, "encoder")
    sizes = {argument: getattr(config, key) for argument, key in SIZES.items()}
    backbone = _make_layer(BACKBONE, "float32", **sizes, dropout=config.hidden_dropout_prob)
    metadata = {
        "keras_version": keras.version(),
        "keras_hub_version": "0.32.0",
        "parameter_count": sum(row.params for row in closed_form.rows(encoder)),
        "tasks": ["MaskedLM", "TextClassifier", "TextEmbedder"],
    }
    files = {"config.json": backbone, "metadata.json": metadata}

    if bert.tokenizer is not None:
        arguments = make_arguments(bert.tokenizer.vocabulary, path)
        arguments = {"config_file": "tokenizer.json"} | arguments
        tokenizer = _make_layer("BertTokenizer", "int32", **arguments)
        files["tokenizer.json"] = tokenizer
        is_shorter = _find_length(bert) < config.max_position_embeddings
        if task != BACKBONE or is_shorter:
            files["preprocessor.json"] = _make_preprocessor(bert, task, tokenizer)

    if task != BACKBONE:
        settings = _list_task_settings(bert, task)
        preprocessor = files.get("preprocessor.json")
        layers = {"backbone": backbone, "preprocessor": preprocessor}
        files["task.json"] = _make_object(task, layers | settings)
    return files


def _make_preprocessor(bert, task: str, tokenizer: dict) -> dict:
    """Return the content of preprocessor.json."""
    # a backbone has no preprocessor: the length goes into the one of the oldest task
    owner = _CLASSIFIER if task == BACKBONE else task
    masking = _MASKING if task == _MASKED_LM else {}
    return _make_layer(
        f"{owner}Preprocessor",
        "float32",
        tokenizer=tokenizer,
        config_file="preprocessor.json",
        sequence_length=_find_length(bert),
        truncate="round_robin",
        **masking,
    )


def _list_task_settings(bert, task: str) -> dict:
    """Return the arguments of a task, beyond its backbone and preprocessor."""
    if task == _EMBEDDER:
        return {"pooling_mode": bert.sentence.pooling, "normalize": bert.sentence.normalize}
    if task != _CLASSIFIER:
        return {}
    rate = bert.config.classifier_dropout
    if rate is None:
        rate = bert.config.hidden_dropout_prob
    return {"num_classes": bert.spec.num_labels, "activation": "linear", "dropout": rate}


def _find_length(bert) -> int:
    """Return the number of tokens that texts are truncated to."""
    lengths = [bert.config.max_position_embeddings]
    if bert.tokenizer:
        lengths.append(bert.tokenizer.max_length)
    if bert.sentence:
        lengths.append(bert.sentence.max_length)
    return min(length for length in lengths if length is not None)


def _make_layer(name: str, dtype: str, **settings) -> dict:
    policy = {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": {"name": dtype},
        "registered_name": None,
    }
    return _make_object(name, {"trainable": True, "dtype": policy} | settings)


def _make_object(name: str, settings: dict) -> dict:
    return {
        "module": f"keras_hub.src.models.bert.{_name_module(name)}",
        "class_name": name,
        "config": {"name": _name_module(name)} | settings,
        "registered_name": f"keras_hub>{name}",
    }


def _name_module(name: str) -> str:
    """Return a class's module, which is also its objects' default name."""
    return _BOUNDARY.sub("_", name).lower()


def _read_arrays(bert, of_task: bool) -> dict[str, np.ndarray]:
    """Return the weights of the backbone, or of the task around it, by their paths."""
    every = weight_names.parts_of(bert.head, bert.config)
    parts = [part for part in every if (part in TASK_GROUPS) == of_task]
    num_labels = bert.spec.num_labels
    entries = weight_names.entries(parts, bert.config, "keras_hub", num_labels)
    return transfer.arrays_of(bert.model, entries)


def _list_losses(bert, task: str) -> list[str]:
    """Return what a preset cannot store."""
    config = bert.config
    sentence = bert.sentence
    embeds = task == _EMBEDDER
    checks = {
        "NSP": task == _MASKED_LM,
        "labels": bert.labels is not None,
        "the way to a sentence vector: give pooling and normalize to embed": (
            sentence and not embeds
        ),
        "do_lower_case": embeds and sentence.lowercase,
        "prompts": embeds and any(sentence.prompts.values()),
        "the similarity function": embeds and sentence.similarity != "cosine",
        "a cross-encoder's activation and prompt": bert.cross_encoder is not None,
        f"problem_type={bert.problem_type}": bert.problem_type in _OTHER_PROBLEMS,
    }
    losses = [name for name, applies in checks.items() if applies]
    if bert.tokenizer:
        losses += list_losses(bert.tokenizer.vocabulary)

    stored: dict = {
        "attention_probs_dropout_prob": config.hidden_dropout_prob,
        "initializer_range": _INITIALIZER_RANGE,
        "pad_token_id": bert.tokenizer.pad_id if bert.tokenizer else 0,
        "classifier_dropout": None,
    }
    if task == _CLASSIFIER:
        stored["classifier_dropout"] = config.classifier_dropout
    values = config.to_dict()
    for key, value in stored.items():
        if values[key] != value:
            losses.append(f"{key}={values[key]}")
    return losses
