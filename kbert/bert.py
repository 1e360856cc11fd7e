"""A BERT with its configuration, weights and tokenizer: `load` and `save`."""

import dataclasses
import logging
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from kbert.checkpoints import tables, transfer, transformers_folder
from kbert.config import BertConfig
from kbert.sentence import SentenceSettings, read_sentence_settings

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class Bert:
    """What `load` gives.

    Attributes:
        config: its configuration.
        head: which graph was built, one of `kbert.graph.HEADS`.
        model: the functional Keras model, with the checkpoint's weights.
        tokenizer: a `kbert.tokenizer.Tokenizer`; None where the checkpoint has no vocabulary.
        report: what was read, initialized and ignored.
        architecture: the class of transformers that the checkpoint is of, where it has one.
        labels: what a classifier's outputs are called, where the checkpoint says.
        sentence: how a sentence vector is made, where the checkpoint says.
    """

    config: BertConfig
    head: str
    model: object
    tokenizer: object
    report: transfer.Report
    architecture: str | None = None
    labels: tuple[str, ...] | None = None
    sentence: SentenceSettings | None = None


def load(
    path: str | os.PathLike,
    *,
    head: str | None = None,
    seq_len: int | None = None,
    allow_missing: Collection[str] = (),
    ignore: Collection[str] = (),
) -> Bert:
    """Opens a transformers folder: config.json with safetensors, shards or pytorch_model.bin.

    Args:
        path: the folder.
        head: the graph to build, one of `kbert.graph.HEADS`; None: the one that the checkpoint
            has. A head that it lacks keeps its first weights; the log says so, once, by name.
        seq_len: tokens in a sequence; None: any length.
        allow_missing: tensors, by transformers' name, that the checkpoint may lack.
        ignore: tensors that the model need not have a place for.

    Returns:
        A `Bert`.

    Raises:
        FileNotFoundError: no such folder, or one without configuration or weights.
        ValueError: weights that do not fit the configuration: one error lists every missing,
            unexpected and mis-shaped tensor, before any is assigned.
    """
    from kbert import builder, graph

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(2, "no such checkpoint", str(path))
    if not (path / "config.json").is_file():
        raise FileNotFoundError(2, "no config.json, as a transformers folder has, in", str(path))
    config, values = transformers_folder.read_config(path)
    tensors = transformers_folder.read_tensors(path)
    own_head = transformers_folder.head_of(values, tensors)
    head = head or own_head
    graph.check(config, head, seq_len, None)
    # A classifier of sequences and one of tokens have the same names, and are not the same.
    others = [name for name in tables.CLASSIFIER_NAMES if name in tensors and head != own_head]
    for name in others:
        del tensors[name]
    labels = transformers_folder.num_labels_of(tensors)
    model = builder.build(config, head, num_labels=labels, seq_len=seq_len)
    entries = [(entry, tables.shape_of(entry, config, labels)) for entry in _entries(config, head)]
    report = transfer.assign(
        model,
        entries,
        tensors,
        allow_missing={*allow_missing, *_absent_heads(tensors)},
        ignore={*ignore, *_every_head()},
    )
    report = dataclasses.replace(report, ignored=(*report.ignored, *others))
    if report.initialized:
        _logger.warning(
            "%s lacks, and first weights stay in: %s", path, ", ".join(report.initialized)
        )
    if report.not_finite:
        _logger.warning("%s has NaN or infinity in: %s", path, ", ".join(report.not_finite))
    sentence = read_sentence_settings(path)
    return Bert(config, head, model, _tokenizer(path), report, sentence=sentence)


def save(bert: Bert, path: str | os.PathLike) -> None:
    """Writes a transformers folder, which `AutoModel` and its head class open.

    config.json, model.safetensors and, where there is a tokenizer, its files; each is written
    beside and renamed.
    """
    import keras

    path = Path(path)
    layers = {layer.name: layer for layer in bert.model.layers}
    arrays = {}
    labels = bert.model.outputs[0].shape[-1]
    for entry in _entries(bert.config, bert.head):
        array = keras.ops.convert_to_numpy(transfer.variable_of(layers, entry))
        shape = tables.shape_of(entry, bert.config, labels)
        flat = array.reshape(shape[::-1] if entry.variable.endswith("kernel") else shape)
        arrays[entry.transformers] = transfer.oriented(flat, entry)
    transformers_folder.write(path, bert.config, bert.head, arrays)
    if bert.tokenizer is not None:
        bert.tokenizer.save(path)


def _entries(config: BertConfig, head: str) -> list[tables.Template]:
    entries = tables.templates(config)
    if head in ("tokens", "qa"):
        entries = entries[: -len(tables.POOLER)]
    return entries + tables.head_templates(head)


def _groups() -> list[list[tables.Template]]:
    heads = [tables.HEADS[name] for name in ("classifier", "qa")]
    return [tables.POOLER, tables.MLM_HEAD, tables.NSP_HEAD, *heads]


def _absent_heads(tensors: Collection[str]) -> set[str]:
    """The parameters of each head of which the checkpoint has none at all."""
    names = [{entry.transformers for entry in group} for group in _groups()]
    return set().union(*(group for group in names if not group & set(tensors)))


def _every_head() -> set[str]:
    return {entry.transformers for group in _groups() for entry in group}


def _tokenizer(path: Path):
    if not any((path / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        return None
    from kbert.tokenizer import Tokenizer

    return Tokenizer.load(path)
