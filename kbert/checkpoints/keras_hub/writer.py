"""Writes a KerasHub preset folder, without KerasHub: BertBackbone.from_preset opens it."""

import logging
from pathlib import Path

import numpy as np

from kbert.checkpoints import fitting, transfer, weight_names, writing
from kbert.checkpoints.keras_hub import objects
from kbert.checkpoints.keras_hub.weights import (
    INDEX,
    TASK_GROUPS,
    TASK_WEIGHTS,
    WEIGHTS,
    write_weights,
)
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS
from kbert.graph import closed_form, names
from kbert.graph.config import ACTIVATIONS
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.io.folders import atomic_folder

_logger = logging.getLogger("kbert")

_EPSILON = 1e-12  # bert_backbone.py
_INITIALIZER_RANGE = 0.02


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
    files = _json_files(bert)
    writing.refuse_leftovers(path, _list_leftovers(bert, files))
    _warn_of_differences(bert, path)
    held = [layer.name for layer in bert.model.layers if layer.name != names.NSP]
    writing.warn_of_losses(bert, path, "format keras_hub", _list_losses(bert), held)
    body, of_task = _arrays(bert)
    with atomic_folder(path) as folder:
        write_weights(folder / WEIGHTS, body, "bert_backbone")
        if of_task:
            name = files["task.json"]["config"]["name"]
            write_weights(folder / TASK_WEIGHTS, of_task, name, compiled=True)
        for name, values in files.items():
            writing.write_json(folder / name, values)
        if bert.tokenizer is not None:
            (folder / objects.VOCABULARY).parent.mkdir(parents=True)
            lines = "".join(f"{token}\n" for token in bert.tokenizer.tokens)
            (folder / objects.VOCABULARY).write_bytes(lines.encode())


def _check(bert, path: Path) -> None:
    """Refuse what KerasHub's BERT cannot be."""
    activation = bert.config.hidden_act
    if path.suffix == ".zip":
        raise ValueError(f"format keras_hub is written as a folder, got {path}: leave .zip out")
    fitting.require_wordpiece_bert(bert, "keras_hub")
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


def _task_of(bert) -> str | None:
    """Return the class of KerasHub around the backbone that has the same output."""
    name = HEADS[bert.head].keras_hub[0]
    if name != objects.BACKBONE:
        return name
    return "BertTextEmbedder" if bert.sentence and _embeds(bert.sentence) else None


def _embeds(sentence: SentenceSettings) -> bool:
    """Return whether KerasHub's BertTextEmbedder computes these vectors."""
    whole = not sentence.dense and sentence.dimensions is None
    return sentence.pooling in ("mean", "cls", "max") and whole


def _json_files(bert) -> dict[str, dict]:
    """Return the content of each JSON file by its name."""
    backbone = objects.backbone_object(bert.config)
    files = {"config.json": backbone, "metadata.json": _metadata(bert)}
    task = _task_of(bert)
    preprocessor, settings = None, {}
    if bert.tokenizer is not None:
        files["tokenizer.json"] = objects.tokenizer_object(bert.tokenizer.vocabulary)
    if bert.tokenizer is not None and task:
        length = bert.sentence and bert.sentence.max_length
        length = length or bert.config.max_position_embeddings
        preprocessor = objects.preprocessor_object(task, files["tokenizer.json"], length)
        files["preprocessor.json"] = preprocessor
    if task == "BertTextEmbedder":
        own = bert.sentence
        settings = {"pooling_mode": own.pooling, "normalize": own.normalize}
    if task == "BertTextClassifier":
        rate = bert.config.classifier_dropout
        rate = bert.config.hidden_dropout_prob if rate is None else rate
        count = bert.spec.num_labels
        settings = {"num_classes": count, "activation": "linear", "dropout": rate}
    if task:
        files["task.json"] = objects.task_object(task, backbone, preprocessor, **settings)
    return files


def _metadata(bert) -> dict:
    import keras

    encoder = GraphSpec(bert.config, "encoder")
    return {
        "keras_version": keras.version(),
        "keras_hub_version": objects.VERSION,
        "parameter_count": sum(row.params for row in closed_form.rows(encoder)),
        "tasks": ["MaskedLM", "TextClassifier", "TextEmbedder"],
    }


def _list_leftovers(bert, files: dict[str, dict]) -> list[str]:
    """Return the files of another preset that would be read with the new ones."""
    names = {"tokenizer.json", "preprocessor.json", "task.json", TASK_WEIGHTS, INDEX}
    names -= set(files)
    if HEADS[bert.head].keras_hub[0] != objects.BACKBONE:
        names.discard(TASK_WEIGHTS)
    return sorted(names)


def _arrays(bert) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the weights of the backbone, and of the task around it, by their paths."""
    body: dict[str, np.ndarray] = {}
    of_task: dict[str, np.ndarray] = {}
    for part in weight_names.PARTS_OF_HEAD[bert.head]:
        entries = weight_names.entries(part, bert.config, "keras_hub", bert.spec.num_labels)
        target = of_task if part in TASK_GROUPS else body
        target.update(transfer.arrays_of(bert.model, entries))
    return body, of_task


def _warn_of_differences(bert, path: Path) -> None:
    """Log what KerasHub computes differently."""
    config = bert.config
    otherwise = []
    if ACTIVATIONS[config.hidden_act] != "gelu_tanh":
        otherwise.append(f"tanh GELU, not hidden_act={config.hidden_act}")
    if config.layer_norm_eps != _EPSILON:
        otherwise.append(f"layer_norm_eps={_EPSILON}, not {config.layer_norm_eps}")
    if _task_of(bert) == "BertMaskedLM":
        otherwise.append("erf GELU and layer_norm_eps=1e-05 in the MLM head")
    if otherwise:
        what = "; ".join(otherwise)
        _logger.warning("%s: outputs differ in KerasHub, which computes %s", path, what)


def _list_losses(bert) -> list[str]:
    config = bert.config
    losses = ["NSP"] if _task_of(bert) == "BertMaskedLM" else []
    if bert.labels is not None:
        losses.append("labels")
    if bert.sentence is not None and _task_of(bert) != "BertTextEmbedder":
        losses.append("the way to a sentence vector: give pooling and normalize to embed")
    elif bert.sentence is not None:
        own = bert.sentence
        others = own.lowercase, any(own.prompts.values()), own.similarity != "cosine"
        names = ("do_lower_case", "prompts", "the similarity function")
        losses += [name for name, other in zip(names, others, strict=True) if other]
    if bert.cross_encoder is not None:
        losses.append("a cross-encoder's activation and prompt")
    padding = bert.tokenizer.pad_id if bert.tokenizer else 0
    written = {
        "attention_probs_dropout_prob": config.hidden_dropout_prob,
        "initializer_range": _INITIALIZER_RANGE,
        "pad_token_id": padding,
    }
    if _task_of(bert) != "BertTextClassifier":
        written["classifier_dropout"] = None
    values = config.to_dict()
    return losses + [f"{key}={values[key]}" for key, v in written.items() if values[key] != v]
