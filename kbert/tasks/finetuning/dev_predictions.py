"""Dev predictions for a run's page, of the arrays that a task has: tables, and worst examples."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kbert.tasks.common import metrics
from kbert.training.run.predictions import (
    MOST_EXAMPLES,
    MOST_LABELS,
    MOST_POINTS,
    AnswerProb,
    Baseline,
    PredictedExample,
    TextPiece,
    score_labels,
)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the logarithms of the probabilities over the last axis, float64."""
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    total = np.exp(shifted).sum(-1, keepdims=True)
    return shifted - np.log(total)


def count_confusions(gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> dict:
    """Return the fields of `Predictions` of classes, int (N,): a matrix, and each label's scores.

    There is no matrix of too many labels.
    """
    size = len(labels)
    right = gold[gold == predicted]
    counts_of_columns = []
    for numbers in (right, gold, predicted):
        counts_of_columns.append(np.bincount(numbers, minlength=size))
    counts = np.stack(counts_of_columns, 1)
    fields: dict = {"label_scores": score_labels(labels, counts.tolist())}

    if size <= MOST_LABELS:
        pairs = gold * size + predicted
        pair_counts = np.bincount(pairs, minlength=size * size)
        matrix = pair_counts.reshape(size, size)
        fields["labels"] = tuple(labels)
        fields["matrix"] = matrix.tolist()
    return fields


def count_label_sets(gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> dict:
    """Return the fields of `Predictions` of several labels per text, both bool (N, labels)."""
    correct = (gold & predicted).sum(0)
    columns = [correct, gold.sum(0), predicted.sum(0)]
    counts = np.stack(columns, 1).tolist()
    return {"label_scores": score_labels(labels, counts)}


def pick_worst(errors: np.ndarray, count: int = MOST_EXAMPLES) -> list[int]:
    """Return the indices of the largest errors, the largest first; of equals the first."""
    comparable = np.nan_to_num(errors, nan=np.inf)
    order = np.argsort(-comparable, kind="stable")
    return order[:count].tolist()


def pick_points(gold: np.ndarray, predicted: np.ndarray) -> list[tuple[float, float]]:
    """Return pairs of numbers, evenly chosen of many."""
    every = max(1, -(-len(gold) // MOST_POINTS))
    gold = gold[::every].tolist()
    predicted = predicted[::every].tolist()
    return list(zip(gold, predicted, strict=True))


def make_example(
    record, gold: tuple, predicted: tuple, error: float, is_wrong: bool
) -> PredictedExample:
    """Return the example of a record with a text and perhaps a second one."""
    texts = [record.text]
    if record.pair is not None:
        texts.append(record.pair)
    pieces = tuple((TextPiece(text),) for text in texts)
    return PredictedExample(record.location, pieces, gold, predicted, float(error), is_wrong)


def name_classes(probs: np.ndarray, number: int, labels: Sequence[str]) -> tuple[AnswerProb, ...]:
    """Return a class as the one answer, with its probability."""
    return (AnswerProb(labels[number], float(probs[number])),)


def find_majority(train: Sequence[str], dev: Sequence[str], what: str) -> Baseline:
    """Return the accuracy, on the dev data, of the most frequent label of the training data."""
    most_frequent = find_most_frequent(train)
    right = sum(label == most_frequent for label in dev)
    text = f"always “{most_frequent}”, the most frequent {what} of the training data"
    return Baseline("accuracy", right / len(dev), text)


def find_most_frequent(labels: Sequence) -> str:
    """Return the most frequent of labels; of equals the first in order."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def find_mean_baseline(train: Sequence[float], dev: Sequence[float]) -> Baseline:
    """Return the mean squared error, on the dev data, of the mean of the training data."""
    mean = float(np.mean(train))
    differences = np.asarray(dev, np.float64) - mean
    error = float(np.mean(differences**2))
    return Baseline("mse", error, f"always {mean:.4g}, the mean of the training data")


def count_entity_types(gold: Sequence, predicted: Sequence) -> dict:
    """Return the fields of `Predictions` of tags of entities, a list of each sentence's tags."""
    counts: dict[str, list[int]] = {}
    for expected, answers in zip(gold, predicted, strict=True):
        right, answered = metrics.entities(expected), metrics.entities(answers)
        for column, entities in enumerate((right & answered, right, answered)):
            for kind, *_ in entities:
                counts.setdefault(kind, [0, 0, 0])[column] += 1

    names, values = [], []
    for kind in sorted(counts):
        names.append(kind or "entity")
        values.append(counts[kind])
    return {"label_scores": score_labels(names, values), "scored": "type of entity"}
