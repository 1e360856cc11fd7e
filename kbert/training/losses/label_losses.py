"""Losses of outputs and labels: classes, classes that hold or not, and numbers.

Dimensions at line end: B examples (and tokens, where each has a label), C classes.
"""

import numpy as np
from keras import ops

from kbert import ops as kops
from kbert.data.labelled.length_buckets import IGNORED
from kbert.training.losses.loss import mask_logits, weighted_sums

_EPSILON = 1e-12  # the least weight of a class that others are divided by


def sum_cross_entropy(
    logits, labels, weights, smoothing: float = 0.0, class_weights: np.ndarray | None = None
):
    """Compute the sums of the softmax cross-entropy: `kbert.ops.reference.cross_entropy`.

    `smoothing` is the fraction of a label that is spread over all classes equally (Szegedy et al.
    2016, section 7). `class_weights`, (C,), are those in `weights`: the share of a label that is
    spread over a class then has that class's weight, as in torch.nn.CrossEntropyLoss.
    """
    sums = kops.cross_entropy(logits, labels, weights)
    if not smoothing:
        return sums

    logits = mask_logits(logits, weights)
    indices = ops.expand_dims(labels, -1)
    label_logits = ops.take_along_axis(logits, indices, axis=-1)
    label_logits = ops.squeeze(label_logits, -1)
    if class_weights is None:
        # cross-entropy of (1 − s) · label + s · uniform: + s · (the label's logit − the mean logit)
        losses = label_logits - ops.mean(logits, -1)
    else:
        losses = _compare_weighted(logits, labels, label_logits, class_weights)
    more = smoothing * ops.sum(weights * losses)
    zero = ops.zeros_like(more)
    return sums + ops.stack([more, zero, zero])


def _compare_weighted(logits, labels, label_logits, class_weights: np.ndarray):
    """Return the weighted mean loss of all classes, in the label's weight, − the label's loss.

    `label_logits` are the logits of the labels.
    """
    class_weights = ops.convert_to_tensor(class_weights, "float32")  # (C,)
    total = ops.logsumexp(logits, axis=-1)
    class_losses = ops.expand_dims(total, -1) - logits
    smoothed = ops.mean(class_weights * class_losses, -1)
    label_weights = ops.take(class_weights, labels, axis=0)
    # labels of padding may be of a class of weight 0; it does not count
    label_weights = ops.maximum(label_weights, _EPSILON)
    return smoothed / label_weights - (total - label_logits)


def compute_cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cross-entropy of each label of an example that counts."""
    logits, labels = np.atleast_2d(logits), np.atleast_1d(labels)
    has_label = labels != IGNORED
    logits, labels = logits[has_label], labels[has_label]

    top = logits.max(-1, initial=0.0, keepdims=True)
    sums = np.exp(logits - top).sum(-1)
    total = np.log(sums) + top[:, 0]
    label_logits = logits[np.arange(len(labels)), labels]
    return total - label_logits


def sum_binary_cross_entropy(logits, labels, weights):
    """Compute the sums of the sigmoid cross-entropy; labels (B, C): 1 for classes that hold."""
    logits = mask_logits(logits, weights)
    softplus_of_size = ops.log1p(ops.exp(-ops.abs(logits)))
    losses = ops.relu(logits) - logits * labels + softplus_of_size
    hits = ops.equal(logits > 0, labels > 0.5)
    return weighted_sums(weights, losses, hits)


def compute_binary_cross_entropy(logits: np.ndarray, labels) -> np.ndarray:
    """Return the cross-entropy of each class."""
    return np.logaddexp(0.0, logits) - logits * labels


def sum_squared_error(logits, labels, weights):
    """Compute the sums of the squared and the absolute error; logits (B, 1), labels (B,)."""
    errors = _compute_errors(logits, labels, weights)
    squares = ops.square(errors)
    return weighted_sums(weights, squares, ops.abs(errors))


def compute_squared_error(logits: np.ndarray, labels) -> np.ndarray:
    """Return the squared error of each number."""
    return (logits - labels) ** 2


def sum_absolute_error(logits, labels, weights):
    """Compute the sums of the absolute error, twice; shapes as of `sum_squared_error`."""
    errors = ops.abs(_compute_errors(logits, labels, weights))
    return weighted_sums(weights, errors, errors)


def compute_absolute_error(logits: np.ndarray, labels) -> np.ndarray:
    """Return the absolute error of each number."""
    return np.abs(logits - labels)


def sum_huber(logits, labels, weights):
    """Compute the sums of Huber's loss (1964) and the absolute error; as of `sum_squared_error`.

    It is half the squared error up to an error of 1, and linear above.
    """
    errors = ops.abs(_compute_errors(logits, labels, weights))
    near = ops.minimum(errors, 1.0)
    return weighted_sums(weights, near * (errors - near / 2), errors)


def compute_huber(logits: np.ndarray, labels) -> np.ndarray:
    """Return Huber's loss of each number."""
    errors = np.abs(logits - labels)
    near = np.minimum(errors, 1.0)
    return near * (errors - near / 2)


def _compute_errors(logits, labels, weights):
    """Return predicted numbers − labels; shapes as of `sum_squared_error`."""
    numbers = ops.squeeze(mask_logits(logits, weights), -1)
    return numbers - labels
