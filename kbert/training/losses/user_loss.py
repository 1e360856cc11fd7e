"""A loss of the user in place of a task's own: a function, or one of Keras's losses.

It gives a loss per example. The step weights and sums these as it does its own, so packing,
micro-batches, several devices and weights of classes and examples need nothing more.

Dimensions at line end: B examples, C classes, S tokens.
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from kbert.data.labelled.length_buckets import IGNORED
from kbert.training.losses.loss import Loss, compute_objective, mask_logits
from kbert.training.settings import user_objects
from kbert.training.settings.user_objects import UserFunction

_AT_ONCE = 1024  # examples of dev data
_LEAST = -1e9  # the lowest logit: that of padding may be −∞, and 0 · ∞ is no number


@dataclass(frozen=True)
class UserLoss(Loss):
    """A loss of the user for one output.

    Attributes:
        compute_each: the losses of examples, in `keras.ops`, of labels and logits: (B,), in the
            labels' shape, or without its last axis.
    """

    compute_each: Callable = lambda labels, logits: None

    def compute_mean(self, labels: Mapping, outputs: Mapping) -> float | None:
        """Return the mean over the outputs' examples, computed by the same function."""
        means = []
        for name, arrays in labels.items():
            losses = self._compute_arrays(arrays, outputs[name])
            if losses:
                joined = np.concatenate(losses, dtype=np.float64)
                means.append(np.mean(joined))
        return float(np.mean(means)) if means else None

    def _compute_arrays(self, labels, logits) -> list[np.ndarray]:
        """Return the losses of examples that have a label, those of equal shapes together."""
        shapes = defaultdict(list)
        for pair in zip(labels, logits, strict=True):
            shapes[np.shape(pair[1])].append(pair)

        losses = []
        for pairs in shapes.values():
            for start in range(0, len(pairs), _AT_ONCE):
                chunk, chunk_logits = zip(*pairs[start : start + _AT_ONCE], strict=True)
                stacked = np.stack(chunk)
                stacked_logits = np.stack(chunk_logits)
                chunk_losses = self._compute_chunk(stacked, stacked_logits)
                losses.append(chunk_losses)
        return losses

    def _compute_chunk(self, labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Return the losses of the labels that count, (…,)."""
        if labels.dtype.kind == "f":
            has_label = np.full(labels.shape, True)
            arrays = labels.astype(np.float32)
        else:
            has_label = labels != IGNORED
            arrays = np.where(has_label, labels, 0)
            arrays = arrays.astype(np.int32)

        try:
            targets = ops.convert_to_tensor(arrays)
            outputs = ops.convert_to_tensor(logits.astype(np.float32))
            losses = self.compute_each(targets, outputs)
        except Exception as error:
            raise _make_error(self.name, arrays, logits, error) from error
        losses = ops.convert_to_numpy(losses)
        if losses.shape == labels.shape:
            return losses[has_label]
        return losses.ravel()


class _KerasLoss(keras.losses.Loss):
    """A loss for callbacks, of the losses of examples."""

    def __init__(self, compute_each: Callable, name: str, labels: str):
        super().__init__(name=name, reduction="mean_with_sample_weight")
        self._compute_each = compute_each
        self._labels = labels

    def call(self, y_true, y_pred):
        # Keras makes floats of all labels
        labels = ops.cast(y_true, self._labels)
        return self._compute_each(labels, y_pred)


def make_user_loss(task_loss: Loss, value: UserFunction | Mapping) -> UserLoss:
    """Return the loss of a function or of a Keras object's JSON, in place of a task's.

    The second metric and a teacher's loss stay the task's.
    """
    is_number = task_loss.teacher == "squared_error"
    if isinstance(value, UserFunction):
        compute = functools.partial(_call_function, value, is_number)
    else:
        compute = functools.partial(_call_keras, user_objects.deserialize(value), is_number)

    name = user_objects.name_object(value)
    labels = "int32" if task_loss.name == "cross_entropy" else "float32"
    _, metric = task_loss.make_keras()

    names = [field.name for field in dataclasses.fields(Loss)]
    fields = {field: getattr(task_loss, field) for field in names}
    fields["name"] = name
    fields["sum_losses"] = functools.partial(_sum_losses, compute, task_loss.sum_losses)
    fields["compute"] = None
    fields["make_keras"] = lambda: (_KerasLoss(compute, name, labels), metric)
    return UserLoss(**fields, compute_each=compute)


def _call_function(function: UserFunction, is_number: bool, labels, logits):
    """Return a function's losses; numbers are (B,) both."""
    assert function.call is not None
    if is_number:
        labels = ops.reshape(labels, (-1,))
        logits = ops.reshape(logits, (-1,))
    return ops.cast(function.call(labels, logits), "float32")


def _call_keras(loss: keras.losses.Loss, is_number: bool, labels, logits):
    """Return the losses of examples of a Keras loss, before its reduction, as `fit` calls it.

    Numbers are (B, 1) both. Classes are one-hot for Keras's losses that need it.
    """
    if is_number:
        labels = ops.reshape(labels, (-1, 1))
        logits = ops.reshape(logits, (-1, 1))
    one_hot = (
        keras.losses.CategoricalCrossentropy,
        keras.losses.CategoricalFocalCrossentropy,
        keras.losses.CategoricalHinge,
    )
    has_class_ids = len(labels.shape) < len(logits.shape)
    if isinstance(loss, one_hot) and has_class_ids:
        num_classes = logits.shape[-1]
        labels = ops.one_hot(labels, num_classes, dtype="float32")
    return ops.cast(loss.call(labels, logits), "float32")


def _sum_losses(compute: Callable, sum_task_losses: Callable, logits, labels, weights):
    """Compute the sums of a loss: those of the losses of examples, and the task's second metric."""
    task_sums = sum_task_losses(logits, labels, weights)
    logits = mask_logits(logits, weights)
    losses = compute(labels, ops.maximum(logits, _LEAST))

    has_sets = len(weights.shape) == 2 and len(logits.shape) == 2
    if has_sets and len(losses.shape) == 1:  # one loss for all labels of an example
        weights = ops.sum(weights, -1)
    has_other_rank = len(losses.shape) != len(weights.shape)
    if has_other_rank or losses.shape[0] != weights.shape[0]:
        raise ValueError(
            f"it must return a loss per example, in the shape {tuple(weights.shape)}, got "
            f"{tuple(losses.shape)}"
        )
    loss = ops.sum(weights * losses)
    return ops.stack([loss, task_sums[1], task_sums[2]])


def check_losses(losses: Mapping[str, Loss], labels: Mapping, weights: Mapping, outputs: Mapping):
    """Raise a ValueError, before a run begins, if a user's loss cannot be computed of a batch."""
    logits = _convert_to_tensors(outputs)
    targets = _convert_to_tensors(labels)
    counts = _convert_to_tensors(weights)
    name = next(iter(labels))
    try:
        value, _ = compute_objective(logits, targets, counts, losses)
    except Exception as error:
        raise _make_error(losses[name].name, labels[name], outputs[name], error) from error
    if not np.isfinite(ops.convert_to_numpy(value)):
        raise ValueError(
            f"loss: {losses[name].name} must be finite for logits of any size, got {value}: the "
            "model's outputs are logits, not probabilities"
        )


def _convert_to_tensors(arrays: Mapping) -> dict:
    return {name: ops.convert_to_tensor(array) for name, array in arrays.items()}


def _make_error(name: str, labels: np.ndarray, logits: np.ndarray, error: Exception) -> ValueError:
    """Return the error of a user's loss in one line."""
    return ValueError(
        f"loss: {name} failed on labels {labels.shape} and logits {logits.shape}: "
        f"{user_objects.describe_error(error)}"
    )
