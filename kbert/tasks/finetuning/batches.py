"""Batches of a fine-tuning run: their lengths, the weights of their classes, their cost."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.data.labelled.length_buckets import IGNORED, BucketedBatches, Examples
from kbert.data.labelled.packed_batches import PackedBatches
from kbert.data.padding import cheapest_lengths, lengths_up_to
from kbert.graph.accounting import account
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import TrainedParts
from kbert.io.wording import check_choice
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.training.run_plan import Device


def choose_lengths(
    settings: FinetuningSettings,
    limit: int,
    text_limit: int,
    device: Device,
    make_batches: Callable[[Sequence[int]], Any],
) -> tuple[Any, tuple[int, ...], Sequence[int]]:
    """Return the batches of the training data, their lengths, and those of the dev data.

    Where a shape costs time, but is not compiled, the lengths are those with which the run takes
    least time.

    Args:
        limit: maximum number of tokens of an example.
        text_limit: the same, if the model's own texts are shorter.
        make_batches: returns the batches of possible lengths.
    """
    every_length = tuple(range(1, limit + 1))
    shape_cost = 0.0 if device.compiled else device.shape_cost
    if settings.packing:
        possible = lengths_up_to(limit, device.compiled)
        batches = make_batches(possible)
        return batches, (batches.row_length,), every_length if shape_cost else possible

    if settings.lengths or not shape_cost:
        lengths = settings.lengths or lengths_up_to(limit, device.compiled)
        return make_batches(lengths), lengths, every_length if shape_cost else lengths

    batches = make_batches(every_length)
    needed = Counter(batches.lengths_in(0))
    in_run = {length: count * settings.epochs for length, count in needed.items()}
    lengths = tuple(sorted({*cheapest_lengths(in_run, shape_cost), text_limit}))
    return batches.with_lengths(lengths), lengths, every_length


def make_batches(
    train: Examples,
    settings: FinetuningSettings,
    bert: Bert,
    lengths: Sequence[int],
    device: Device,
) -> BucketedBatches:
    """Return the batches of the training data; `lengths` are possible ones."""
    options: dict = {
        "batch_size": settings.batch_size,
        "seed": settings.seed,
        "pad_id": bert.config.pad_token_id,
    }
    if not settings.packing:
        return BucketedBatches(train, lengths=lengths, pad_counts=device.compiled, **options)
    return PackedBatches(
        train,
        row_length=settings.lengths[0] if settings.lengths else None,
        longest_row=bert.config.positions,
        micro_batches=settings.accumulation_steps,
        **options,
    )


def balance_classes(examples: Examples, count: int) -> Examples:
    """Weight labels: those of a class count for all labels / (classes · labels of that class).

    The classes are those that have a label; others weigh 0.
    """
    weights = {}
    for name, labels in examples.labels.items():
        numbers = np.concatenate([np.atleast_1d(label) for label in labels])
        counts = np.bincount(numbers[numbers != IGNORED], minlength=count)
        num_classes = np.count_nonzero(counts)
        balanced = counts.sum() / (num_classes * np.maximum(counts, 1))
        weights[name] = np.where(counts, balanced, 0.0)
    return dataclasses.replace(examples, class_weights=weights)


def weigh_labels(
    examples: Examples, class_weights: str | Mapping[str, float] | None, classes: Sequence[str]
) -> Examples:
    """Return examples with the weights of a run's setting class_weights.

    A class that a dict does not name weighs 1.
    """
    if class_weights is None:
        return examples
    if isinstance(class_weights, str):  # "balanced"
        return balance_classes(examples, len(classes))
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
    options: dict = {
        "head": spec.head,
        "num_labels": spec.num_labels,
        "selected_positions": spec.selected_positions,
        "packed_texts": batches.batch_size if spec.packed else None,
    }
    counts, total = Counter(batches.shapes_in(0)), 0
    for (batch_size, length), count in counts.items():
        accounting = account(spec.config, length, batch_size, **options)
        total += count * dataclasses.replace(accounting, trained=trained).training_flops
    return total / counts.total()
