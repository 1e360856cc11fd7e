"""The training objective: the sum of weight × loss over every label of every output.

The kind of label decides the loss: the number of a class has softmax cross-entropy, a number has
the squared error, a row of zeros and ones has sigmoid cross-entropy. Distillation adds losses on a
teacher's outputs.

Dimensions at line end: B examples (and tokens, where each has a label), C classes, S tokens, H
hidden size.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from keras import backend, ops

from kbert import ops as kops
from kbert.graph import names as layers

_EPSILON = 1e-12  # of squared lengths, as in torch's cosine embedding loss


class AuxiliaryLoss(NamedTuple):
    """An auxiliary loss of an output, such as that of a teacher."""

    output: str  # the output that learns
    sum_losses: Callable  # like `sum_losses`, of its logits, the targets and the weights


def sum_losses(logits, labels, weights, smoothing: float = 0.0):
    """Compute the sums that an output's loss and accuracy are made of, in float32.

    Args:
        logits: float (…, classes), in any precision.
        labels: int32 (…), class ids; or float32 (B,), numbers, for (B, 1) logits; or float32 (B,
            classes), 1 for the classes that hold, else 0.
        weights: float32 in the labels' shape: the weight of each label; 0: padding.
        smoothing: label smoothing, the fraction of a class's label that is spread over all classes
            equally (Szegedy et al. 2016, section 7); only for class ids.

    Returns:
        float32 (3,): Σ weight × loss; Σ weight × (the label is predicted), or for numbers Σ weight
        × absolute error; Σ weight.
    """
    if is_class(labels):
        return _sum_class_losses(logits, labels, weights, smoothing)
    logits = mask_logits(logits, weights)
    if len(labels.shape) > 1:
        losses = ops.relu(logits) - logits * labels + ops.log1p(ops.exp(-ops.abs(logits)))
        return weighted_sums(weights, losses, ops.equal(logits > 0, labels > 0.5))
    errors = ops.squeeze(logits, -1) - labels
    return weighted_sums(weights, ops.square(errors), ops.abs(errors))


def weighted_sums(weights, losses, hits):
    """Return the sums that `sum_losses` returns, of losses and hits in the weights' shape."""
    hits = ops.cast(hits, "float32")
    return ops.stack([ops.sum(weights * losses), ops.sum(weights * hits), ops.sum(weights)])


def mask_logits(logits, weights):
    """Return logits in float32; 0 where the weight is, since they may be NaN there."""
    if len(weights.shape) < len(logits.shape):
        weights = ops.expand_dims(weights, -1)
    return ops.where(weights > 0, ops.cast(logits, "float32"), 0.0)


def is_class(labels) -> bool:
    """Return whether labels, an array of any backend, are numbers of classes."""
    return "int" in backend.standardize_dtype(labels.dtype)


def name_second_metrics(labels: Mapping, axes: int = 1) -> dict[str, str]:
    """Return the name of the metric in the second of `sum_losses`'s sums, by output.

    "accuracy" or "absolute_error"; for a teacher's outputs "agreement", for its hidden states
    "cosine". `axes` come before a label's own: 2 if micro-batches come before the examples.
    """

    def name_metric(output: str, array) -> str:
        if output.startswith(layers.teacher_output("Hidden")):
            return "cosine"
        if not is_class(array) and len(array.shape) <= axes:
            return "absolute_error"
        return "agreement" if output.startswith(layers.TEACHER) else "accuracy"

    return {output: name_metric(output, array) for output, array in labels.items()}


def _sum_class_losses(logits, labels, weights, smoothing: float):
    """Return the sums of the softmax cross-entropy; see `sum_losses`."""
    sums = kops.cross_entropy(logits, labels, weights)
    if not smoothing:
        return sums
    # cross-entropy of (1 − s) · label + s · uniform: + s · (the label's logit − the mean logit)
    logits = mask_logits(logits, weights)
    own = ops.squeeze(ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1), -1)
    more = smoothing * ops.sum(weights * (own - ops.mean(logits, -1)))
    return sums + ops.stack([more, ops.zeros_like(more), ops.zeros_like(more)])


def objective(
    outputs: Mapping,
    labels: Mapping,
    weights: Mapping,
    sum_losses=sum_losses,
    auxiliary_losses: Mapping[str, AuxiliaryLoss] = MappingProxyType({}),
):
    """Return the loss of some examples, a scalar, and `sum_losses` of each output, (outputs, 3).

    `auxiliary_losses` are those of the labels that are no output's own, by their name.
    """
    each = []
    for name, array in labels.items():
        loss = auxiliary_losses.get(name, AuxiliaryLoss(name, sum_losses))
        each.append(loss.sum_losses(outputs[loss.output], array, weights[name]))
    sums = ops.stack(each)
    return ops.sum(sums[:, 0]), sums


def compute_metrics(names: Mapping[str, str], sums) -> dict:
    """Turn `sum_losses`'s sums, (outputs, 3), into metrics such as "loss" and "MLM_accuracy".

    An output's metrics are 0 if none of its labels counts. `names`: see `totals`.
    """
    each = totals(names, sums).items()
    means = {name: value / ops.maximum(weight, 1e-30) for name, (value, weight) in each}
    return {"loss": ops.sum(sums[:, 0])} | means


def totals(names: Mapping[str, str], sums) -> dict[str, tuple]:
    """Return Σ weight × metric and Σ weight, which add up over batches, by name ("MLM_loss", …).

    `names` are `name_second_metrics` of the labels, `sums` those of `sum_losses`, (outputs, 3).
    """
    metrics: dict[str, tuple] = {}
    for index, (name, second) in enumerate(names.items()):
        loss, hits, weight = sums[index, 0], sums[index, 1], sums[index, 2]
        metrics |= {f"{name}_loss": (loss, weight), f"{name}_{second}": (hits, weight)}
    return metrics


def distill_logits(problem_type: str | None, temperature: float) -> Callable:
    """Return a function like `sum_losses`, of a student's logits, a teacher's and weights.

    `problem_type` is as in transformers' config.json; None: classes, one of all. The logits of
    classes are divided by the temperature; numbers have none.
    """
    if problem_type == "regression":
        return sum_losses
    soften = _soften_each if problem_type == "multi_label_classification" else _soften_classes
    return functools.partial(soften, temperature=temperature)


def distill_states(kind: str) -> Callable:
    """Return a function like `sum_losses`, of hidden states, a teacher's, (B, S, H), and weights.

    "mse" is the mean over H of the squared error (TinyBERT, Jiao et al. 2020, equation 8), "cosine"
    is 1 − the cosine (DistilBERT, Sanh et al. 2019, section 2).
    """
    return {"mse": _squared_error, "cosine": _angle}[kind]


def _soften_classes(logits, targets, weights, temperature: float):
    """KL(teacher ‖ student) at a temperature T, times T² (Hinton et al. 2015, section 2).

    The gradient of the softened loss shrinks as 1/T²: times T² it is as large at any temperature.
    """
    logits, targets = mask_logits(logits, weights), mask_logits(targets, weights)  # (B, C)
    student, teacher = (ops.log_softmax(one / temperature, axis=-1) for one in (logits, targets))
    # the span head's padding: a probability of 0, whose logarithm is −∞ in bfloat16
    probs = ops.exp(teacher)
    terms = ops.where(probs > 0, probs * (teacher - student), 0.0)
    agrees = ops.equal(ops.argmax(logits, axis=-1), ops.argmax(targets, axis=-1))
    return weighted_sums(weights, temperature**2 * ops.sum(terms, -1), agrees)


def _soften_each(logits, targets, weights, temperature: float):
    """Return the same where each class is one of two: sigmoid; weights (B, C)."""
    logits, targets = mask_logits(logits, weights), mask_logits(targets, weights)
    soft = [(sign * targets / temperature, sign * logits / temperature) for sign in (1.0, -1.0)]
    terms = [ops.sigmoid(t) * (ops.log_sigmoid(t) - ops.log_sigmoid(s)) for t, s in soft]
    agrees = ops.equal(logits > 0, targets > 0)
    return weighted_sums(weights, temperature**2 * (terms[0] + terms[1]), agrees)


def _squared_error(states, targets, weights):
    states, targets = mask_logits(states, weights), mask_logits(targets, weights)
    errors = ops.mean(ops.square(states - targets), -1)  # (B, S)
    return weighted_sums(weights, errors, _cosines(states, targets))


def _angle(states, targets, weights):
    cosines = _cosines(mask_logits(states, weights), mask_logits(targets, weights))
    return weighted_sums(weights, 1 - cosines, cosines)


def _cosines(states, targets):
    lengths = [ops.sum(ops.square(one), -1) + _EPSILON for one in (states, targets)]
    return ops.sum(states * targets, -1) / ops.sqrt(lengths[0] * lengths[1])
