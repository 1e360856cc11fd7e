"""A BERT with its configuration, weights and tokenizer: `load` and `save`."""

import dataclasses
import logging
import os
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbert.checkpoints import first_values, fitting, formats, transfer
from kbert.checkpoints.adapters import peft_folder
from kbert.checkpoints.adapters.adapter import LoraAdapter, add_to
from kbert.checkpoints.checkpoint import Backbone, Checkpoint
from kbert.checkpoints.hub import fetching
from kbert.checkpoints.hub.model_card import make_card
from kbert.checkpoints.sentence_settings import CrossEncoderSettings, SentenceSettings
from kbert.graph import aliases
from kbert.graph.config import BertConfig, require_positive
from kbert.graph.spec import HEADS_WITH_LABELS, GraphSpec
from kbert.io import printable, urls
from kbert.model import collector, deferred
from kbert.model.told_by_layers import told_by_layers

if TYPE_CHECKING:
    import keras

    from kbert.data.tokenization.tokenizer import Tokenizer

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class Bert(aliases.Answering):
    """What `load` gives.

    Attributes:
        config: its configuration.
        head: which graph was built, one of `kbert.graph.spec.HEADS`.
        model: the functional Keras model, with the checkpoint's weights.
        tokenizer: a `kbert.Tokenizer`; None where the checkpoint has no vocabulary.
        report: what was read, initialized and ignored.
        architecture: the class of transformers that the checkpoint is of, where it has one.
        labels: what a classifier's outputs are called, where the checkpoint says.
        sentence: how a sentence vector is made, where the checkpoint says.
        problem_type: what a classifier is of, in transformers' words, where the checkpoint says:
            "single_label_classification", "multi_label_classification" or "regression".
        split_punctuation: how `kbert.tag` cuts texts into words, as the training data do: at white
            space, with this punctuation cut off both ends of a word. None: as the tokenizer does,
            which cuts at every punctuation mark.
        adapter: the LoRA adapter that its weights have in them, of `finetune(lora=…)` or
            `load(adapter=…)`; None: none is known.
        sentence_problem: why the checkpoint's way to a sentence vector cannot be obeyed; None: it
            can, or there is none.
        cross_encoder: how a cross-encoder makes a score of its one logit, where the checkpoint
            says.
        source: the address of the model on a hub that it was loaded from, with the commit, such as
            "hf://google-bert/bert-base-uncased@COMMIT"; None: it was not loaded from a hub.
        card: the text of its model card, which `save` writes as README.md for transformers; None:
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
        """What the graph is: the model's own, or of a model that has none as its layers tell."""
        found = getattr(self.model, "spec", None)
        if found is not None and (found.config, found.head) == (self.config, self.head):
            return found
        told = told_by_layers(self.model) | {"head": self.head}
        return GraphSpec(self.config, **told)

    def __repr__(self) -> str:
        params = f"{self.model.count_params():,} parameters, " if self.model is not None else ""
        config = self.config
        return (
            f"Bert({self.head}, {config.num_hidden_layers} blocks of width {config.hidden_size:,}, "
            f"{params}{self.tokenizer or 'no tokenizer'})"
        )


@printable.escaped_errors()
@collector.paused()
def load(
    path: str | os.PathLike | Backbone,
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
    """Load a BERT by the name of a model or by a path::

        kbert.load("bert-base-uncased")
        kbert.load("sentence-transformers/all-MiniLM-L6-v2@COMMIT")
        kbert.load("kaggle://keras/bert/keras/bert_base_en")
        kbert.load("run")

    A local path is opened first, then the caches of Hugging Face and Kaggle are looked through,
    and then the model is downloaded into them. What is in a cache opens no connection. The formats:
    Google's release (a folder, or the .zip), a folder of transformers, sentence-transformers or a
    KerasHub preset, keras_bert's .h5, kbert's .keras; or a KerasHub `BertBackbone` itself.

    Args:
        path: the name of a model, a folder or a file, or that `BertBackbone`. A name is owner/name
            on Hugging Face, with @ and a branch, a tag or a commit if that matters; one of the
            names that kbert knows without their owner; kaggle:// and KerasHub's preset.
        head: the graph to build, one of `kbert.graph.spec.HEADS`; None: the one that
            the checkpoint has. A head that it lacks keeps its first weights; the log says so,
            once, by name.
        num_labels: outputs of the heads "classifier" and "tokens"; None: as many as `labels`, as
            the checkpoint has, else 2. Where the checkpoint's classifier has another number, a new
            one begins with first weights; the log says so.
        labels: what those outputs are called, in their order; None: as the checkpoint says.
        seq_len: tokens in a sequence; None: any length.
        config: the configuration to go by, for files that have none: keras_bert's weights.
        format: which format to read, where a folder holds two.
        allow_missing: tensors, by their name in the file, that the checkpoint may lack.
        ignore: tensors that the model need not have a place for.
        tokenizer: False leaves the vocabulary unread.
        lowercase: whether the vocabulary is uncased; None: as the checkpoint says.
        adapter: the folder or the name of a LoRA adapter of this checkpoint, as PEFT or
            `save(format="peft")` writes it. It is added to the weights, and the head that
            was trained with it put in; `head` and `labels` are the adapter's, where it says.

    Returns:
        A `Bert`.

    Raises:
        FileNotFoundError: no such path or model, or one without configuration or weights.
        PermissionError: a model that is gated or private; the message says how to log in.
        ConnectionError: a model that is not in a cache, and no network.
        ValueError: weights that do not fit the configuration: one error lists every missing,
            unexpected and mis-shaped tensor, before any is assigned. A vocabulary with more
            tokens than the embedding has rows. A format that is not read. Labels that contradict
            their number or the checkpoint's order, or go with a head that has none. An adapter
            of another checkpoint.
    """
    if config is not None and not isinstance(config, BertConfig):
        raise ValueError(f"config must be a BertConfig, got {config!r}: see kbert.get_config")
    added = None if adapter is None else peft_folder.read(fetching.locate(adapter))
    if added is not None:
        head = head or added.head
        labels = added.labels if labels is None and num_labels is None else labels
        num_labels = added.num_labels if num_labels is None and labels is None else num_labels
    labels = _checked_labels(labels, num_labels)
    num_labels = len(labels) if labels else num_labels
    with formats.opened(path, config, format) as checkpoint:
        head = aliases.resolve("head", head) or _own_head(checkpoint)
        _check_labels_fit(checkpoint, head, num_labels, labels)
        words = _tokenizer(checkpoint, lowercase) if tokenizer else None
        checkpoint = checkpoint.padded_by(words.pad_id) if words else checkpoint
        asked = seq_len, allow_missing, ignore, words, num_labels, labels
        given = added.layers(checkpoint.spec.config) if added else ()
        bert = _built(checkpoint, head, *asked, given=given)
    return bert if added is None else adapted(bert, added, str(adapter), str(path))


def save(
    bert: Bert,
    path: str | os.PathLike,
    *,
    format: str | None = None,
    architecture: str | None = None,
    quantize: str | None = None,
    calibration: Sequence[str] | None = None,
    text: bool = False,
) -> None:
    """Write a model in one of the formats; all of it or nothing, and an old one survives.

    Args:
        bert: what `load` gave, or a `Bert` of one's own.
        path: the folder or file to write; or hf://owner/name: a folder with a model card is
            uploaded to Hugging Face, see `kbert.push`.
        format: "transformers" (opens with AutoModel and its head's class), "transformers_onnx"
            (the same with onnx/model.onnx, for sentence-transformers' backend "onnx", optimum and
            text-embeddings-inference), "google" (opens with
            tf.train.load_checkpoint and keras_bert), "keras_hub" (a preset, for
            BertBackbone.from_preset), "keras" (one .keras file), "saved_model", "onnx", "litert",
            "peft" (its LoRA adapter alone, for PeftModel.from_pretrained and `load(adapter=…)`);
            None: by the path's ending .keras, .onnx, .tflite, else transformers.
        architecture: for transformers, the class to write; None: the one that was loaded, else
            the one that has the whole head.
        quantize: for ONNX, "int8": weights and activations of the matrix products, by ranges that
            the `calibration` texts have (ONNX Runtime's static quantization); "int8_dynamic": by
            the ranges of each call. None: float32.
        calibration: some hundred texts like those that will come.
        text: for a SavedModel, that it takes texts and gives answers: vectors, labels with their
            probabilities, words with labels, answers to questions, tokens for a [MASK]; the
            tokenizer is in the graph, by tensorflow-text.

    Raises:
        ValueError: a format that is unknown or cannot hold the head; a folder with a checkpoint of
            another format in it; a model that is not that of its configuration.
        OSError: it cannot be written, or not uploaded.
    """
    require_bert(bert, "save")
    if not str(path):
        raise ValueError("path must be that of a folder or a file, got an empty one")
    given: dict = {"architecture": architecture, "quantize": quantize, "calibration": calibration}
    given["text"] = text or None
    options = {name: value for name, value in given.items() if value is not None}
    if os.fspath(path).startswith(("hf:/", "kaggle:/")):  # a Path has one slash of the two
        _save_to_hub(bert, os.fspath(path), format or "transformers", options)
        return
    urls.refuse_url(path, to_write=True)
    path = Path(path)
    form = format or formats.format_for(path)
    write = formats.writer(form)
    formats.check_options(form, options)
    formats.check_destination(path, form)
    transfer.check_whole(bert.model, bert.spec)
    fetching.forget_source(path)
    write(bert, path, **options)


def _save_to_hub(bert: Bert, address: str, form: str, options: dict) -> None:
    """Save a model to a temporary folder with a card, and push it."""
    from kbert.checkpoints import pushing

    target = pushing.check_target(address, form)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "model")
        save(bert, folder, format=form, **options)
        pushing.upload(folder, target, card=make_card(bert, base=bert.source, form=form))


def _built(
    checkpoint: Checkpoint, head, seq_len, allow_missing, ignore, words, num_labels, labels, given
) -> Bert:
    """The checkpoint as it is asked for; `given` names layers whose weights come from elsewhere."""
    from kbert.model import builder

    found = checkpoint.spec
    own = head == found.head
    new_labels = () if own or head not in HEADS_WITH_LABELS else checkpoint.new_labels or ()
    num_labels = num_labels or (found.num_labels if own else len(new_labels) or 2)
    if labels is None and len(new_labels) == num_labels:
        labels = new_labels
    spec = GraphSpec(found.config, head, seq_len=seq_len, num_labels=num_labels)
    fit = fitting.fit(checkpoint, spec, allow_missing, ignore)
    tokens = words.vocab_size if words else None
    if problems := fit.problems + fitting.vocabulary_problems(tokens, spec.config):
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise ValueError(
            f"{checkpoint.source} does not fit the model of its configuration, {count}: "
            + fitting.summarized(problems)
            + _hint(problems)
        )
    with deferred.without_values():
        model = builder.build(spec)
    with transfer.Reading(fit.entries, fit.tensors) as reading:
        report = _whole(transfer.fill(model, reading), fit, model, checkpoint)
    if own and num_labels != found.num_labels and not given:
        _logger.warning(
            "%s has a classifier of %d labels, %d are asked for: a new one begins",
            checkpoint.source,
            found.num_labels,
            num_labels,
        )
    elif own:
        labels = labels or checkpoint.labels
    elsewhere = {entry.name for entry in fit.entries if entry.layer in given}
    _warn(checkpoint, report, words, [n for n in report.initialized if n not in elsewhere])
    return Bert(
        spec.config,
        head,
        model,
        words,
        report,
        architecture=checkpoint.architecture if own else None,
        labels=labels,
        sentence=checkpoint.sentence,
        problem_type=checkpoint.problem_type if own else None,
        split_punctuation=checkpoint.split_punctuation if own else None,
        sentence_problem=checkpoint.sentence_problem,
        cross_encoder=checkpoint.cross_encoder if own and num_labels == found.num_labels else None,
        source=checkpoint.address,
        card=checkpoint.card if own and num_labels == found.num_labels else None,
    )


def adapted(bert: Bert, adapter: LoraAdapter, source: str, base: str) -> Bert:
    """A model with an adapter added to its weights, which change; see `add_to`."""
    added = add_to(bert.model, bert.spec, adapter, source, base)
    return dataclasses.replace(
        bert,
        adapter=added,
        card=None,  # it is the base's
        problem_type=adapter.problem_type or bert.problem_type,
        split_punctuation=adapter.split_punctuation,
    )


def require_bert(bert, function: str) -> None:
    """A ValueError for what is no `Bert`."""
    if not isinstance(bert, Bert):
        raise ValueError(
            f"{function} needs a kbert.Bert, as kbert.load gives it, got {type(bert).__name__}: a "
            "model of your own goes into kbert.Bert(config, head, model, tokenizer)"
        )


def _own_head(checkpoint: Checkpoint) -> str:
    if checkpoint.other_head:
        raise ValueError(
            f"{checkpoint.source} must have a head that kbert builds, got a "
            f"{checkpoint.other_head}: load its encoder with head='encoder'"
        )
    return checkpoint.spec.head


def _checked_labels(labels, num_labels: int | None) -> tuple[str, ...] | None:
    if num_labels is not None:
        require_positive("num_labels", num_labels)
    if labels is None:
        return None
    listed = tuple(labels) if isinstance(labels, Sequence) and not isinstance(labels, str) else ()
    if not listed or not all(isinstance(label, str) for label in listed):
        raise ValueError(f"labels must be a list of names, one an output, got {labels!r:.60}")
    if len(set(listed)) < len(listed):
        twice = next(label for label in listed if listed.count(label) > 1)
        raise ValueError(f"labels must have each name once, got {twice!r} again")
    if num_labels not in (None, len(listed)):
        raise ValueError(f"labels must be num_labels={num_labels} names, got {len(listed)}")
    return listed


def _check_labels_fit(checkpoint: Checkpoint, head: str, num_labels, labels) -> None:
    if num_labels is not None and head not in HEADS_WITH_LABELS:
        raise ValueError(
            f"{'labels go' if labels else 'num_labels goes'} with head='classifier' or "
            f"head='tokens', got {head!r}"
        )
    own = (checkpoint.labels or ()) if head == checkpoint.spec.head else ()
    if labels and labels != own and sorted(labels) == sorted(own):
        raise ValueError(
            f"labels must be in the order of the checkpoint's outputs, {', '.join(own)}, got "
            f"{', '.join(labels)}"
        )


def _hint(problems: list[str]) -> str:
    unexpected = any(problem.startswith("unexpected") for problem in problems)
    return " (in Python, ignore=[…] leaves out what is unexpected)" if unexpected else ""


def _whole(
    report: transfer.TransferReport, fit: fitting.Fit, model, checkpoint: Checkpoint
) -> transfer.TransferReport:
    """Add to the report what the format has no names for, and what the checkpoint marks.

    Both have newly initialized weights.
    """
    marked = first_values.still_marked(model, checkpoint.untrained)
    layers = [*report.initialized_layers, *(name.split("/")[0] for name in fit.nameless), *marked]
    names = [entry.name for entry in fit.entries if entry.layer in marked]
    initialized = (*report.initialized, *fit.nameless, *names)
    return dataclasses.replace(
        report,
        initialized=tuple(dict.fromkeys(initialized)),
        initialized_layers=tuple(dict.fromkeys(layers)),
        ignored=(*report.ignored, *fit.others),
        first_values=first_values.digests(model, layers),
    )


def _warn(checkpoint: Checkpoint, report: transfer.TransferReport, words, new: list[str]) -> None:
    if new:
        names = ", ".join(new)
        _logger.warning(
            "%s: these weights are newly initialized, train them before you use them: %s",
            *(checkpoint.source, names),
        )
    if checkpoint.sentence_problem:
        _logger.warning(
            "the way to a sentence vector is left out, as kbert cannot compute it: %s",
            checkpoint.sentence_problem,
        )
    if report.not_finite:
        names = ", ".join(report.not_finite)
        _logger.warning("%s has NaN or infinity in: %s", checkpoint.source, names)
    rows = checkpoint.spec.config.vocab_size
    if words is not None and words.vocab_size < rows:
        _logger.warning(
            "%s: the vocabulary has %d tokens, the embedding %d rows: the last ones have no token",
            checkpoint.source,
            words.vocab_size,
            rows,
        )


def _tokenizer(checkpoint: Checkpoint, lowercase: bool | None) -> "Tokenizer | None":
    if checkpoint.vocabulary is None:
        return None
    from kbert.data.tokenization.tokenizer import Tokenizer

    lowercase = checkpoint.lowercase if lowercase is None else lowercase
    return Tokenizer.load(checkpoint.vocabulary, lowercase=lowercase)
