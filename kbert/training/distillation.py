"""Losses of distillation: a student's losses on its teacher's outputs, as `loss.measured` sums.

Dimensions at line end: B examples (and tokens, where each has a label), C classes, S tokens, H
hidden size.
"""

import functools
from collections.abc import Callable

from keras import ops

from kbert.training.loss import counted, measured, weighted_sums

_LEAST = 1e-12  # beside squared lengths, as in torch's cosine embedding loss


def of_logits(problem_type: str | None, temperature: float) -> Callable:
    """Return a function like `loss.measured`, of a student's logits, a teacher's and weights.

    `problem_type` is as in transformers' config.json; None: classes, one of all. The logits of
    classes are divided by the temperature; numbers have none.
    """
    if problem_type == "regression":
        return measured
    of = _of_each if problem_type == "multi_label_classification" else _of_classes
    return functools.partial(of, temperature=temperature)


def of_states(kind: str) -> Callable:
    """Return how far hidden states are from a teacher's, float (B, S, H), with weights (B, S).

    Args:
        kind: "mse": the mean over H of the squared error (TinyBERT, Jiao et al. 2020, equation 8);
            "cosine": 1 − the cosine (DistilBERT, Sanh et al. 2019, section 2).
    """
    return {"mse": _squared_error, "cosine": _angle}[kind]


def _of_classes(logits, taught, weights, temperature: float):
    """KL(teacher ‖ student) at a temperature T, times T² (Hinton et al. 2015, section 2).

    The gradient of the softened loss shrinks as 1/T²: times T² it is as large at any temperature.
    """
    logits, taught = counted(logits, weights), counted(taught, weights)  # (B, C)
    student, teacher = (ops.log_softmax(row / temperature, axis=-1) for row in (logits, taught))
    # the span head's padding: a probability of 0, whose logarithm is −∞ in bfloat16
    shares = ops.exp(teacher)
    terms = ops.where(shares > 0, shares * (teacher - student), 0.0)
    agreed = ops.equal(ops.argmax(logits, axis=-1), ops.argmax(taught, axis=-1))
    return weighted_sums(weights, temperature**2 * ops.sum(terms, -1), agreed)


def _of_each(logits, taught, weights, temperature: float):
    """Return the same where each class is one of two: sigmoid; weights (B, C)."""
    logits, taught = counted(logits, weights), counted(taught, weights)
    soft = [(sign * taught / temperature, sign * logits / temperature) for sign in (1.0, -1.0)]
    terms = [ops.sigmoid(t) * (ops.log_sigmoid(t) - ops.log_sigmoid(s)) for t, s in soft]
    agreed = ops.equal(logits > 0, taught > 0)
    return weighted_sums(weights, temperature**2 * (terms[0] + terms[1]), agreed)


def _squared_error(states, taught, weights):
    states, taught = counted(states, weights), counted(taught, weights)
    errors = ops.mean(ops.square(states - taught), -1)  # (B, S)
    return weighted_sums(weights, errors, _cosines(states, taught))


def _angle(states, taught, weights):
    cosines = _cosines(counted(states, weights), counted(taught, weights))
    return weighted_sums(weights, 1 - cosines, cosines)


def _cosines(states, taught):
    lengths = [ops.sum(ops.square(rows), -1) + _LEAST for rows in (states, taught)]
    return ops.sum(states * taught, -1) / ops.sqrt(lengths[0] * lengths[1])
