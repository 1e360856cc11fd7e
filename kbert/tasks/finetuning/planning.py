"""Fine-tuning as a plan: a checkpoint, a task's labelled data, the weights that did best.

`plan_finetuning` plans the training of a task's head. `kbert.tasks.embedding.planning` plans that
of sentence embeddings, of the same parts.
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints.adapters.adapter import LoraAdapter
from kbert.checkpoints.bert import Bert
from kbert.checkpoints.transfer import weights_digest
from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.graph.spec import GraphSpec
from kbert.hub.model_card import Training
from kbert.io.wording import check_choice
from kbert.tasks.common.checks import length_of_examples, require_tokenizer, require_two_segments
from kbert.tasks.distillation.distillation import plan_distillation
from kbert.tasks.finetuning.batches import choose_lengths, make_batches, mean_flops, weigh_labels
from kbert.tasks.finetuning.continued_adapter import choose_trained, open_source
from kbert.tasks.finetuning.data_summary import describe_labels, describe_records
from kbert.tasks.finetuning.evaluate import Evaluation, EvaluationResult, LabelledEvaluation
from kbert.tasks.finetuning.head_model import HeadModel
from kbert.tasks.finetuning.label_order import match_outputs, order_labels
from kbert.tasks.finetuning.made_up import make_up_logits, make_up_predictions, repeat_examples
from kbert.tasks.finetuning.run_request import LabelledData
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import Task
from kbert.tasks.finetuning.teacher import open_teacher_of_labels
from kbert.tasks.finetuning.user_metrics import list_keras_metrics
from kbert.training.loop.best_weights import Evaluated
from kbert.training.losses.loss import Loss
from kbert.training.losses.table import LOSSES, make_loss
from kbert.training.losses.user_loss import check_losses, make_user_loss
from kbert.training.run.predictions import Predictions
from kbert.training.run_plan import (
    Device,
    PlannedModel,
    Request,
    RunPlan,
    choose_variant,
    describe_models,
    list_derived,
    list_paths,
    make_optimizer,
    pin_models,
)

_logger = logging.getLogger("kbert")


@dataclass(frozen=True)
class Source:
    """The model that a run starts from, opened.

    Attributes:
        bert: the model.
        adapter: the LoRA adapter that the run continues, if any.
        sources: the run's sources, with models that can be opened again.
    """

    bert: Bert
    adapter: LoraAdapter | None
    sources: Mapping[str, Any]


def plan_finetuning(request: Request, data: LabelledData, device: Device) -> RunPlan:
    """Plan the training of a task's head, with the model under it."""
    task, settings = request.task, request.settings
    source = open_model(request)
    bert, labels, score = source.bert, data.labels, task.score
    if labels:
        labels = order_labels(labels, bert, task)
        score = task.choose_score(labels)
        settings = dataclasses.replace(settings, positive_label=task.find_positive(labels))
    model = _plan_model(task, settings, source, data, labels)

    limit = length_of_examples(bert, settings.max_length)
    train = _encode(task, data.train, bert, labels, limit)
    train = weigh_labels(train, settings.class_weights, labels or ())

    def batch(lengths: Sequence[int]) -> BucketedBatches:
        return make_batches(train, settings, bert, lengths, device)

    batches, lengths, dev_lengths = choose_lengths(settings, limit, limit, device, batch)
    settings = dataclasses.replace(settings, max_length=limit, lengths=lengths)

    losses = _make_losses(task, settings, model.spec, train)
    if settings.has_own_loss:
        _try_loss(losses, batches, model.spec)
    evaluation = None
    if data.dev is not None:
        loss = losses[model.spec.outputs[0]]
        evaluation = _make_evaluation(task, data.dev, settings, bert, labels, dev_lengths, loss)

    plan = make_plan(
        request,
        data,
        source,
        settings=settings,
        labels=labels,
        model=model,
        batches=batches,
        losses=losses,
        evaluation=evaluation,
        score=score,
        units=("examples", "examples"),
        metrics_text=task.describe_metrics(labels),
    )
    if source.sources.get("teacher") is not None:
        plan = _add_teacher(plan, task, source, train, labels)
    log_summary(plan, data, labels)
    return plan


def _make_evaluation(
    task: Task,
    dev: Sequence,
    settings: FinetuningSettings,
    bert: Bert,
    labels: tuple[str, ...] | None,
    lengths: Sequence[int],
    loss: Loss,
) -> LabelledEvaluation:
    """Return the evaluation on dev data, of examples as long as those of the training data."""
    assert settings.max_length is not None
    return LabelledEvaluation(
        _encode(task, dev, bert, labels, settings.max_length),
        settings.batch_size,
        bert.config.pad_token_id,
        lengths,
        task=task,
        records=dev,
        labels=labels,
        packed=settings.packing,
        loss=loss,
        metrics=settings.metrics or (),
    )


def _add_teacher(
    plan: RunPlan, task: Task, source: Source, train: Examples, labels: tuple[str, ...] | None
) -> RunPlan:
    """Return the plan of a run with the teacher among its sources."""
    teacher = open_teacher_of_labels(
        source.sources["teacher"],
        source.bert,
        task,
        labels,
        tokens=plan.settings.lengths[-1],
        pairs=_has_pairs(train),
        needs_head=bool(plan.settings.alpha),
    )
    return plan_distillation(plan, teacher, match_outputs(teacher, labels))


def open_model(request: Request) -> Source:
    """Open the model that a run starts from."""
    sources = pin_models(request.sources)
    bert, adapter = open_source(sources["source"], request.settings)
    return Source(bert, adapter, sources)


def _plan_model(
    task: Task,
    settings: FinetuningSettings,
    source: Source,
    data: LabelledData,
    labels: tuple[str, ...] | None,
) -> HeadModel:
    """Return the model of a task's head and labels."""
    bert = source.bert
    num_labels = len(labels) if labels else 2
    spec = GraphSpec(bert.config, task.head, num_labels=num_labels)
    packed = dataclasses.replace(spec, packed=settings.packing)
    return HeadModel(
        spec=spec,
        training_spec=choose_variant(packed, source.sources, settings),
        trained=choose_trained(settings, spec, bert, source.adapter),
        adapter=source.adapter,
        source=bert,
        task=task,
        labels=labels,
        records=data.train,
    )


def make_plan(
    request: Request,
    data: LabelledData,
    source: Source,
    *,
    settings: FinetuningSettings,
    labels: tuple[str, ...] | None,
    model: PlannedModel,
    batches: Any,
    evaluation: Evaluation | None,
    score: str,
    units: tuple[str, str],
    metrics_text: str,
    **options,
) -> RunPlan:
    """Return the plan of a fine-tuning run, of the parts that its task has chosen.

    `units` are what training and dev data consist of, in words. `options` are other fields of
    `RunPlan`.
    """
    task, sources = request.task, source.sources
    evaluate = baseline = None
    if evaluation is not None:
        score = choose_score(settings, evaluation, model.spec, score)
        evaluate = functools.partial(_evaluate, evaluation)
    if data.dev is not None:
        baseline = task.find_baseline(data.train, data.dev)

    epoch = batches.steps_per_epoch
    steps = settings.epochs * epoch
    data_facts = _describe_data(data, labels, sources, batches, evaluation, units)
    keras_metrics = list_keras_metrics(settings.metrics or ())
    if keras_metrics:
        data_facts["No interval"] = f"{', '.join(keras_metrics)} (Keras metrics)"

    return RunPlan(
        command=request.command,
        title=f"Fine-tuning {task.title}",
        settings=settings,
        recorded={"task": task.name, **settings.as_dict(), "labels": labels and list(labels)},
        derived=["labels", *list_derived(request, settings)],
        fingerprint=_make_fingerprint(request, source, batches, evaluation),
        summary={**data.facts, "score": score, "metrics": metrics_text},
        data_paths=list_paths(sources),
        base="source",
        base_may_move=True,
        model=model,
        batches=batches,
        optimizer=make_optimizer(settings, steps, round(settings.warmup_ratio * steps)),
        flops=mean_flops(model.training_spec, batches, model.trained),
        evaluate_every=settings.evaluate_every or epoch,
        evaluate=evaluate,
        score=score,
        baseline=baseline,
        keep_best=settings.keep_best,
        facts=describe_models(sources, "source", model.trained) | data_facts,
        describe_progress=lambda done: f"{done / epoch:.2f} epochs of {epoch:,} steps",
        card=_make_card(source, data),
        **options,
    )


def _make_card(source: Source, data: LabelledData) -> Training:
    """Return what the model's card says of the run, before it has a result."""
    return Training(
        verb="fine-tuned",
        base=source.bert.source,
        facts={},
        dev=_name_file(source.sources.get("dev")) or None,
        metrics={},
        settings={},
        pairs=data.are_pairs,
    )


def _make_fingerprint(
    request: Request, source: Source, batches: Any, evaluation: Evaluation | None
) -> dict[str, Any]:
    """Return all that batches, evaluation and first weights depend on, as JSON.

    The weights of a `Bert` may be others than those at the address that it was loaded from.
    """
    fingerprint = {
        "train": batches.fingerprint,
        "dev": None if evaluation is None else evaluation.examples.digest(),
    }
    if request.run is not None:
        has_weights = "source" in request.run.fingerprint
    else:
        has_weights = getattr(request.sources["source"], "source", None) is not None
    if has_weights:
        fingerprint["source"] = weights_digest(source.bert)
    return fingerprint


def _encode(
    task: Task, records: Sequence, bert: Bert, labels: tuple[str, ...] | None, limit: int
) -> Examples:
    """Encode training or dev data, in at most `limit` tokens each."""
    tokenizer = require_tokenizer(bert, "finetune")
    examples = task.encode(records, tokenizer, labels, max_length=limit)
    if _has_pairs(examples):
        require_two_segments(bert, "finetune")
    return examples


def _has_pairs(examples: Examples) -> bool:
    return any(max(row, default=0) > 0 for row in examples.segment_ids)


def _make_losses(
    task: Task, settings: FinetuningSettings, spec: GraphSpec, train: Examples
) -> dict[str, Loss]:
    """Return the loss of each output by its name."""
    losses = {}
    for name in spec.outputs:
        losses[name] = _make_loss(task, settings, train.class_weights.get(name))
    return losses


def _make_loss(task: Task, settings: FinetuningSettings, class_weights: np.ndarray | None) -> Loss:
    """Return the loss of an output."""
    loss, smoothing = settings.loss or task.loss, settings.label_smoothing
    if not isinstance(loss, str):
        return make_user_loss(LOSSES[task.loss], loss)
    if not smoothing:
        return make_loss(loss)
    if class_weights is None:
        return make_loss(loss, smoothing=smoothing)
    return make_loss(loss, smoothing=smoothing, class_weights=class_weights)


def _try_loss(losses: Mapping[str, Loss], batches: BucketedBatches, spec: GraphSpec) -> None:
    """Try the user's loss on made-up logits: an error is raised before the run begins."""
    batch = repeat_examples(batches.batch(0), spec.num_labels)
    check_losses(losses, batch.labels, batch.weights, make_up_logits(spec, batch))


def choose_score(
    settings: FinetuningSettings, evaluation: Evaluation, spec: GraphSpec, score: str
) -> str:
    """Return the metric that says what is best: the user's, else `score`, the task's.

    The user's loss and metrics are tried on made-up outputs: an error is raised before the run
    begins.
    """
    if settings.score is None and settings.metrics is None and not settings.has_own_loss:
        return score

    result = evaluation(make_up_predictions(spec), spec.outputs)
    if settings.score is None:
        return score
    check_choice(settings.score.removeprefix("-"), result.metrics, "score")
    return settings.score


def _evaluate(evaluation: Evaluation, engine) -> Evaluated:
    """Return the metrics of an engine's weights, a function of their intervals, the predictions."""
    result = evaluation(engine.predict, engine.output_names)

    def find_intervals() -> dict[str, tuple[float, float]]:
        result.warn_of_predictions("dev")
        return result.find_intervals()

    return Evaluated(result.metrics, find_intervals, _describe(result, engine))


def _describe(result: EvaluationResult, engine) -> Predictions | None:
    """Return the predictions for the run's page; an error in it must not end the training."""
    if engine.backend.process:  # one process writes the page
        return None
    try:
        return result.describe()
    except Exception:
        _logger.warning("the predictions cannot be shown in the run's page", exc_info=True)
        return None


def log_summary(plan: RunPlan, data: LabelledData, labels: tuple[str, ...] | None) -> None:
    """Log what is learned, and how the result is chosen; settings.json has it too."""
    for name, facts in data.facts.items():
        _logger.warning("%s", describe_records(name, facts, labels))
    if plan.evaluate is None:
        _logger.warning("no dev data: the last weights are the result")
        return

    weights = "the last weights"
    if plan.keep_best:
        lowest = "the lowest " if plan.score.startswith("-") else ""
        weights = f"the best weights by {lowest}{plan.score.removeprefix('-')}"
    metrics = plan.summary["metrics"]
    _logger.warning("the result has %s on dev%s", weights, f"; {metrics}" if metrics else "")
    keras_metrics = list_keras_metrics(plan.settings.metrics or ())
    if keras_metrics:
        _logger.warning("metrics without an interval, as Keras's are: %s", ", ".join(keras_metrics))


def _describe_data(
    data: LabelledData,
    labels: tuple[str, ...] | None,
    sources: Mapping[str, Any],
    batches: Any,
    evaluation: Evaluation | None,
    units: tuple[str, str],
) -> dict[str, str]:
    """Return the data in words by name, for the report and the card."""
    train_unit, dev_unit = units
    text = f"{len(batches.examples):,} {train_unit}"
    if labels and "labels" in data.facts["train"]:
        text += f", {describe_labels(data.facts['train']['labels'], labels)}"
    facts = {"Data": _add_file(sources.get("train"), text)}
    if evaluation is not None:
        text = f"{len(evaluation):,} {dev_unit}"
        facts["Dev data"] = _add_file(sources.get("dev"), text)
    return facts


def _add_file(source, text: str) -> str:
    """Put the name of a file of data before what is said of it."""
    name = _name_file(source)
    return f"{name}, {text}" if name else text


def _name_file(source) -> str:
    """Return the name of a file of data; "" for rows in memory."""
    if not isinstance(source, (str, os.PathLike)):
        return ""
    return Path(source).name
