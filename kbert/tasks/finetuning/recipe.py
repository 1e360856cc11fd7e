"""Fine-tuning as a recipe: a checkpoint, a task's labelled data, the weights that did best."""

import dataclasses
import functools
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.sentence_settings import IDENTITY, CrossEncoderSettings
from kbert.checkpoints.transfer import weights_digest
from kbert.data.labelled.data_warnings import warn_of_records
from kbert.data.labelled.length_buckets import IGNORED, BucketedBatches, Examples
from kbert.data.labelled.packed_batches import PackedBatches
from kbert.data.padding import cheapest_lengths, lengths_up_to
from kbert.graph.closed_form import layers as graph_layers
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts
from kbert.heads import HEADS
from kbert.io.wording import check_choice, first_few
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.checks import (
    length_of_examples,
    longest,
    require_head,
    require_tokenizer,
    require_two_segments,
)
from kbert.tasks.distillation.distillation import Distillation, open_teacher
from kbert.tasks.finetuning.continued_adapter import choose_trained, open_source
from kbert.tasks.finetuning.data_summary import (
    describe_labels,
    describe_records,
    summarize_records,
)
from kbert.tasks.finetuning.evaluate import (
    Evaluation,
    LabelledEvaluation,
    known_labels,
    require_kind,
    warn_of_predictions,
)
from kbert.tasks.finetuning.label_order import match_outputs, order_labels
from kbert.tasks.finetuning.made_up import make_up_logits, make_up_predictions
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import Task, read_data, task_of
from kbert.tasks.finetuning.user_metrics import list_keras_metrics
from kbert.tasks.intervals import Scores, find_intervals
from kbert.training.loop.history import History
from kbert.training.loss import LOSSES, Loss, make_loss
from kbert.training.recipe import Recipe, choose_variant, digest_base, pin_models
from kbert.training.run.run_folder import RunFolder
from kbert.training.user_loss import check_losses, make_user_loss

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class Finetuned:
    """The result of a fine-tuning run.

    Attributes:
        bert: the model, for sequences of any length, with the source's tokenizer and the data's
            labels.
        history: a `kbert.training.loop.history.History`.
        metrics: metrics of these weights on the dev data, by name; empty without dev data.
        folder: the run's folder; None if nothing was saved.
        intervals: 95 % confidence intervals of the metrics, (lower, upper) by name; see
            `kbert.tasks.intervals`.
    """

    bert: Bert
    history: History
    metrics: dict[str, float]
    folder: Path | None
    intervals: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        metrics = [f"{name} {value:.4g}" for name, value in list(self.metrics.items())[:4]]
        folder = self.folder.name if self.folder else None
        return f"Finetuned({self.bert}, {', '.join(metrics) or 'no dev data'}, {folder!r})"


class Finetuning(Recipe):
    """See `Recipe`.

    Args:
        task: what is learned.
        settings: the run's.
        sources: "source", "train", "dev" and "teacher" as `finetune` takes them.
    """

    command, verb, settings_type = "finetune", "fine-tuned", FinetuningSettings
    base, needed, may_move = "source", ("source", "train"), ("source", "train", "dev", "teacher")
    is_resumed = False  # whether it is a run that was begun before
    never_trained: tuple[str, ...] = ()  # layers that the outputs do not depend on
    units = "examples", "examples"  # what the training and the dev data have, in words

    def __init__(self, task: Task, settings: FinetuningSettings, sources: dict):
        super().__init__(settings, sources)
        self.task = task.with_positive_label(settings.positive_label)
        self.keep_best = settings.keep_best
        # the weights of a Bert may be others than those at the address that it was loaded from
        self.has_digest = getattr(sources.get("source"), "source", None) is not None
        self.score, self.title = task.score, f"Fine-tuning {task.title}"
        self.dev_name = _name_file(sources.get("dev")).removesuffix(", ") or None
        settings.check_for(task, sources.get("teacher") is not None)

    @classmethod
    def from_run(cls, run: RunFolder, settings: FinetuningSettings, sources: dict) -> "Finetuning":
        for name, path in run.data_paths.items():
            if name in ("train", "dev") and sources[name] == path and not Path(path).exists():
                raise FileNotFoundError(
                    f"{path}: no such file: if it has moved or was standard input, give its place "
                    f"with --{name} ({name}= in Python)"
                )
        task = task_of(run.settings["task"])
        recipe = task.load_recipe()(task, settings, sources)
        recipe.is_resumed, recipe.has_digest = True, "source" in run.fingerprint
        return recipe

    def read(self) -> None:
        train, dev = self.sources["train"], self.sources["dev"]
        if dev is None and self.settings.patience is not None:
            raise ValueError("patience must go with dev data, got none: give dev, or leave it out")
        for name in ("score", "metrics"):
            if dev is None and getattr(self.settings, name) is not None:
                raise ValueError(f"{name} must go with dev data: give dev, or leave it out")
        self._train, self._dev, self.labels = read_data(
            self.task, train, dev, self.settings.columns
        )
        check_class_weights(self.settings.class_weights, self.labels)
        self.classifies_pairs = getattr(self._train[0], "pair", None) is not None
        warn_of_records(self._train, self._dev)
        data = {"train": self._train, "dev": self._dev}
        self._facts = {
            name: summarize_records(self.task, records)
            for name, records in data.items()
            if records is not None
        }

    def open(self, compiled: bool, shape_cost: float = 0.0) -> None:
        pin_models(self.sources)
        self.bert, self.adapter = open_source(self.sources["source"], self.settings)
        self.base_address = self.bert.source
        if self.labels:
            self.labels = order_labels(self.labels, self.bert, self.task)
            self.score = self.task.choose_score(self.labels)
            positive = self.task.find_positive(self.labels)
            self.settings = dataclasses.replace(self.settings, positive_label=positive)
        num_labels = len(self.labels) if self.labels else 2
        self.spec = GraphSpec(self.bert.config, self.task.head, num_labels=num_labels)
        packed = dataclasses.replace(self.spec, packed=self.settings.packing)
        self.training_spec = choose_variant(self, packed)
        self.trained = choose_trained(self.settings, self.spec, self.bert, self.adapter)
        # an older run goes on with 128, its default, whatever the model has
        find_limit = longest if self.is_resumed else length_of_examples
        limit = find_limit(self.bert, self.settings.max_length)
        if not self.is_resumed:
            self.settings = dataclasses.replace(self.settings, max_length=limit)
        lengths = self._encode(limit, compiled, shape_cost)
        self.losses = {name: self._make_loss(name) for name in self.spec.outputs}
        self._try_user_objects()
        if self.has_digest:
            self.fingerprint["source"] = weights_digest(self.bert)
        # a run that goes on has the same
        self.settings = dataclasses.replace(self.settings, lengths=lengths)
        epoch = self.batches.steps_per_epoch
        self.steps = self.settings.epochs * epoch
        self.warmup_steps = round(self.settings.warmup_ratio * self.steps)
        self.evaluate_every = self.settings.evaluate_every or epoch
        self.flops = mean_flops(self.training_spec, self.batches, self.trained)
        if self.sources.get("teacher") is not None:
            teacher = _open_teacher(self, lengths[-1])
            self.distillation = Distillation(
                *(teacher, self.batches, self.settings),
                losses=self.losses,
                spec=self.spec,
                order=match_outputs(teacher, self.labels),
            )
            self.fingerprint["teacher"] = self.distillation.digest
        self._log_summary()

    def _make_loss(self, name: str) -> Loss:
        """Return the loss of an output."""
        loss, smoothing = self.settings.loss, self.settings.label_smoothing
        if loss is not None and not isinstance(loss, str):
            return make_user_loss(LOSSES[self.task.loss], loss)
        loss_name = self.task.loss if self.task.trains_embeddings else loss or self.task.loss
        if not smoothing:
            return make_loss(loss_name)
        options: dict = {"smoothing": smoothing}
        if (weights := self.batches.examples.class_weights.get(name)) is not None:
            options["class_weights"] = weights
        return make_loss(loss_name, **options)

    def _try_user_objects(self) -> None:
        """Try the user's loss and metrics before the run begins, on made-up outputs."""
        settings = self.settings
        if settings.loss is not None and not isinstance(settings.loss, str):
            batch = self.batches.batch(0)
            outputs = make_up_logits(self.spec, batch)
            check_losses(self.losses, batch.labels, batch.weights, outputs)
        if self.dev is None or (settings.score is None and settings.metrics is None):
            return
        names = self.dev(make_up_predictions(self.spec), self.spec.outputs)
        if settings.score is not None:
            check_choice(settings.score.removeprefix("-"), names, "score")
            self.score = settings.score

    def _log_summary(self) -> None:
        """Log what is learned, and how the result is chosen; settings.json has it too."""
        for name, facts in self._facts.items():
            _logger.warning("%s", describe_records(name, facts, self.labels))
        if self.dev is None:
            _logger.warning("no dev data: the last weights are the result")
            return
        lowest = "the lowest " if self.score.startswith("-") else ""
        best = f"the best weights by {lowest}{self.score.removeprefix('-')}"
        weights = best if self.keep_best else "the last weights"
        what = self.task.describe_metrics(self.labels)
        _logger.warning("the result has %s on dev%s", weights, f"; {what}" if what else "")
        if names := list_keras_metrics(self.settings.metrics or ()):
            _logger.warning("metrics without an interval, as Keras's are: %s", ", ".join(names))

    def summarize(self) -> dict[str, Any]:
        what = self.task.describe_metrics(self.labels)
        return self._facts | {"score": self.score, "metrics": what}

    def _encode(
        self, limit: int, compiled: bool, shape_cost: float, longest_text: int | None = None
    ) -> tuple[int, ...]:
        """Encode the records as the model reads them; return the lengths that batches have.

        Texts are cut to `limit` tokens, or to `longest_text` if that is less.
        """
        packing = self.settings.packing
        own = None if packing else self.settings.lengths
        cost = 0.0 if own or compiled or packing else shape_cost
        every = tuple(range(1, limit + 1))
        lengths = own or (every if cost else lengths_up_to(limit, compiled))
        # dev data's, the same in a run that goes on: any where none is compiled, else training's
        of_dev = every if shape_cost and not compiled else None
        limit = min(limit, longest_text or limit)
        train = self.encode_records(self._train, limit)
        dev = None if self._dev is None else self.encode_records(self._dev, limit)
        self.batches: Any = self.make_batches(train, lengths, compiled)
        if cost:  # those with which the run takes least time, and the limit
            needed = Counter(self.batches.lengths_in(0))
            of_run = {length: count * self.settings.epochs for length, count in needed.items()}
            lengths = tuple(sorted({*cheapest_lengths(of_run, cost), limit}))
            self.batches = self.batches.with_lengths(lengths)
        self.dev = None if dev is None else self.make_evaluation(dev, of_dev or lengths)
        self.fingerprint = {"train": self.batches.fingerprint, "dev": dev and dev.digest()}
        return (self.batches.row_length,) if packing else lengths

    def encode_records(self, records: list, limit: int) -> Examples:
        """Encode training or dev data, in at most `limit` tokens each."""
        tokenizer = require_tokenizer(self.bert, "finetune")
        examples = self.task.encode(records, tokenizer, self.labels, max_length=limit)
        if _has_pairs(examples):
            require_two_segments(self.bert, "finetune")
        return examples

    def make_batches(
        self, train: Examples, lengths: Sequence[int], compiled: bool
    ) -> BucketedBatches:
        """Return the batches of the training data; `lengths` are possible ones."""
        settings = self.settings
        if settings.class_weights == "balanced":
            train = balance_classes(train, len(self.labels or ()))
        elif settings.class_weights:
            train = weigh_classes(train, settings.class_weights, self.labels or ())
        options = {"batch_size": settings.batch_size, "seed": settings.seed}
        options["pad_id"] = self.bert.config.pad_token_id
        if not settings.packing:
            return BucketedBatches(train, lengths=lengths, pad_counts=compiled, **options)
        return PackedBatches(
            train,
            row_length=settings.lengths[0] if settings.lengths else None,
            longest_row=self.bert.config.positions,
            micro_batches=settings.accumulation_steps,
            **options,
        )

    def make_evaluation(self, dev: Examples, lengths: Sequence[int]) -> Evaluation:
        """Return the evaluation of the dev data, in batches of possible lengths."""
        return LabelledEvaluation(
            *(dev, self.settings.batch_size, self.bert.config.pad_token_id, lengths),
            task=self.task,
            records=self._dev or (),
            labels=self.labels,
            packed=self.settings.packing,
            loss=self._make_loss(self.spec.outputs[0]),
            metrics=self.settings.metrics or (),
        )

    def collect_settings(self) -> dict:
        labels = {"labels": self.labels and list(self.labels)}
        return {"task": self.task.name} | self.settings.as_dict() | labels

    def first_layers(self):
        """Return the source's layers; a head with other labels, or of another kind, is new."""
        new, head = _find_new_layers(self), HEADS[self.task.head]
        if missing := [name for name in new if name not in (*self.spec.outputs, *head.layers)]:
            _logger.warning("newly initialized (not in the checkpoint): %s", ", ".join(missing))
        replaced = self.bert.head == self.task.head and set(new) & set(self.spec.outputs)
        if replaced and not untrained_weights.find_untrained(self.bert, replaced):
            _logger.warning(
                "the checkpoint's head has the labels %s, the data %s: a new head is initialized",
                *(first_few(known_labels(self.bert) or ()), first_few(self.labels or ())),
            )
        self.base_digest = digest_base(self.bert, self.adapter)
        return layers_of(self.bert.model) | dict.fromkeys(new)

    def find_untrained(self) -> set[str]:
        new = {*_find_new_layers(self), *untrained_weights.find_untrained(self.bert)}
        return new & {*self.trained.frozen, *self.never_trained}

    def evaluate(self, engine):
        assert self.dev is not None
        metrics = self.dev(engine.predict, engine.output_names)
        return metrics, functools.partial(_judge_result, self.dev.scores, self.dev.user_scores)

    def make_bert(self, layers) -> Bert:
        # how the training data of a tagger cut texts into words, see `Bert`
        find = getattr(self.task, "split_punctuation", None)
        regresses = self.task.problem_type == "regression"  # trained on the output itself
        return Bert(
            self.bert.config,
            self.task.head,
            build_with(self.spec, layers),
            self.bert.tokenizer,
            labels=self.labels,
            problem_type=self.task.problem_type,
            split_punctuation=find(self._train, self.bert.tokenizer) if find else None,
            cross_encoder=CrossEncoderSettings(IDENTITY) if regresses else None,
        )

    def describe_data(self, done: int) -> dict[str, str]:
        epoch = self.batches.steps_per_epoch
        train = f"{len(self.batches.examples):,} {self.units[0]}"
        facts = {"Data": _name_file(self.sources["train"]) + train}
        if self.labels and "labels" in self._facts["train"]:
            facts["Data"] += f", {describe_labels(self._facts['train']['labels'], self.labels)}"
        if self.dev is not None:
            dev = f"{len(self.dev):,} {self.units[1]}"
            facts["Dev data"] = _name_file(self.sources["dev"]) + dev
        if names := list_keras_metrics(self.settings.metrics or ()):
            facts["No interval"] = f"{', '.join(names)} (Keras metrics)"
        return facts | {"Seen": f"{done / epoch:.2f} epochs of {epoch:,} steps"}

    @staticmethod
    def make_result(bert: Bert, history: History, result: dict, folder: Path | None) -> Finetuned:
        # a run of an older kbert has no intervals
        intervals = {name: tuple(pair) for name, pair in result.get("intervals", {}).items()}
        return Finetuned(bert, history, result["metrics"], folder, intervals)


def _judge_result(
    scores: Mapping[str, Scores], user_scores: Sequence[Scores]
) -> dict[str, tuple[float, float]]:
    """Return the intervals of the result's metrics; log what its predictions lack."""
    warn_of_predictions(scores, "dev")
    intervals = find_intervals(scores)
    for user_metric in user_scores:
        intervals |= find_intervals({"": user_metric})
    return intervals


def _name_file(source) -> str:
    """Return the name of a file of data, to put before its size; "" for rows in memory."""
    return f"{Path(source).name}, " if isinstance(source, (str, os.PathLike)) else ""


def _has_pairs(examples: Examples) -> bool:
    return any(max(row, default=0) > 0 for row in examples.segment_ids)


def _find_new_layers(recipe: Finetuning) -> list[str]:
    """Return the names of the layers that the source does not give the model."""
    bert, task = recipe.bert, recipe.task
    goes_on = bert.head == task.head and (
        recipe.labels is None
        or known_labels(bert) == recipe.labels
        or (task.problem_type == "regression" and bert.spec.num_labels == 1)
    )
    anew = () if goes_on else recipe.spec.outputs
    present = {layer.name for layer in bert.model.layers} - set(anew)
    needed = [layer.name for layer in graph_layers(recipe.spec) if layer.params]
    return [name for name in needed if name not in present]


def _open_teacher(recipe: Finetuning, tokens: int) -> Bert:
    """Return the teacher; raise a ValueError where its outputs are not the student's."""
    task, labels = recipe.task, recipe.labels
    tokenizer = require_tokenizer(recipe.bert, "finetune")
    pairs = _has_pairs(recipe.batches.examples)
    teacher = open_teacher(recipe.sources["teacher"], tokenizer, tokens, pairs)
    if not recipe.settings.alpha:
        return teacher
    require_head(teacher, "a teacher (but with alpha 0)", task.head, HEADS[task.head].layers)
    require_kind(teacher, "a teacher (but with alpha 0)", task)
    teacher_labels = known_labels(teacher)
    is_number = task.problem_type == "regression" and teacher.spec.num_labels == 1
    if set(teacher_labels or ()) != set(labels or ()) and not is_number:
        raise ValueError(
            f"teacher must have the labels of the data, {first_few(labels or (), 6)}, got "
            f"{first_few(teacher_labels or (), 6)}: "
            "fine-tune it on the same labels, or take alpha 0 and hidden_loss"
        )
    return teacher


def balance_classes(examples: Examples, count: int) -> Examples:
    """Weight labels: those of a class count for all labels / (classes · labels of that class).

    The classes are those that have a label; others weigh 0.
    """
    weights = {}
    for name, labels in examples.labels.items():
        numbers = np.concatenate([np.atleast_1d(label) for label in labels])
        counts = np.bincount(numbers[numbers != IGNORED], minlength=count)
        balanced = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
        weights[name] = np.where(counts, balanced, 0.0)
    return dataclasses.replace(examples, class_weights=weights)


def weigh_classes(
    examples: Examples, class_weights: Mapping[str, float], classes: Sequence[str]
) -> Examples:
    """Weight labels by their class; one that has no weight counts once."""
    weights = np.array([class_weights.get(label, 1.0) for label in classes])
    return dataclasses.replace(examples, class_weights=dict.fromkeys(examples.labels, weights))


def check_class_weights(weights: str | Mapping | None, labels: Sequence[str] | None) -> None:
    """Raise a ValueError for a weight of a label that the training data do not have."""
    if weights is None or isinstance(weights, str):
        return
    for label in weights:
        check_choice(label, labels or (), "class_weights: each label")


def mean_flops(
    spec: GraphSpec, batches: BucketedBatches, trained: TrainedParts | None = None
) -> float:
    """Return the mean FLOPs of an epoch's steps, padding included: they grow with length."""
    from kbert.graph.accounting import account

    options: dict = {"head": spec.head, "num_labels": spec.num_labels}
    options["selected_positions"] = spec.selected_positions
    options["packed_texts"] = batches.batch_size if spec.packed else None
    counts, total = Counter(batches.shapes_in(0)), 0
    for (batch_size, length), count in counts.items():
        accounting = account(spec.config, length, batch_size, **options)
        total += count * dataclasses.replace(accounting, trained=trained).training_flops
    return total / counts.total()


RECIPE = Finetuning
