"""Classification, with one label or several, and regression, of texts or of pairs of them."""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kbert.data.labelled.cells import number_label
from kbert.data.labelled.data_warnings import list_labels, warn_of_missing_labels
from kbert.data.labelled.length_buckets import Examples
from kbert.data.labelled.table_reading import read_table
from kbert.graph.names import CLASSIFIER
from kbert.io.wording import data_of, first_few, name_setting
from kbert.tasks.classification.predictions import (
    describe_classes,
    describe_label_sets,
    describe_numbers,
)
from kbert.tasks.classification.reading import Labelled
from kbert.tasks.classification.tables import CLASSES, LABEL_SETS, NUMBERS
from kbert.tasks.common import metrics
from kbert.tasks.common.encoding import encode_in_portions
from kbert.tasks.common.intervals import Scores
from kbert.tasks.finetuning.data_summary import describe_one_class, summarize_numbers
from kbert.tasks.finetuning.dev_predictions import find_majority, find_mean_baseline
from kbert.tasks.finetuning.task import Task
from kbert.training.run.predictions import Baseline, Predictions


class Classification(Task):
    """One label per text: a text, a whole number or a truth value."""

    name, head, score = "classify", "classifier", "accuracy"
    title, has_classes = "a classifier", True
    problem_type = "single_label_classification"
    takes_label_columns = takes_sample_weights = True
    read = staticmethod(functools.partial(read_table, CLASSES))

    def labels(self, records: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the labels of the training data, see `sort_labels`; two or more."""
        names = [record.label for record in records]
        labels = list_labels(names, records[0].location)
        return sort_labels(labels, getattr(records, "labels", None))

    def check_labels(self, records: Sequence[Labelled], labels: Sequence[str]) -> None:
        number_labels(records, labels)

    def encode(self, records, tokenizer, labels, max_length: int) -> Examples:
        numbers = [number for (number,) in number_labels(records, labels)]
        return encode_texts(records, tokenizer, max_length, numbers)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """accuracy, matthews, and f1: of the positive label if there is one, else the mean."""
        gold = np.array(examples.labels[CLASSIFIER])
        best = [int(logits.argmax()) for logits in outputs[CLASSIFIER]]
        predicted = np.array(best)
        positive = self.find_positive(labels)
        f1 = metrics.macro_f1
        if positive is not None:
            index = labels.index(positive)
            f1 = functools.partial(metrics.f1, positive=index)

        def compute(gold, predicted, counts):
            return {
                "accuracy": metrics.accuracy(gold, predicted, counts),
                "f1": f1(gold, predicted, counts=counts),
                "matthews": metrics.matthews(gold, predicted, counts),
            }

        # the confusion matrix, where it is not 0: resampled much faster than single texts
        size = len(labels)
        cells, counts = np.unique(gold * size + predicted, return_counts=True)
        pairs = np.divmod(cells, size)
        expected = [labels[n] for n in gold]
        answers = [labels[n] for n in predicted]
        warning = describe_one_class(expected, answers, "examples")
        return Scores(pairs, compute, counts, warning)

    def find_positive(self, labels: Sequence[str]) -> str | None:
        """Return the label that f1 is of; None: it is the mean of all labels' F1.

        Raise a ValueError for a chosen one that the model does not have.
        """
        if self.positive_label is None:
            return labels[1] if len(labels) == 2 else None
        if self.positive_label not in labels:
            raise ValueError(
                f"positive_label must be one of the model's labels, {first_few(labels, 10)}, got "
                f"{self.positive_label!r}"
            )
        return self.positive_label

    def describe_metrics(self, labels: Sequence[str] | None) -> str:
        positive = self.find_positive(labels or ())
        if positive is None:  # as everywhere, where there are more than two labels
            return ""
        way = "" if self.positive_label else f"; {name_setting('positive_label')} chooses another"
        return f"f1 is that of the label {positive!r}{way}"

    def count_labels(self, records: Sequence[Labelled]) -> dict[str, Any]:
        return {"labels": Counter(record.label for record in records)}

    def find_baseline(self, train: Sequence[Labelled], dev: Sequence[Labelled]) -> Baseline:
        known = [record.label for record in train]
        right = [record.label for record in dev]
        return find_majority(known, right, "label")

    def describe_predictions(self, records, examples: Examples, outputs, labels) -> Predictions:
        gold = np.array(examples.labels[CLASSIFIER])
        logits = np.stack(outputs[CLASSIFIER])
        return describe_classes(records, gold, logits, labels)


class Regression(Task):
    """A number for each text or pair of texts, as GLUE's STS-B has it."""

    name, head, score = "regress", "classifier", "spearman"
    title, problem_type = "a regression", "regression"
    loss = "squared_error"
    losses = ("squared_error", "absolute_error", "huber")
    takes_sample_weights = True
    read = staticmethod(functools.partial(read_table, NUMBERS))

    def labels(self, records: Sequence[Labelled]) -> tuple[str, ...]:
        return ("score",)

    def count_labels(self, records: Sequence[Labelled]) -> dict[str, Any]:
        return {"numbers": summarize_numbers([record.label for record in records])}

    def encode(self, records, tokenizer, labels, max_length: int) -> Examples:
        if len(labels) != 1:
            raise ValueError(
                f"regress needs a model with one output, got {len(labels)}: {', '.join(labels)}"
            )
        numbers = [record.label for record in records]
        return encode_texts(records, tokenizer, max_length, numbers)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """pearson, spearman, and the mean squared error."""
        gold = np.array(examples.labels[CLASSIFIER], np.float64)
        numbers = [float(output[0]) for output in outputs[CLASSIFIER]]
        predicted = np.array(numbers)
        metrics.warn_of_constant(labels=gold, predictions=predicted)

        def compute(gold, predicted):
            return {
                "pearson": metrics.pearson(gold, predicted),
                "spearman": metrics.spearman(gold, predicted),
                "mse": float(np.mean((gold - predicted) ** 2)),
            }

        return Scores((gold, predicted), compute)

    def find_baseline(self, train: Sequence[Labelled], dev: Sequence[Labelled]) -> Baseline:
        known = [record.label for record in train]
        right = [record.label for record in dev]
        return find_mean_baseline(known, right)

    def describe_predictions(self, records, examples: Examples, outputs, labels) -> Predictions:
        gold = np.array(examples.labels[CLASSIFIER], np.float64)
        predicted = np.stack(outputs[CLASSIFIER])[:, 0]
        return describe_numbers(records, gold, predicted)


class MultiLabel(Task):
    """Any number of labels per text, or none: a list, or between commas."""

    name, head, score = "multilabel", "classifier", "f1"
    title = "a classifier of several labels"
    problem_type, loss = "multi_label_classification", "binary_cross_entropy"
    takes_label_columns = takes_sample_weights = True
    read = staticmethod(functools.partial(read_table, LABEL_SETS))

    def labels(self, records: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the data's own labels, else in order; raise a ValueError if no text has one."""
        labels = set(_iterate_labels(records))
        warn_of_missing_labels(",".join(record.label) or "no label" for record in records)
        if not labels:
            raise ValueError(f"{data_of(records[0].location)} must have labels, got none at all")
        return sort_labels(labels, getattr(records, "labels", None))

    def check_labels(self, records: Sequence[Labelled], labels: Sequence[str]) -> None:
        number_labels(records, labels)

    def encode(self, records, tokenizer, labels, max_length: int) -> Examples:
        """Return labels as float32 (labels,), 0 or 1, each."""
        shape = len(records), len(labels)
        targets = np.zeros(shape, np.float32)
        for target, numbers in zip(targets, number_labels(records, labels), strict=True):
            target[numbers] = 1.0
        return encode_texts(records, tokenizer, max_length, list(targets))

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """accuracy: of texts whose labels are all right; f1: of all together; the labels' means."""
        gold = np.stack(examples.labels[CLASSIFIER]) > 0.5
        logits = np.stack(outputs[CLASSIFIER])

        def compute(gold, logits):
            predicted = logits > 0
            return {
                "accuracy": float((gold == predicted).all(1).mean()),
                "f1": metrics.micro_f1(gold, predicted),
                "macro_f1": metrics.mean_f1(gold, predicted),
                "map": metrics.mean_average_precision(gold, logits),
            }

        warning = ""
        predicted = logits > 0
        if (predicted == predicted[0]).all():
            expected = [_name_labels(labels, row) for row in gold]
            answers = [_name_labels(labels, row) for row in predicted]
            warning = describe_one_class(expected, answers, "examples", "sets of labels")
        return Scores((gold, logits), compute, warning=warning)

    def count_labels(self, records: Sequence[Labelled]) -> dict[str, Any]:
        return {
            "labels": Counter(_iterate_labels(records)),
            "without_a_label": sum(not record.label for record in records),
        }

    def find_baseline(self, train: Sequence[Labelled], dev: Sequence[Labelled]) -> Baseline:
        """Return that of the most frequent set of labels."""
        known = [_join_labels(record) for record in train]
        right = [_join_labels(record) for record in dev]
        return find_majority(known, right, "set of labels")

    def describe_predictions(self, records, examples: Examples, outputs, labels) -> Predictions:
        gold = np.stack(examples.labels[CLASSIFIER]) > 0.5
        return describe_label_sets(records, gold, np.stack(outputs[CLASSIFIER]), labels)


def _iterate_labels(records: Sequence[Labelled]) -> Iterator[str]:
    """Yield the labels of records that have several each."""
    for record in records:
        yield from record.label


def _join_labels(record: Labelled) -> str:
    return ", ".join(sorted(record.label)) or "no label"


def _name_labels(labels: Sequence[str], holds: np.ndarray) -> str:
    """Return the labels that hold, between commas."""
    names = [label for label, does_hold in zip(labels, holds, strict=True) if does_hold]
    return ", ".join(names) or "no label"


def sort_labels(labels: set[str], class_names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the data's class names if they have all labels, else the labels in order.

    Whole numbers are sorted by value, other labels as text.
    """
    if labels <= set(class_names or ()):
        return tuple(class_names or ())
    are_numbers = all(label.isdecimal() and label.isascii() for label in labels)
    if are_numbers:
        return tuple(sorted(labels, key=int))
    return tuple(sorted(labels))


def number_labels(records: Sequence[Labelled], labels: Sequence[str]) -> list[list[int]]:
    """Return the indices of each record's labels in `labels`, which must have them."""
    ids = {label: number for number, label in enumerate(labels)}
    numbers = []
    for record in records:
        names = (record.label,) if isinstance(record.label, str) else record.label
        numbers.append([number_label(name, ids, record.location) for name in names])
    return numbers


def encode_texts(
    records: Sequence[Labelled], tokenizer, max_length: int, labels: Sequence
) -> Examples:
    """Encode the texts of records, all pairs or none; a warning counts the truncated ones."""
    texts = [record.text for record in records]
    pairs = [record.pair for record in records if record.pair is not None]
    if 0 < len(pairs) < len(records):
        raise ValueError(
            "records must all be pairs of texts, or none, got both: leave one of the two kinds out"
        )

    source = data_of(records[0].location)
    ids, segments = encode_in_portions(texts, pairs or None, tokenizer, max_length, source)
    weights = list_weights(records)
    return Examples(ids, segments, {CLASSIFIER: labels}, weights=weights)


def list_weights(records: Sequence[Labelled]) -> list[float]:
    """Return the weights of records; []: all weigh the same."""
    weights = [record.weight for record in records]
    if set(weights) == {1.0}:
        return []
    if not any(weights):
        raise ValueError(f"{data_of(records[0].location)} must have weights above 0, got only 0")
    return weights


TASK, REGRESSION, MULTI_LABEL = Classification(), Regression(), MultiLabel()
