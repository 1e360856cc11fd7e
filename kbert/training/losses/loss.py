"""The class of all losses, and the training objective: the sum of weight × loss over every label.

A head names the loss of its outputs, unless the task names another; distillation adds losses on a
teacher's outputs. Every loss computes sums, as `weighted_sums` returns them. A new loss is an entry
of `kbert.training.losses.table.LOSSES`, with its formula in float64 for dev data and Keras's own
loss for callbacks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

_MEAN = "mean_with_sample_weight"


def make_keras_classes():
    """Return Keras's loss and metric of classes."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=_MEAN)
    return loss, keras.metrics.SparseCategoricalAccuracy(name="accuracy")


def make_keras_flags():
    """Return Keras's loss and metric of classes that hold or not."""
    loss = keras.losses.BinaryCrossentropy(from_logits=True, reduction=_MEAN)
    return loss, keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)


def make_keras_numbers():
    """Return Keras's loss and metric of numbers."""
    loss = keras.losses.MeanSquaredError(reduction=_MEAN)
    return loss, keras.metrics.MeanAbsoluteError(name="absolute_error")


@dataclass(frozen=True)
class Loss:
    """The loss of one output."""

    name: str  # as in `kbert.training.losses.table.LOSSES`
    # Of an output, its labels and their weights: float32 (3,), as of `weighted_sums`.
    sum_losses: Callable
    metric: str = "accuracy"  # the name of the second metric
    # NumPy's losses of one example, in float64, of logits and labels; None: no data have this loss.
    compute: Callable | None = None
    # Keras's loss and metric, or similar ones: for callbacks
    make_keras: Callable = make_keras_classes
    teacher: str | None = None  # the name of the loss of the same output on a teacher's output
    output: str | None = None  # the output that learns, if the labels have another name
    options: tuple[str, ...] = ()  # attributes of an `EmbeddingLoss` that `sum_losses` takes
    needs_whole_batch: bool = False  # whether an example's part depends on the batch's others

    def compute_mean(self, labels: Mapping, outputs: Mapping) -> float | None:
        """Return the mean in float64 over the outputs' examples, by name; None without labels."""
        assert self.compute is not None
        means = []
        for name, arrays in labels.items():
            losses = []
            for logits, array in zip(outputs[name], arrays, strict=True):
                wide = np.asarray(logits, np.float64)
                loss = self.compute(wide, array)
                losses.append(np.atleast_1d(loss))
            if any(loss.size for loss in losses):
                means.append(np.mean(np.concatenate(losses)))
        return float(np.mean(means)) if means else None


def weighted_sums(weights, losses, hits):
    """Return the sums that a loss returns, of losses and hits in the weights' shape.

    float32 (3,): Σ weight × loss, Σ weight × hit, Σ weight.
    """
    hits = ops.cast(hits, "float32")
    weighted_losses = ops.sum(weights * losses)
    weighted_hits = ops.sum(weights * hits)
    total = ops.sum(weights)
    return ops.stack([weighted_losses, weighted_hits, total])


def mask_logits(logits, weights):
    """Return logits in float32; 0 where the weight is, since they may be NaN there."""
    if len(weights.shape) < len(logits.shape):
        weights = ops.expand_dims(weights, -1)
    wide = ops.cast(logits, "float32")
    return ops.where(weights > 0, wide, 0.0)


def compute_objective(outputs: Mapping, labels: Mapping, weights: Mapping, losses):
    """Return the loss of some examples, a scalar, and the sums of each label, (labels, 3)."""
    sums_of_labels = []
    for name, array in labels.items():
        loss = losses[name]
        output = outputs[loss.output or name]
        sums_of_labels.append(loss.sum_losses(output, array, weights[name]))
    sums = ops.stack(sums_of_labels)
    return ops.sum(sums[:, 0]), sums


def sum_metrics(losses: Mapping[str, Loss], labels: Iterable[str], sums) -> dict[str, tuple]:
    """Return (Σ weight × metric, Σ weight), which add up over batches, by name ("MLM_loss", …)."""
    metrics: dict[str, tuple] = {}
    for index, name in enumerate(labels):
        loss = sums[index, 0]
        hits = sums[index, 1]
        weight = sums[index, 2]
        metrics[f"{name}_loss"] = loss, weight
        metrics[f"{name}_{losses[name].metric}"] = hits, weight
    return metrics
