"""The losses, by name, and the training objective: the sum of weight × loss over every label.

A head names the loss of its outputs, unless the task names another; distillation adds losses on a
teacher's outputs. Every loss computes sums, as `sum_cross_entropy` does. A new loss is an entry of
`LOSSES`, with its formula in float64 for dev data and Keras's own loss for callbacks.

Dimensions at line end: B examples (and tokens, where each has a label), C classes, S tokens, H
hidden size.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from kbert import ops as kops
from kbert.data.labelled.length_buckets import IGNORED

_MEAN = "mean_with_sample_weight"
_EPSILON = 1e-12  # of squared lengths, as in torch's cosine embedding loss


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

    name: str  # as in `LOSSES`, or that of a loss of text embeddings
    # Of an output, its labels and their weights: float32 (3,), as of `sum_cross_entropy`.
    sum_losses: Callable
    metric: str = "accuracy"  # the name of the second metric
    # NumPy's losses of one example, in float64, of logits and labels; None: no data have this loss.
    compute: Callable | None = None
    # Keras's loss and metric, or similar ones: for callbacks
    make_keras: Callable = make_keras_classes
    teacher: str | None = None  # the name of the loss of the same output on a teacher's output
    output: str | None = None  # the output that learns, if the labels have another name

    def compute_mean(self, labels: Mapping, outputs: Mapping) -> float | None:
        """Return the mean in float64 over the outputs' examples, by name; None without labels."""
        assert self.compute is not None
        means = []
        for name, arrays in labels.items():
            losses = []
            for logits, array in zip(outputs[name], arrays, strict=True):
                loss = self.compute(np.asarray(logits, np.float64), array)
                losses.append(np.atleast_1d(loss))
            if any(loss.size for loss in losses):
                means.append(np.mean(np.concatenate(losses)))
        return float(np.mean(means)) if means else None


def make_loss(name: str, output: str | None = None, **options) -> Loss:
    """Return a loss of `LOSSES` with options, such as smoothing or temperature."""
    loss = LOSSES[name]
    compute = functools.partial(loss.sum_losses, **options) if options else loss.sum_losses
    return dataclasses.replace(loss, sum_losses=compute, output=output)


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
    label_logits = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)
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


def sum_binary_cross_entropy(logits, labels, weights):
    """Compute the sums of the sigmoid cross-entropy; labels (B, C): 1 for classes that hold."""
    logits = mask_logits(logits, weights)
    losses = ops.relu(logits) - logits * labels + ops.log1p(ops.exp(-ops.abs(logits)))
    hits = ops.equal(logits > 0, labels > 0.5)
    return weighted_sums(weights, losses, hits)


def sum_squared_error(logits, labels, weights):
    """Compute the sums of the squared and the absolute error; logits (B, 1), labels (B,)."""
    errors = _compute_errors(logits, labels, weights)
    return weighted_sums(weights, ops.square(errors), ops.abs(errors))


def _compute_errors(logits, labels, weights):
    """Return predicted numbers − labels; shapes as of `sum_squared_error`."""
    numbers = ops.squeeze(mask_logits(logits, weights), -1)
    return numbers - labels


def sum_absolute_error(logits, labels, weights):
    """Compute the sums of the absolute error, twice; shapes as of `sum_squared_error`."""
    errors = ops.abs(_compute_errors(logits, labels, weights))
    return weighted_sums(weights, errors, errors)


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


def weighted_sums(weights, losses, hits):
    """Return the sums that a loss returns, of losses and hits in the weights' shape."""
    hits = ops.cast(hits, "float32")
    weighted_losses = ops.sum(weights * losses)
    weighted_hits = ops.sum(weights * hits)
    return ops.stack([weighted_losses, weighted_hits, ops.sum(weights)])


def mask_logits(logits, weights):
    """Return logits in float32; 0 where the weight is, since they may be NaN there."""
    if len(weights.shape) < len(logits.shape):
        weights = ops.expand_dims(weights, -1)
    return ops.where(weights > 0, ops.cast(logits, "float32"), 0.0)


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


def sum_kl_divergence(logits, targets, weights, temperature: float = 1.0):
    """Compute the sums of KL(teacher ‖ student) at a temperature T, times T².

    `targets` are the teacher's logits (Hinton et al. 2015, section 2). The gradient shrinks as
    1/T²: times T² it is as large at any temperature.
    """
    logits = mask_logits(logits, weights)  # (B, C)
    targets = mask_logits(targets, weights)
    student = ops.log_softmax(logits / temperature, axis=-1)
    teacher = ops.log_softmax(targets / temperature, axis=-1)
    # the span head's padding: a probability of 0, whose logarithm is −∞ in bfloat16
    probs = ops.exp(teacher)
    terms = ops.where(probs > 0, probs * (teacher - student), 0.0)
    choice = ops.argmax(logits, axis=-1)
    agrees = ops.equal(choice, ops.argmax(targets, axis=-1))
    return weighted_sums(weights, temperature**2 * ops.sum(terms, -1), agrees)


def sum_binary_kl_divergence(logits, targets, weights, temperature: float = 1.0):
    """Compute the same where each class holds or not: sigmoid; weights (B, C)."""
    logits = mask_logits(logits, weights)
    targets = mask_logits(targets, weights)
    student = logits / temperature
    teacher = targets / temperature
    holds = _compare_sigmoids(student, teacher)
    holds_not = _compare_sigmoids(-student, -teacher)
    agrees = ops.equal(logits > 0, targets > 0)
    return weighted_sums(weights, temperature**2 * (holds + holds_not), agrees)


def _compare_sigmoids(student, teacher):
    """Return the teacher's probability times the difference of the logarithms of both."""
    difference = ops.log_sigmoid(teacher) - ops.log_sigmoid(student)
    return ops.sigmoid(teacher) * difference


def sum_state_errors(states, targets, weights):
    """Compute the sums of the squared error of states (B, S, H) (TinyBERT, equation 8)."""
    states = mask_logits(states, weights)
    targets = mask_logits(targets, weights)
    errors = ops.mean(ops.square(states - targets), -1)  # (B, S)
    return weighted_sums(weights, errors, _cosines(states, targets))


def sum_state_cosines(states, targets, weights):
    """Compute the sums of 1 − cosine of hidden states (DistilBERT, Sanh et al. 2019, section 2)."""
    states = mask_logits(states, weights)
    targets = mask_logits(targets, weights)
    cosines = _cosines(states, targets)
    return weighted_sums(weights, 1 - cosines, cosines)


def _cosines(states, targets):
    squared_length = ops.sum(ops.square(states), -1) + _EPSILON
    target_squared_length = ops.sum(ops.square(targets), -1) + _EPSILON
    return ops.sum(states * targets, -1) / ops.sqrt(squared_length * target_squared_length)


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


LOSSES = {
    loss.name: loss
    for loss in (
        Loss(
            "cross_entropy",
            sum_cross_entropy,
            compute=compute_cross_entropy,
            teacher="kl_divergence",
        ),
        Loss(
            "binary_cross_entropy",
            sum_binary_cross_entropy,
            compute=lambda logits, labels: np.logaddexp(0.0, logits) - logits * labels,
            make_keras=make_keras_flags,
            teacher="binary_kl_divergence",
        ),
        Loss(
            "squared_error",
            sum_squared_error,
            metric="absolute_error",
            compute=lambda logits, labels: (logits - labels) ** 2,
            make_keras=make_keras_numbers,
            teacher="squared_error",
        ),
        Loss(
            "absolute_error",
            sum_absolute_error,
            metric="absolute_error",
            compute=lambda logits, labels: np.abs(logits - labels),
            make_keras=make_keras_numbers,
            teacher="squared_error",
        ),
        Loss(
            "huber",
            sum_huber,
            metric="absolute_error",
            compute=compute_huber,
            make_keras=make_keras_numbers,
            teacher="squared_error",
        ),
        # of a teacher's outputs
        Loss("kl_divergence", sum_kl_divergence, "agreement"),
        Loss("binary_kl_divergence", sum_binary_kl_divergence, "agreement"),
        Loss("mse", sum_state_errors, "cosine"),
        Loss("cosine", sum_state_cosines, "cosine"),
    )
}
