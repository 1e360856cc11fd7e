"""Load and save a BERT: its configuration, weights and tokenizer."""

import dataclasses
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbert.checkpoints import fitting, formats, run_models, transfer, untrained_weights
from kbert.checkpoints.adapters import peft_folder
from kbert.checkpoints.adapters.adapter import LoraAdapter, add_to
from kbert.checkpoints.checkpoint import Backbone, Checkpoint
from kbert.checkpoints.sentence_settings import CrossEncoderSettings, SentenceSettings
from kbert.graph import aliases
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS_WITH_LABELS
from kbert.io import bounds, printable
from kbert.model import deferred
from kbert.model.summary import read_spec_arguments

if TYPE_CHECKING:
    import keras

    from kbert.data.tokenization.tokenizer import Tokenizer

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class Bert(aliases.Answering):
    """A loaded BERT model: configuration, weights and tokenizer. `load` returns one.

    Attributes:
        config: the `BertConfig`.
        head: the head of the graph, one of `kbert.heads.HEADS`, such as "classifier".
        model: the functional Keras model with the checkpoint's weights.
        tokenizer: the `kbert.Tokenizer`; None if the checkpoint has no vocabulary.
        report: the tensors that were read, newly initialized and ignored.
        architecture: the transformers class of the checkpoint, such as "BertForMaskedLM"; None if
            the checkpoint names none.
        labels: the names of a classifier's outputs, in order; None if the checkpoint has none.
        sentence: the checkpoint's settings for sentence embeddings, a `SentenceSettings`; None if
            it has none.
        problem_type: the kind of classifier, in transformers' terms: "single_label_classification",
            "multi_label_classification" or "regression"; None if the checkpoint does not say.
        split_punctuation: how `kbert.tag` splits texts into words, the same way as the training
            data: at white space, with this punctuation stripped from both ends of a word. None: the
            tokenizer's split, at every punctuation mark.
        adapter: the LoRA adapter that was merged into the weights by `finetune(lora_rank=…)` or
            `load(adapter=…)`; None if none is known.
        sentence_problem: why kbert cannot compute the checkpoint's sentence embeddings; None if it
            can, or if the checkpoint has no settings for them.
        cross_encoder: how a cross-encoder turns its single logit into a score; None if the
            checkpoint does not say.
        source: the hub address with the commit that the model was loaded from, such as
            "hf://google-bert/bert-base-uncased@COMMIT"; None if it was not loaded from a hub.
        card: the text of the model card, which `save` writes as README.md for transformers; None if
            it is not the result of a run.
    """

    config: BertConfig
    head: str
    model: "keras.Model"
    tokenizer: "Tokenizer | None" = None
    report: transfer.TransferReport | None = None
    architecture: str | None = None
    labels: tuple[str, ...] | None = None
    sentence: SentenceSettings | None = None
    problem_type: str | None = None
    split_punctuation: str | None = None
    adapter: LoraAdapter | None = None
    sentence_problem: str | None = None
    cross_encoder: CrossEncoderSettings | None = None
    source: str | None = None
    card: str | None = None

    @property
    def spec(self) -> GraphSpec:
        """Spec of the graph: the model's own, or one derived from the model's layers."""
        spec = getattr(self.model, "spec", None)
        if spec is not None:
            has_same_config = spec.config == self.config
            if has_same_config and spec.head == self.head:
                return spec
        arguments = read_spec_arguments(self.model) | {"head": self.head}
        return GraphSpec(self.config, **arguments)

    def __repr__(self) -> str:
        config = self.config
        params = f"{self.model.count_params():,} parameters, " if self.model is not None else ""
        return (
            f"Bert({self.head}, {config.num_hidden_layers} blocks of width {config.hidden_size:,}, "
            f"{params}{self.tokenizer or 'no tokenizer'})"
        )


@printable.escape_errors()
@aliases.answer_old_names
def load(
    source: str | os.PathLike | Backbone,
    *,
    head: str | None = None,
    num_labels: int | None = None,
    labels: Sequence[str] | None = None,
    seq_len: int | None = None,
    config: BertConfig | None = None,
    format: str | None = None,
    allow_missing: Collection[str] = (),
    ignore: Collection[str] = (),
    tokenizer: bool = True,
    lowercase: bool | None = None,
    adapter: str | os.PathLike | None = None,
) -> Bert:
    """Load a BERT by the name of a model or by a path.

    For example::

        kbert.load("bert-base-uncased")
        kbert.load("sentence-transformers/all-MiniLM-L6-v2@COMMIT")
        kbert.load("kaggle://keras/bert/keras/bert_base_en")
        kbert.load("run")

    kbert looks for a local path first, then in the caches of Hugging Face and Kaggle, and then
    downloads the model into them. A model in a cache is opened without a connection. The formats:
    Google's release (a folder, or the .zip), a folder of transformers, sentence-transformers or a
    KerasHub preset, keras_bert's .h5, kbert's .keras; or a live KerasHub `BertBackbone`.

    Args:
        source: the name of a model, a folder, a file, or a KerasHub `BertBackbone`. A name is
            owner/name on Hugging Face, optionally followed by @ and a branch, tag or commit; a name
            that kbert knows without its owner, such as "bert-base-uncased"; or kaggle:// and a
            KerasHub preset.
        head: the head of the graph to build, one of `kbert.heads.HEADS`, such as "classifier";
            None: the head that the checkpoint has. A head that the checkpoint lacks is newly
            initialized; the log names its weights once.
        num_labels: number of outputs of the heads "classifier" and "tokens"; None: the number of
            `labels`, else the checkpoint's, else 2. If the checkpoint's classifier has another
            number of outputs, a new classifier is initialized, and the log says so.
        labels: the names of those outputs, in order; None: the checkpoint's.
        seq_len: tokens in a sequence; None: any length.
        config: the configuration, for files that have none, such as keras_bert's weights.
        format: the format to read if a folder holds several: "transformers", "google",
            "keras_bert", "keras" or "keras_hub".
        allow_missing: tensors that the checkpoint may lack, by their names in the file.
        ignore: tensors that may be in the checkpoint though the model has no such weight, by their
            names or by patterns, such as "adapter.*".
        tokenizer: whether to read the vocabulary.
        lowercase: whether the vocabulary is uncased; None: the checkpoint's setting.
        adapter: the folder or the name of a LoRA adapter for this checkpoint, as PEFT or
            `save(format="peft")` writes it. The adapter is merged into the weights, and the head
            that was trained with it is loaded; the adapter's `head` and `labels` are used if it has
            them.

    Returns:
        A `Bert`.

    Raises:
        FileNotFoundError: no such path or model, or no configuration or weights there.
        PermissionError: the model is gated or private; the message says how to log in.
        ConnectionError: the model is not in a cache, and there is no network.
        ValueError: the weights do not fit the configuration: one error lists every missing,
            unexpected and mis-shaped tensor, and no weight is assigned. Also: a vocabulary with
            more tokens than the embedding has rows; a format that kbert does not read; labels that
            contradict their number or the checkpoint's order, or labels for a head that has none;
            an adapter of another checkpoint.
    """
    if config is not None and not isinstance(config, BertConfig):
        raise ValueError(f"config must be a BertConfig, got {config!r}: see kbert.get_config")
    adapter_path = None if adapter is None else formats.find_path(adapter)

    with formats.open_checkpoint(source, config, format) as checkpoint:
        added = None
        if adapter_path is not None:
            added = peft_folder.read(adapter_path, checkpoint.spec.head)
        head, num_labels, labels = _choose_outputs(checkpoint, added, head, num_labels, labels)

        own_tokenizer = None
        tokens = None
        if tokenizer and checkpoint.vocabulary is not None:
            own_tokenizer = _load_tokenizer(checkpoint.vocabulary, checkpoint.rules, lowercase)
            tokens = own_tokenizer.vocab_size
            if own_tokenizer.pad_id != checkpoint.spec.config.pad_token_id:
                checkpoint = checkpoint.replace_pad_id(own_tokenizer.pad_id)

        config = checkpoint.spec.config
        spec = GraphSpec(config, head, seq_len=seq_len, num_labels=num_labels)
        fit = fitting.fit(checkpoint, spec, allow_missing, ignore, tokens)
        fit.check(checkpoint.source)
        elsewhere = added.layers(spec.config) if added else frozenset()
        bert = _build(checkpoint, spec, labels, fit, own_tokenizer, elsewhere)

    if added is None:
        return bert
    return merge_adapter(bert, added, str(adapter), str(source))


def _choose_outputs(
    checkpoint: Checkpoint,
    adapter: LoraAdapter | None,
    head: str | None,
    num_labels: int | None,
    labels: Sequence[str] | None,
) -> tuple[str, int, tuple[str, ...] | None]:
    """Return the head to build, the number of its labels and their names.

    They are the requested ones, else the adapter's, else the checkpoint's.
    """
    if adapter is not None:
        head = head or adapter.head
        if labels is None and num_labels is None:
            labels = adapter.labels
            num_labels = adapter.num_labels if labels is None else None

    head = _choose_head(checkpoint, head)
    num_labels, names = _choose_labels(checkpoint, head, num_labels, labels)
    return head, num_labels, names


def _choose_head(checkpoint: Checkpoint, head: str | None) -> str:
    """Return the head to build: the requested, else the checkpoint's."""
    head = aliases.resolve("head", head)
    if head is None and checkpoint.other_head:
        raise ValueError(
            f"{checkpoint.source} must have a head that kbert builds, got a "
            f"{checkpoint.other_head}: load its encoder with head='encoder'"
        )
    return head or checkpoint.spec.head


def _load_tokenizer(vocabulary: Path, rules: Mapping, lowercase: bool | None) -> "Tokenizer":
    """Load a checkpoint's tokenizer, by its own rules but for `lowercase` if that is given."""
    from kbert.data.tokenization.tokenizer import Tokenizer

    rules = dict(rules)
    if lowercase is not None:
        rules["lowercase"] = lowercase
    return Tokenizer.load(vocabulary, **rules)


@printable.escape_errors()
def save(
    bert: Bert,
    path: str | os.PathLike,
    *,
    format: str | None = None,
    architecture: str | None = None,
    quantize: str | None = None,
    calibration: Sequence[str] | None = None,
    text: bool = False,
    overwrite: bool = False,
) -> None:
    """Save a model in one of the formats. An interrupted save leaves the old files as they were.

    Args:
        bert: a `Bert`.
        path: the folder or file to write; or hf://owner/name, which uploads a folder with a model
            card to Hugging Face, see `kbert.push`.
        format: one of the following. None: chosen by the path's ending (.keras, .onnx, .tflite),
            else "transformers", a folder.
            "transformers": a folder for AutoModel and its head's class.
            "transformers_onnx": the same with onnx/model.onnx, for sentence-transformers' backend
            "onnx", optimum and text-embeddings-inference.
            "google": a checkpoint for tf.train.load_checkpoint and keras_bert.
            "keras_hub": a preset for BertBackbone.from_preset.
            "keras": one .keras file.
            "saved_model", "onnx", "litert": for inference.
            "peft": the LoRA adapter alone, for PeftModel.from_pretrained and `load(adapter=…)`.
        architecture: the transformers class to write, for "transformers"; None: the class that was
            loaded, else the class that has the whole head.
        quantize: for ONNX. "int8": int8 weights and activations of the matrix products, with ranges
            from the `calibration` texts (ONNX Runtime's static quantization); "int8_dynamic": with
            ranges from each call; None: float32.
        calibration: some hundred texts like those that the model will read.
        text: whether a SavedModel takes texts instead of ids and returns embeddings, labels with
            their probabilities, or tokens for a [MASK]. The tokenizer is then part of the graph, by
            tensorflow-text.
        overwrite: whether to replace a model of the same format, or files of the same names in a
            folder with other files.

    Raises:
        FileExistsError: without `overwrite`, a file or a folder with files at the path.
        ValueError: the format is unknown or cannot hold the head; the path ends as no file that
            kbert writes; the folder has a checkpoint of another format; the path is that of a
            run's model; the model does not match its configuration.
        OSError: the model cannot be written or uploaded.
    """
    require_bert(bert, "save")
    if not str(path):
        raise ValueError("path must be a folder or a file, got an empty path")
    options: dict = {
        "architecture": architecture,
        "quantize": quantize,
        "calibration": calibration,
        "text": text or None,
    }
    options = {name: value for name, value in options.items() if value is not None}

    address = os.fspath(path)
    if address.startswith(("hf:/", "kaggle:/")):  # a Path has one slash of the two
        pushing = formats.import_hub("pushing")
        pushing.push_model(bert, address, format or "transformers", options)
        return
    bounds.refuse_url(path, to_write=True)

    path = Path(path)
    form = format or formats.format_for(path)
    write = formats.writer(form)
    formats.check_options(form, options)
    run_models.refuse_model_of_run(path)
    formats.check_destination(path, form)
    if not overwrite:
        formats.refuse_to_replace(path, form)
    transfer.check_whole(bert.model, bert.spec)
    write(bert, path, **options)


def replace(bert: Bert, path: Path, form: str) -> None:
    """Save a model in place of an older one of its format, also of a run."""
    formats.check_destination(path, form)
    transfer.check_whole(bert.model, bert.spec)
    formats.writer(form)(bert, path)


def _build(
    checkpoint: Checkpoint,
    spec: GraphSpec,
    labels: tuple[str, ...] | None,
    fit: fitting.Fit,
    tokenizer: "Tokenizer | None",
    elsewhere: Collection[str],
) -> Bert:
    """Build a checkpoint's model; `elsewhere` names layers whose weights an adapter brings."""
    from kbert.model import builder

    with deferred.defer_values():
        model = builder.build(spec)
    not_finite = transfer.fill(model, fit.entries, fit.tensors)
    report = _make_report(checkpoint, model, fit, not_finite)

    stored = checkpoint.spec
    has_stored_head = spec.head == stored.head
    is_same = has_stored_head and spec.num_labels == stored.num_labels
    if is_same or (has_stored_head and elsewhere):
        labels = labels or checkpoint.labels
    elif has_stored_head:
        _logger.warning(
            "%s has a head for %d labels, but num_labels is %d: a new head is initialized",
            checkpoint.source,
            stored.num_labels,
            spec.num_labels,
        )
    of_adapter = {entry.name for entry in fit.entries if entry.layer in elsewhere}
    new = [name for name in report.initialized if name not in of_adapter]
    _warn(checkpoint, report, tokenizer, new)

    attributes = ["sentence", "sentence_problem"]
    if has_stored_head:
        attributes += ["architecture", "problem_type", "split_punctuation"]
    if is_same:
        attributes += ["cross_encoder", "card"]
    return Bert(
        spec.config,
        spec.head,
        model,
        tokenizer,
        report,
        labels=labels,
        source=checkpoint.address,
        **{name: getattr(checkpoint, name) for name in attributes},
    )


def _make_report(
    checkpoint: Checkpoint, model, fit: fitting.Fit, not_finite: Collection[str]
) -> transfer.TransferReport:
    """Return which weights were assigned, newly initialized, ignored and not finite."""
    # nameless weights, and those that are marked as untrained, are new too
    marked: list[str] = []
    if checkpoint.untrained:
        marked = untrained_weights.find_unchanged(model, checkpoint.untrained)
    new = []
    for entry in fit.entries:
        if entry.name not in fit.tensors or entry.layer in marked:
            new.append(entry)
    layers = [entry.layer for entry in new]
    layers += [name.split("/")[0] for name in fit.nameless]

    expected = [entry.name for entry in fit.entries]
    known = set(expected)
    assigned = [name for name in expected if name in fit.tensors]
    initialized = [entry.name for entry in new]
    ignored = [name for name in fit.tensors if name not in known]
    return transfer.TransferReport(
        assigned=tuple(assigned),
        initialized=(*initialized, *fit.nameless),
        ignored=(*ignored, *fit.of_other_heads),
        not_finite=tuple(name for name in expected if name in not_finite),
        initialized_layers=tuple(dict.fromkeys(layers)),
        first_values=untrained_weights.digests(model, layers) if layers else {},
    )


def merge_adapter(bert: Bert, adapter: LoraAdapter, source: str, base: str) -> Bert:
    """Merge an adapter into a model's weights, in place; see `add_to`."""
    added = add_to(bert.model, bert.spec, adapter, source, base)
    return dataclasses.replace(
        bert,
        adapter=added,
        card=None,  # it is the base's
        problem_type=adapter.problem_type or bert.problem_type,
        split_punctuation=adapter.split_punctuation,
    )


def require_bert(bert, function: str, what: str = "a kbert.Bert") -> None:
    """Raise a ValueError unless the first argument of a function is a `Bert`."""
    if isinstance(bert, Bert):
        return
    way = "load one with kbert.load(path)"
    if isinstance(getattr(bert, "bert", None), Bert):
        way = "its attribute .bert is the model"
    elif hasattr(bert, "layers"):
        way = "wrap a Keras model as kbert.Bert(config, head, model, tokenizer)"
    raise ValueError(
        f"{function} needs {what} as its first argument, got {type(bert).__name__}: {way}"
    )


def _check_labels(labels, num_labels: int | None) -> tuple[str, ...] | None:
    if num_labels is not None:
        require_positive("num_labels", num_labels)
    if labels is None:
        return None

    is_list = isinstance(labels, Sequence) and not isinstance(labels, str)
    listed = tuple(labels) if is_list else ()
    if not listed or not all(isinstance(label, str) for label in listed):
        raise ValueError(
            f"labels must be a list of names, got {labels!r:.60}: give their number as num_labels"
        )
    if len(set(listed)) < len(listed):
        twice = next(label for label in listed if listed.count(label) > 1)
        raise ValueError(f"labels must have each name once, got {twice!r} again")
    if num_labels not in (None, len(listed)):
        raise ValueError(f"labels must have num_labels={num_labels} names, got {len(listed)}")
    return listed


def _choose_labels(
    checkpoint: Checkpoint, head: str, num_labels: int | None, labels: Sequence[str] | None
) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of labels, and the names that are the caller's or a new head's."""
    names = _check_labels(labels, num_labels)
    if names:
        num_labels = len(names)
    has_labels = head in HEADS_WITH_LABELS
    if num_labels is not None and not has_labels:
        what = "labels go" if names else "num_labels goes"
        heads = " or ".join(f"head={name!r}" for name in HEADS_WITH_LABELS)
        raise ValueError(f"{what} with {heads}, got {head!r}")

    stored = checkpoint.spec
    is_stored_head = head == stored.head
    stored_labels = (checkpoint.labels or ()) if is_stored_head else ()
    if names and names != stored_labels and sorted(names) == sorted(stored_labels):
        raise ValueError(
            f"labels must be in the order of the checkpoint's outputs, {', '.join(stored_labels)}, "
            f"got {', '.join(names)}"
        )

    new_labels: tuple[str, ...] = ()
    if has_labels and not is_stored_head:
        new_labels = checkpoint.new_labels or ()
    if not num_labels:
        num_labels = stored.num_labels if is_stored_head else len(new_labels) or 2
    if names is None and len(new_labels) == num_labels:
        names = new_labels
    return num_labels, names


def _warn(
    checkpoint: Checkpoint, report: transfer.TransferReport, tokenizer, new: list[str]
) -> None:
    source = checkpoint.source
    if new:
        _logger.warning(
            "%s: newly initialized (not in the checkpoint): %s: train the model before you use it",
            source,
            ", ".join(new),
        )
    if checkpoint.sentence_problem:
        _logger.warning(
            "the pooling of sentence embeddings is not loaded, because kbert cannot compute it: %s",
            checkpoint.sentence_problem,
        )
    if report.not_finite:
        names = ", ".join(report.not_finite)
        _logger.warning("%s has NaN or infinity in these weights: %s", source, names)

    embedding_size = checkpoint.spec.config.vocab_size
    if tokenizer is not None and tokenizer.vocab_size < embedding_size:
        _logger.warning(
            "%s: the vocabulary has %d tokens, the embedding %d rows: the last rows have no token",
            source,
            tokenizer.vocab_size,
            embedding_size,
        )


def label_names(bert: Bert, count: int) -> list[str]:
    """Return the checkpoint's names of its labels, else transformers' default ones."""
    if bert.labels is not None and len(bert.labels) == count:
        return list(bert.labels)
    return [f"LABEL_{number}" for number in range(count)]
