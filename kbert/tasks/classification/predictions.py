"""Predictions of classes, numbers and sets of labels for the dev data, for a run's page."""

from collections.abc import Sequence

import numpy as np

from kbert.tasks.classification.reading import Labelled
from kbert.tasks.finetuning.dev_predictions import (
    count_confusions,
    count_label_sets,
    log_softmax,
    make_example,
    name_classes,
    pick_points,
    pick_worst,
)
from kbert.training.run.predictions import AnswerProb, Predictions

_MOST_NAMED = 5  # labels of an example's prediction


def describe_classes(
    records: Sequence[Labelled], gold: np.ndarray, logits: np.ndarray, labels: Sequence[str]
) -> Predictions:
    """Describe the predictions of one label per text; `gold` is int (N,), `logits` (N, labels)."""
    log_probs = log_softmax(logits)
    losses = -log_probs[np.arange(len(gold)), gold]
    predicted = log_probs.argmax(-1)

    examples = []
    for number in pick_worst(losses):
        probs = np.exp(log_probs[number])
        right = name_classes(probs, gold[number], labels)
        answer = name_classes(probs, predicted[number], labels)
        is_wrong = bool(gold[number] != predicted[number])
        example = make_example(records[number], right, answer, losses[number], is_wrong)
        examples.append(example)

    counts = count_confusions(gold, predicted, labels)
    return Predictions(len(gold), examples=examples, **counts)


def describe_numbers(
    records: Sequence[Labelled], gold: np.ndarray, predicted: np.ndarray
) -> Predictions:
    """Describe predicted numbers, float (N,) each."""
    errors = np.abs(gold - predicted)
    examples = []
    for number in pick_worst(errors):
        right = (AnswerProb(f"{gold[number]:.4g}"),)
        answer = (AnswerProb(f"{predicted[number]:.4g}"),)
        example = make_example(records[number], right, answer, errors[number], True)
        examples.append(example)

    points = pick_points(gold, predicted)
    return Predictions(len(gold), points=points, examples=examples, error="absolute error")


def describe_label_sets(
    records: Sequence[Labelled], gold: np.ndarray, logits: np.ndarray, labels: Sequence[str]
) -> Predictions:
    """Describe the predictions of several labels per text; bool and float (N, labels)."""
    logits = np.asarray(logits, np.float64)
    signed = np.where(gold, -logits, logits)
    cross_entropy = np.logaddexp(0.0, signed)
    losses = cross_entropy.mean(1)
    predicted = logits > 0

    examples = []
    for number in pick_worst(losses):
        right = gold[number]
        answer = predicted[number]
        probs = 1 / (1 + np.exp(-logits[number]))
        example = make_example(
            records[number],
            _name_labels(labels, right, probs),
            _name_labels(labels, answer, probs),
            losses[number],
            bool((right != answer).any()),
        )
        examples.append(example)

    counts = count_label_sets(gold, predicted, labels)
    return Predictions(len(gold), examples=examples, **counts)


def _name_labels(labels: Sequence[str], holds: np.ndarray, probs: np.ndarray) -> tuple:
    """Return the labels that hold, each with its probability."""
    numbers = np.flatnonzero(holds).tolist()
    if not numbers:
        return (AnswerProb("no label"),)

    answers = []
    for number in numbers[:_MOST_NAMED]:
        answers.append(AnswerProb(labels[number], float(probs[number])))
    if len(numbers) > _MOST_NAMED:
        answers.append(AnswerProb(f"{len(numbers) - _MOST_NAMED} more"))
    return tuple(answers)
