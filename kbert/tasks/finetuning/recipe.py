"""Fine-tuning as a recipe: a checkpoint, a task's labelled data, the weights that did best."""

import dataclasses
import functools
import importlib
import logging
import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.adapters import peft_folder
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.hub import fetching
from kbert.checkpoints.hub.model_card import Training, make_card
from kbert.checkpoints.sentence_settings import IDENTITY, CrossEncoderSettings
from kbert.checkpoints.transfer import weights_digest
from kbert.data.labelled.data_warnings import warn_of_records
from kbert.data.labelled.length_buckets import IGNORED, BucketedBatches, Examples
from kbert.data.labelled.packed_batches import PackedBatches
from kbert.data.padding import cheapest_lengths, lengths_up_to
from kbert.graph.layer_table import layers as graph_layers
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts
from kbert.heads import HEADS
from kbert.model.deferred import build_with, layers_of
from kbert.tasks.checks import (
    length_of_examples,
    longest,
    require_head,
    require_tokenizer,
    require_two_segments,
)
from kbert.tasks.distillation import settings as distillation_settings
from kbert.tasks.distillation.distillation import Distillation
from kbert.tasks.distillation.teacher import open_teacher
from kbert.tasks.finetuning.best_weights import BestWeights
from kbert.tasks.finetuning.continued_adapter import open_source
from kbert.tasks.finetuning.evaluate import (
    Evaluation,
    LabelledEvaluation,
    known_labels,
)
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import Task, read_data, task_of
from kbert.tasks.finetuning.trained_layers import choose_trained, select_trained
from kbert.training.loop.history import History
from kbert.training.loss import make_loss
from kbert.training.recipe import Recipe
from kbert.training.run.run_folder import RunFolder
from kbert.training.trained_weights import amount_trained, with_adapters

_logger = logging.getLogger("kbert")
_MODELS = ("source", "teacher")  # of the sources; the others are data


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

    command, settings_type = "finetune", FinetuningSettings
    may_move = ("source", "train", "dev", "teacher")
    is_resumed = False  # whether it is a run that was begun before

    def __init__(self, task: Task, settings: FinetuningSettings, sources: dict):
        self.task, self.settings, self._sources = task, settings, sources
        # the weights of a Bert may be others than those at the address that it was loaded from
        self.has_digest = getattr(sources.get("source"), "source", None) is not None
        self.score, self.title = task.score, f"Fine-tuning {task.title}"
        self.packing = settings.packing
        _refuse_other_labels(task, settings)
        settings.check_for(task)
        distillation_settings.check(settings, sources.get("teacher"))
        if sources.get("teacher") is not None and not task.takes_teacher:
            raise ValueError(f"teacher does not go with the task {task.name}: leave it out")
        if self.packing and sources.get("teacher") is not None:
            raise ValueError("packing does not go with a teacher: leave one of them out")
        if self.packing and not HEADS[task.head].packs:
            raise ValueError(f"packing must be for the task classify or tag, got {task.name}")
        if self.packing and settings.lengths is not None and len(settings.lengths) > 1:
            raise ValueError(
                "lengths must be one number with packing, the length of its rows, got "
                f"{settings.lengths}"
            )

    @classmethod
    def of_task(cls, task: Task, settings: FinetuningSettings, sources: dict) -> "Finetuning":
        """Create an instance of the task's own class, if it has one."""
        return importlib.import_module(task.recipe).RECIPE(task, settings, sources)

    @classmethod
    def from_run(cls, run: RunFolder, settings: FinetuningSettings, moved: dict) -> "Finetuning":
        sources = {
            name: run.data_paths.get(name) if it is None else it for name, it in moved.items()
        }
        has_teacher = run.fingerprint.get("teacher") is not None
        for name in ("source", "train", *(["teacher"] if has_teacher else [])):
            if sources[name] is None:
                raise ValueError(
                    f"{name} must be given to resume the run: it was not started from a file"
                )
        recipe = cls.of_task(task_of(run.settings["task"]), settings, sources)
        recipe.is_resumed, recipe.has_digest = True, "source" in run.fingerprint
        return recipe

    def read(self) -> None:
        train, dev = self._sources["train"], self._sources["dev"]
        if dev is None and self.settings.patience is not None:
            raise ValueError("patience must go with dev data, got none: give dev, or leave it out")
        records = read_data(self.task, train, dev, self.settings.columns)
        self._train, self._dev, self.labels = records
        warn_of_records(self._train, self._dev)

    def open(self, compiled: bool, shape_cost: float = 0.0) -> None:
        for name in _MODELS:
            if isinstance(model := self._sources.get(name), (str, os.PathLike)):
                self._sources[name] = fetching.pin(model)
        self.bert, self._adapter = open_source(self._sources["source"], self.settings)
        num_labels = len(self.labels) if self.labels else 2
        self.spec = GraphSpec(self.bert.config, self.task.head, num_labels=num_labels)
        smoothing = self.settings.label_smoothing
        options: dict = {"smoothing": smoothing} if smoothing else {}
        self.losses = {name: make_loss(self.task.loss, **options) for name in self.spec.outputs}
        self.training_spec = self._choose_variant()
        self._trained = choose_trained(self.settings, self.spec, self.bert, self._adapter)
        # an older run goes on with 128, its default, whatever the model has
        find_limit = longest if self.is_resumed else length_of_examples
        limit = find_limit(self.bert, self.settings.max_length)
        if not self.is_resumed:
            self.settings = dataclasses.replace(self.settings, max_length=limit)
        lengths = None if self.packing else self.settings.lengths
        cost = 0.0 if lengths or compiled or self.packing else shape_cost
        every = tuple(range(1, limit + 1))
        # dev data's, the same in a run that goes on: any where none is compiled; None: training's
        self._of_dev = every if shape_cost and not compiled else None
        possible = every if cost else lengths_up_to(limit, compiled)
        lengths = self._encode(limit, lengths or possible, cost)
        if self.has_digest:
            self.fingerprint["source"] = weights_digest(self.bert)
        if isinstance(self.batches, PackedBatches):
            lengths = (self.batches.row_length,)
        # a run that goes on has the same
        self.settings = dataclasses.replace(self.settings, lengths=lengths)
        epoch = self.batches.steps_per_epoch
        self.steps = self.settings.epochs * epoch
        self.warmup_steps = round(self.settings.warmup_ratio * self.steps)
        self.evaluate_every = self.settings.evaluate_every or epoch
        self.flops = mean_flops(self.training_spec, self.batches, self._trained)
        if (teacher := self._sources.get("teacher")) is not None:
            self._learn_of(teacher, lengths[-1])

    def _choose_variant(self) -> GraphSpec:
        """Return the variant of the graph to train."""
        packed = dataclasses.replace(self.spec, packed=self.packing)
        # distillation reads the hidden states of all positions
        reads_all = self._sources.get("teacher") is not None and self.settings.hidden_loss
        return packed if reads_all else packed.for_training()

    def _learn_of(self, source, tokens: int) -> None:
        """Open the teacher, of whom the batches then have its word."""
        task, settings = self.task, self.settings
        tokenizer = require_tokenizer(self.bert, "finetune")
        pairs = any(max(row, default=0) > 0 for row in self.batches.examples.segment_ids)
        teacher = open_teacher(source, tokenizer, tokens, pairs)
        if settings.alpha:
            _require_same_labels(teacher, task, self.labels)
        distillation = self.distillation = Distillation(
            teacher,
            settings,
            self.losses,
            self.bert.config.num_hidden_layers,
            precision=settings.precision,
            pad_id=tokenizer.pad_id,
        )
        self.fingerprint["teacher"] = distillation.digest

    def _encode(self, limit: int, lengths: tuple[int, ...], shape_cost: float) -> tuple[int, ...]:
        """Encode the records as the model reads them; return which of the lengths they have."""
        tokenizer, size = require_tokenizer(self.bert, "finetune"), self.settings.batch_size
        encode = functools.partial(
            self.task.encode, tokenizer=tokenizer, labels=self.labels, max_length=limit
        )
        train, dev = encode(self._train), None if self._dev is None else encode(self._dev)
        if any(max(row, default=0) > 0 for row in train.segment_ids):
            require_two_segments(self.bert, "finetune")
        if self.settings.class_weights:
            train = balance_classes(train, len(self.labels or ()))
        pad_id = tokenizer.pad_id
        self.batches = self._batches(train, pad_id, lengths)
        if shape_cost:
            lengths = self._worth_a_shape(limit, shape_cost)
            self.batches = self.batches.with_lengths(lengths)
        self.dev: Evaluation | None = None
        if dev:
            self.dev = LabelledEvaluation(
                self.task,
                self._dev,
                dev,
                self.labels,
                size,
                pad_id,
                self._of_dev or lengths,
                self.packing,
            )
        self.fingerprint = {"train": self.batches.fingerprint, "dev": dev and dev.digest()}
        return lengths

    def _worth_a_shape(self, limit: int, shape_cost: float) -> tuple[int, ...]:
        """Return the batches' lengths with which the run takes least time, and the limit."""
        needed = Counter(self.batches.lengths_in(0))
        of_run = {length: count * self.settings.epochs for length, count in needed.items()}
        chosen = cheapest_lengths(of_run, shape_cost)
        return chosen if chosen[-1] == limit else (*chosen, limit)

    def _batches(self, train: Examples, pad_id: int, lengths: Sequence[int]) -> BucketedBatches:
        settings = self.settings
        options = {"batch_size": settings.batch_size, "seed": settings.seed, "pad_id": pad_id}
        if not self.packing:
            return BucketedBatches(train, lengths=lengths, **options)
        return PackedBatches(
            train,
            row_length=settings.lengths[0] if settings.lengths else None,
            longest_row=self.bert.config.positions,
            micro_batches=settings.accumulation_steps,
            **options,
        )

    def collect_settings(self) -> dict:
        labels = {"labels": self.labels and list(self.labels)}
        return {"task": self.task.name} | self.settings.as_dict() | labels

    def data_paths(self) -> dict[str, str | None]:
        sources = {
            name: source.source if isinstance(source, Bert) else source
            for name, source in self._sources.items()
        }
        return {
            name: os.fspath(source) if name in _MODELS else str(Path(source).absolute())
            for name, source in sources.items()
            if isinstance(source, (str, os.PathLike))
        }

    def _base_path(self) -> str | None:
        """Return where the base of the run's adapter lies, where that is known."""
        return self._adapter.base_path if self._adapter else self.data_paths().get("source")

    def select_weights(self, model):
        pairs = self._adapter.pairs if self._adapter else None
        return select_trained(model, self._trained, self.settings, pairs)

    def first_layers(self):
        """Return the source's layers; a head with other labels, or of another kind, is new."""
        new, head = self._new_layers(), HEADS[self.task.head]
        if missing := [name for name in new if name not in (*self.spec.outputs, *head.layers)]:
            _logger.warning("newly initialized (not in the checkpoint): %s", ", ".join(missing))
        layers = layers_of(self.bert.model)
        return {name: layer for name, layer in layers.items() if name not in new} | new

    def _new_layers(self) -> dict[str, None]:
        """Return the layers that the source does not give the model, by name."""
        goes_on = self.bert.head == self.task.head and (
            self.labels is None
            or known_labels(self.bert) == self.labels
            or (self.task.problem_type == "regression" and self.bert.spec.num_labels == 1)
        )
        anew = () if goes_on else self.spec.outputs
        present = {layer.name for layer in self.bert.model.layers} - set(anew)
        needed = [layer.name for layer in graph_layers(self.spec) if layer.params]
        return dict.fromkeys(name for name in needed if name not in present)

    def _untrained(self, never: Collection[str] = ()) -> set[str]:
        """Return the layers that were newly initialized, and frozen or otherwise never trained."""
        new = {*self._new_layers(), *untrained_weights.find_untrained(self.bert)}
        return new & {*self._trained.frozen, *never}

    def evaluation(self, engine, run):
        self._best = BestWeights(engine, self.dev, self.score, self.settings.keep_best, run)
        return self._best.evaluate if self.dev else None

    def export_bert(self, engine, history) -> Bert:
        self._restore_best(history)
        model = build_with(self.spec, layers_of(engine.model))
        tokenizer = self.bert.tokenizer
        bert = Bert(
            self.bert.config,
            self.task.head,
            model,
            tokenizer,
            labels=self.labels,
            problem_type=self.task.problem_type,
            split_punctuation=self._split_punctuation(),
            # a regression is trained on the output itself
            cross_encoder=CrossEncoderSettings(IDENTITY)
            if self.task.problem_type == "regression"
            else None,
        )
        bert = untrained_weights.with_untrained(bert, self._untrained())
        if not self._trained.adapted:
            return bert
        return with_adapters(bert, engine, self._base_path())

    def _restore_best(self, history: History) -> None:
        """Give the engine the weights that are kept, and find their metrics."""
        self._update, self._metrics = self._best.restore(history)
        self._intervals = self._best.find_intervals(self._metrics)

    def _split_punctuation(self) -> str | None:
        """Return how the training data of a tagger cut texts into words, see `Bert`."""
        find = getattr(self.task, "split_punctuation", None)
        return None if find is None else find(self._train, self.bert.tokenizer)

    def result(self, last: dict) -> dict:
        chosen = {"weights_of_update": self._update, "metrics": self._metrics}
        return {"loss": last["loss"]} | chosen | {"intervals": self._intervals}

    def describe_training(self, done: int) -> dict[str, str]:
        labels, epoch = self.labels or (), self.batches.steps_per_epoch
        facts = self._describe_models()
        facts["Data"] = f"{self._file_name('train')}{len(self.batches.examples):,} examples"
        if labels:
            names = ", ".join(labels[:6]) + (", …" if len(labels) > 6 else "")
            facts["Data"] += f", {len(labels)} labels: {names}"
        if self.dev is not None:
            facts["Dev data"] = f"{self._file_name('dev')}{len(self.dev):,} examples"
        if self._trained.frozen:
            facts["Trained"] = amount_trained(self._trained)
        return facts | {"Seen": f"{done / epoch:.2f} epochs of {epoch:,} steps"}

    def _describe_models(self) -> dict[str, str]:
        """Say what the run started from, and its teacher: addresses, or names without folders."""
        models = {"Started from": self._sources["source"], "Teacher": self._sources.get("teacher")}
        described = {}
        for title, model in models.items():
            if isinstance(model, Bert):
                model = model.source
            if model is not None:
                described[title] = str(model) if "://" in str(model) else Path(model).name
        return described

    def _file_name(self, source: str) -> str:
        """Return the name of a file of data, to put before its size; "" for rows in memory."""
        path = self._sources[source]
        return f"{Path(path).name}, " if isinstance(path, (str, os.PathLike)) else ""

    def make_card(self, bert: Bert, result: dict) -> str:
        training = Training(
            verb="fine-tuned",
            base=self.bert.source,
            facts=self.describe_training(result["steps"]),
            dev=self._file_name("dev").removesuffix(", ") or None,
            metrics=result["metrics"],
            settings=self.settings.as_hyperparameters(),
            intervals=result["intervals"],
        )
        return make_card(bert, training=training)

    @staticmethod
    def make_result(bert: Bert, history: History, result: dict, folder: Path | None) -> Finetuned:
        if bert.adapter is None and folder is not None and (folder / "adapter").is_dir():
            bert = dataclasses.replace(bert, adapter=peft_folder.read(folder / "adapter"))
        # a run of an older kbert has no intervals
        intervals = {name: tuple(pair) for name, pair in result.get("intervals", {}).items()}
        return Finetuned(bert, history, result["metrics"], folder, intervals)


def _refuse_other_labels(task: Task, settings: FinetuningSettings) -> None:
    """Raise a ValueError for settings of class labels if the labels are not classes."""
    options = {"label_smoothing": settings.label_smoothing, "class_weights": settings.class_weights}
    for name, value in options.items():
        if value and not task.has_classes:
            raise ValueError(f"{name} must be for the task classify or tag, got {task.name}")


def _require_same_labels(teacher: Bert, task: Task, labels: tuple[str, ...] | None) -> None:
    """Raise a ValueError where a teacher's outputs are not the student's."""
    require_head(teacher, "a teacher (but with alpha 0)", task.head, HEADS[task.head].layers)
    teacher_labels = known_labels(teacher)
    if task.problem_type == "regression" and teacher.spec.num_labels == 1:
        return
    if teacher_labels != labels:
        raise ValueError(
            f"teacher must have the labels of the data, {_listed(labels)}, got "
            f"{_listed(teacher_labels)}: "
            "fine-tune it on the same labels, or take alpha 0 and hidden_loss"
        )


def _listed(labels: tuple[str, ...] | None) -> str:
    labels = labels or ()
    more = f", … ({len(labels)})" if len(labels) > 6 else ""
    return ", ".join(labels[:6]) + more


def balance_classes(examples: Examples, count: int) -> Examples:
    """Weight labels: those of a class count for all labels / (classes · labels of that class)."""
    weights = {}
    for name, labels in examples.labels.items():
        numbers = np.concatenate([np.atleast_1d(label) for label in labels])
        counts = np.bincount(numbers[numbers != IGNORED], minlength=count)
        weights[name] = counts.sum() / (count * np.maximum(counts, 1))
    return dataclasses.replace(examples, class_weights=weights)


def mean_flops(
    spec: GraphSpec, batches: BucketedBatches, trained: TrainedParts | None = None
) -> float:
    """Return the mean FLOPs of an epoch's steps, padding included: they grow with length."""
    from kbert.graph.accounting import account

    def flops_of(batch_size: int, length: int) -> int:
        accounting = account(
            spec.config,
            length,
            batch_size,
            head=spec.head,
            num_labels=spec.num_labels,
            selected_positions=spec.selected_positions,
            packed_texts=batches.batch_size if spec.packed else None,
        )
        return dataclasses.replace(accounting, trained=trained).training_flops

    counts = Counter(batches.shapes_in(0))
    total = sum(count * flops_of(*shape) for shape, count in counts.items())
    return total / counts.total()


RECIPE = Finetuning
