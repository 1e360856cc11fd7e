"""Pretraining as a plan: shards of text, MLM and NSP, a held-out part to evaluate with."""

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.data.pretraining.pretraining_batches import PretrainingBatches
from kbert.data.pretraining.ramped_batches import RampedBatches
from kbert.data.training_batch import Batches
from kbert.graph import names
from kbert.graph.accounting import account
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.heads import HEADS
from kbert.hub.model_card import Training
from kbert.tasks.common.checks import MLM_LAYERS, require_head
from kbert.tasks.distillation.distillation import open_teacher, plan_distillation
from kbert.tasks.pretraining.pretrained_model import PretrainedModel
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training.loop.best_weights import BestWeights, Evaluated
from kbert.training.loop.history import History
from kbert.training.losses.table import LOSSES
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.run_plan import (
    Device,
    Request,
    RunPlan,
    choose_variant,
    describe_models,
    list_derived,
    list_paths,
    make_optimizer,
)

LEAST_STEPS = 10  # of a time budget: an evaluation is due after a tenth of them
BUDGET_STEPS = 1_000_000  # of a time budget, which the schedule counts as it counts steps


@dataclass(frozen=True)
class Corpus:
    """The data of a pretraining run, and the configuration of a model for them.

    Attributes:
        batches: of the training data.
        held_out: of the dev data; None: there are none.
        config: the model's configuration.
    """

    batches: PretrainingBatches
    held_out: PretrainingBatches | None
    config: BertConfig


def plan_pretraining(request: Request, data: Corpus, device: Device) -> RunPlan:
    """Plan the training of a model with the two losses of the paper, or with MLM alone."""
    settings, sources = request.settings.complete(), request.sources
    batches, held_out = data.batches, data.held_out
    model = _plan_model(settings, sources, data)
    # Both outputs have a loss, with `mlm_only` too: there all labels of NSP have the weight 0.
    loss = LOSSES[HEADS[model.spec.head].loss]
    losses = {names.MLM: loss, names.NSP: loss}
    evaluate = dev_fingerprint = None
    if held_out is not None:
        evaluate = functools.partial(_evaluate, held_out, settings.evaluation_batches)
        dev_fingerprint = held_out.fingerprint

    ramped = _ramp_batches(settings, batches)
    plan = RunPlan(
        command=request.command,
        title="Pretraining a BERT",
        **_list_settings(request, data, settings),
        fingerprint={"train": batches.fingerprint, "dev": dev_fingerprint},
        data_paths=list_paths(sources),
        base="init",  # the key in `sources`
        base_may_move=False,
        model=model,
        batches=ramped,
        micro_batch_size=None if settings.ramp_from is None else _find_micro_batch(settings),
        losses=losses,
        optimizer=_make_optimizer(settings),
        flops=_count_flops(model, batches),
        evaluate=evaluate,
        score="-loss",
        choose_weights=functools.partial(_choose_weights, evaluate is not None),
        facts=describe_models(sources, "init", model.trained) | _describe_data(data),
        describe_progress=functools.partial(_describe_progress, batches, ramped),
        card=_make_card(sources, held_out),
        plan_steps=None
        if settings.hours is None
        else functools.partial(_plan_steps, request, data),
    )
    if sources.get("teacher") is None:
        return plan
    teacher = _open_teacher(sources["teacher"], batches, settings)
    outputs = [names.MLM] if settings.mlm_only else [names.MLM, names.NSP]
    return plan_distillation(plan, teacher, outputs=outputs)


def _list_settings(request: Request, data: Corpus, settings: PretrainingSettings) -> dict[str, Any]:
    """Return what a plan has of its complete settings, by the plan's names."""
    return {
        "settings": settings,
        "recorded": {**settings.as_dict(), "config": data.config.to_dict()},
        "derived": list_derived(request, settings),
        "evaluate_every": settings.evaluate_every,
        "planned_steps": settings.steps,
    }


def _plan_steps(request: Request, data: Corpus, plan: RunPlan, steps: int) -> RunPlan:
    """Return the plan of a time budget that has room for so many steps."""
    hours = request.settings.hours
    if steps < LEAST_STEPS:
        raise ValueError(
            f"hours must have room for {LEAST_STEPS} steps, got {hours:g}, which has room for "
            f"{steps}: give more hours, or take smaller batches"
        )
    settings = request.settings.complete(steps)
    return dataclasses.replace(plan, **_list_settings(request, data, settings))


def _find_micro_batch(settings: PretrainingSettings) -> int:
    return settings.batch_size // settings.accumulation_steps


def _ramp_batches(settings: PretrainingSettings, batches: PretrainingBatches) -> Batches:
    """Return the batches, or those that grow to their size, if the settings have a ramp."""
    if settings.ramp_from is None:
        return batches
    assert settings.ramp_ratio is not None
    return RampedBatches(
        batches,
        settings.ramp_from,
        _find_micro_batch(settings),
        settings.ramp_ratio,
        steps=None if settings.hours is not None else settings.steps,
    )


def _make_optimizer(settings: PretrainingSettings) -> Optimizer:
    if settings.hours is None:
        assert settings.steps is not None and settings.warmup_steps is not None
        return make_optimizer(settings, settings.steps, settings.warmup_steps)
    assert settings.warmup_ratio is not None
    warmup_steps = round(settings.warmup_ratio * BUDGET_STEPS)
    return make_optimizer(settings, BUDGET_STEPS, warmup_steps, follows_budget=True)


def _plan_model(
    settings: PretrainingSettings, sources: Mapping[str, Any], data: Corpus
) -> PretrainedModel:
    """Return the model, whose steps compute only the predicted positions."""
    batches = data.batches
    variant = GraphSpec(
        data.config,
        seq_len=batches.seq_len,
        max_predictions=batches.max_predictions,
        packed=settings.separate_documents,
    )
    lora = (settings.lora_rank, settings.lora_targets, settings.lora_alpha)
    return PretrainedModel(
        spec=GraphSpec(data.config, seq_len=None),
        training_spec=choose_variant(variant, sources, settings),
        trained=trained_parts(variant, settings.freeze, *lora),
        init=sources.get("init"),
        tokenizer=batches.shards.tokenizer,
        mlm_only=settings.mlm_only,
    )


def _count_flops(model: PretrainedModel, batches: PretrainingBatches) -> float:
    """Return the FLOPs of a step."""
    accounting = account(
        model.spec.config,
        batches.seq_len,
        batches.batch_size,
        max_predictions=batches.max_predictions,
        selected_positions=model.training_spec.selected_positions,
    )
    return dataclasses.replace(accounting, trained=model.trained).training_flops


def _open_teacher(source, batches: PretrainingBatches, settings: PretrainingSettings) -> Bert:
    """Return the teacher; raise a ValueError where it has not the student's outputs."""
    if settings.separate_documents:
        raise ValueError("separate_documents does not go with a teacher: leave one out")
    has_pairs = not settings.mlm_only
    head = "pretraining" if settings.alpha else None
    teacher = open_teacher(source, batches.shards.tokenizer, batches.seq_len, has_pairs, head)
    if settings.alpha:
        layers = [*MLM_LAYERS]
        if has_pairs:
            layers += [names.POOLER, names.NSP]
        require_head(teacher, "a teacher (but with alpha 0)", "pretraining", layers)
    return teacher


def _evaluate(held_out: PretrainingBatches, most_batches: int, engine) -> Evaluated:
    """Return each output's loss and accuracy over held-out batches, and the losses' sum.

    Examples and masks are the same every time: those of one pass, at least one batch.
    """
    batch_size = held_out.batch_size
    count = max(1, held_out.examples_per_epoch(0) // batch_size)
    part = engine.slice_examples(batch_size)
    sums: dict[str, np.ndarray] = {}
    for step in range(min(most_batches, count)):
        batch = held_out.batch(step, part)
        for name, pair in engine.evaluate(batch).items():
            sums[name] = sums.get(name, 0.0) + np.array(pair)

    metrics = {}
    losses = []
    for name, (total, weight) in sums.items():
        if not weight:
            continue
        metrics[name] = float(total / weight)
        if name.endswith("_loss"):
            losses.append(metrics[name])
    return Evaluated({"loss": sum(losses)} | metrics)


def _choose_weights(has_dev: bool, best: BestWeights, history: History) -> dict:
    """Keep the last weights, or those that a callback has set; describe them for result.json."""
    last = history.updates[-1]
    result = dict(last)
    result.pop("step", None)
    result.pop("skipped", None)
    if not history.restored or not has_dev:
        return result
    step, metrics = best.restore(history)  # other weights than the last step's
    result |= {f"val_{name}": value for name, value in metrics.items()}
    return result | {"weights_of_update": step, "metrics": metrics}


def _describe_data(data: Corpus) -> dict[str, str]:
    """Return the data in words by name, for the report and the card."""
    shards = data.batches.shards
    facts = {"Data": f"{_count_documents(shards)}; a vocabulary of {shards.vocab_size:,}"}
    if data.held_out is not None:
        facts["Dev data"] = _count_documents(data.held_out.shards)
    return facts


def _count_documents(shards) -> str:
    return f"{shards.documents:,} documents of {int(shards.document_tokens.sum()):,} tokens"


def _describe_progress(batches: PretrainingBatches, batches_of_run: Batches, done: int) -> str:
    seen = batches_of_run.count_examples(done)
    epochs = seen / batches.examples_per_epoch(0)
    return f"{seen:,} examples of {batches.seq_len} tokens: {epochs:.2f} epochs"


def _make_card(sources: Mapping[str, Any], held_out: PretrainingBatches | None) -> Training:
    """Return what the model's card says of the run, before it has a result."""
    init = sources.get("init")
    base = init if init and "://" in init else None
    dev = None if held_out is None else "held-out documents"
    return Training(
        verb="pretrained",
        base=base,
        facts={},
        dev=dev,
        metrics={},
        settings={},
    )
