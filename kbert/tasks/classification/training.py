"""Classification, with one label or several, and regression, of texts or of pairs of them."""

import functools
import logging
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbert.data.labelled.columns import WAY_TO_NAME_LABELS
from kbert.data.labelled.data_warnings import list_labels, warn_of_missing_labels
from kbert.data.labelled.in_memory import LabelledRecords, label_of
from kbert.data.labelled.length_buckets import Examples
from kbert.data.labelled.text_lines import Row
from kbert.graph.names import CLASSIFIER
from kbert.io.wording import data_of, first_few
from kbert.tasks import metrics
from kbert.tasks.classification.label_cells import Cell, split_text
from kbert.tasks.classification.label_sets import LabelNames, read_label_sets
from kbert.tasks.classification.reading import (
    Labelled,
    LabelledTask,
    encode_texts,
    number_labels,
    sort_labels,
)
from kbert.tasks.finetuning.data_summary import describe_one_class, summarize_numbers
from kbert.tasks.intervals import Scores
from kbert.tasks.table_task import Columns, parse_number, split_number

_FEW = 10  # examples: so few may have a label of their own each
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_WHOLE = re.compile(r"-?\d+(\.0+)?")

_logger = logging.getLogger("kbert")


class Classification(LabelledTask):
    """One label per text: a text, a whole number or a truth value."""

    name, head, score = "classify", "classifier", "accuracy"
    title, has_classes = "a classifier", True
    problem_type = "single_label_classification"
    takes_label_columns = True

    def parse_label(self, value, column: str, location: str, class_names) -> str:
        if isinstance(value, list):
            raise ValueError(
                f'{location}: "{column}" must be a text or a whole number, got {value!r:.60}. If '
                "a text may have several labels, take the task multilabel. If it has one label, "
                "give its name or number, or a column of 0 and 1 for each label: label_columns"
            )
        return super().parse_label(value, column, location, class_names)

    def join_labels(self, labels: Sequence[str], location: str) -> str:
        if len(labels) != 1:
            got = ", ".join(labels) or "none"
            raise ValueError(
                f"{location}: one of the label columns must be 1, got {got}: for several labels, "
                "or none, take the task multilabel"
            )
        return labels[0]

    def finish_records(self, records, names, columns, known) -> LabelledRecords:
        """Name whole numbers that a program wrote as 1.0 like others, 1, unless a model knows 1.0.

        A column of numbers with holes in it is of floats. If there are numbers such as 1.5 too, all
        are left as they are.
        """
        records = super().finish_records(records, names, columns, known)
        labels = {record.label for record in records if isinstance(record.label, str)}
        numbers = {label for label in labels if _NUMBER.fullmatch(label)}
        whole = {label for label in numbers if _WHOLE.fullmatch(label)}
        if records.labels or whole != numbers:
            return records

        for index, record in enumerate(records):
            if record.label in whole and record.label not in known:
                records[index] = record._replace(label=record.label.partition(".")[0])
        return records

    def check_records(self, records, names, columns: Columns, options, way: str) -> None:
        if not columns.labels:
            labels = [record.label for record in records]
            check_repeated_labels(records, labels, names, columns, options, way)

    def labels(self, records: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the labels of the training data, see `sort_labels`; two or more."""
        labels = list_labels([record.label for record in records], records[0].location)
        return sort_labels(labels, getattr(records, "labels", None))

    def encode(self, records, tokenizer, labels, max_length: int) -> Examples:
        numbers = [number for (number,) in number_labels(records, labels)]
        return encode_texts(records, tokenizer, max_length, numbers)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """accuracy, matthews, and f1: of the positive label if there is one, else the mean."""
        gold = np.array(examples.labels[CLASSIFIER])
        predicted = np.array([int(row.argmax()) for row in outputs[CLASSIFIER]])
        positive = self.find_positive(labels)
        f1 = metrics.macro_f1
        if positive is not None:
            f1 = functools.partial(metrics.f1, positive=labels.index(positive))

        def compute(gold, predicted, counts):
            return {
                "accuracy": metrics.accuracy(gold, predicted, counts),
                "f1": f1(gold, predicted, counts=counts),
                "matthews": metrics.matthews(gold, predicted, counts),
            }

        # the confusion matrix, where it is not 0: resampled much faster than single texts
        cells, counts = np.unique(gold * len(labels) + predicted, return_counts=True)
        pairs = np.divmod(cells, len(labels))
        expected, answers = ([labels[n] for n in numbers] for numbers in (gold, predicted))
        return Scores(pairs, compute, counts, describe_one_class(expected, answers, "examples"))

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
        way = "" if self.positive_label else "; --positive-label (positive_label=) chooses another"
        return f"f1 is that of the label {positive!r}{way}"

    def count_labels(self, records: Sequence[Labelled]) -> dict[str, Any]:
        return {"labels": Counter(record.label for record in records)}


def check_repeated_labels(
    records: LabelledRecords, labels: Sequence[str], names, columns: Columns, options, way: str
) -> None:
    """Refuse labels most of which occur once: they seem to be texts, or numbers to predict.

    Columns that the user named, and labels that the data or a model know, are not checked.
    """
    different = len(set(labels))
    if options.names or options.known_labels or records.labels:
        return
    if len(records) <= _FEW or 2 * different <= len(labels):
        return
    used = [names[column] for column in (*columns.texts, columns.label)]
    are_numbers = all(re.fullmatch(r"-?[\d.]+", label) for label in labels)
    regress = ". If the labels are amounts, take the task regress" if are_numbers else ""
    raise ValueError(
        f"{data_of(records[0].location)}: the labels must repeat, got {different:,} different "
        f"ones in {len(records):,} examples. If text and label are swapped, give "
        f"{_name_options([*used[1:], used[0]])}{way}. If they are right, give "
        f"{_name_options(used)}{way}{regress}"
    )


def _name_options(names: Sequence[str]) -> str:
    """Return the options that name the columns of a text, a second text if any, and a label."""
    text, *pair, label = (shlex.quote(str(name)[:40]) for name in names)
    second = f" --text-pair-column {pair[0]}" if pair else ""
    return f"--text-column {text}{second} --label-column {label}"


class Regression(LabelledTask):
    """A number for each text or pair of texts, as GLUE's STS-B has it."""

    name, head, score = "regress", "classifier", "spearman"
    title, problem_type = "a regression", "regression"
    loss = "squared_error"
    losses = ("squared_error", "absolute_error", "huber")
    description = "a number"
    first_labels = ("score",)

    def parse_label(self, value, column: str, location: str, class_names) -> float:
        if class_names and _are_numbers(class_names):
            value = label_of(value, column, location, class_names)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError(f'{location}: "{column}" must be a number, got {value!r:.60}')
        number = parse_number(value)
        if number is None:
            raise ValueError(f"{location}: the label must be a number, got {str(value)!r:.60}")
        return number

    def finish_records(self, records, names, columns, known) -> LabelledRecords:
        if records.labels and _are_numbers(records.labels):
            _logger.warning(
                "%s: the numbers to predict are the names of the classes, %s",
                *(data_of(records[0].location), first_few(records.labels)),
            )
        return super().finish_records(records, names, columns, known)

    def split_labels(self, cell: str) -> tuple[str, ...]:
        return split_number(cell)

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
        predicted = np.array([float(row[0]) for row in outputs[CLASSIFIER]])
        metrics.warn_of_constant(labels=gold, predictions=predicted)

        def compute(gold, predicted):
            return {
                "pearson": metrics.pearson(gold, predicted),
                "spearman": metrics.spearman(gold, predicted),
                "mse": float(np.mean((gold - predicted) ** 2)),
            }

        return Scores((gold, predicted), compute)


def _are_numbers(class_names: Sequence[str]) -> bool:
    return all(parse_number(name) is not None for name in class_names)


class MultiLabel(LabelledTask):
    """Any number of labels per text, or none: a list, or between commas."""

    name, head, score = "multilabel", "classifier", "f1"
    title = "a classifier of several labels"
    problem_type, loss = "multi_label_classification", "binary_cross_entropy"
    description = "labels between commas"
    may_be_empty = True
    takes_label_columns = True
    way_to_name_labels = WAY_TO_NAME_LABELS

    def parse_label(self, value, column: str, location: str, class_names) -> Cell:
        """Return the cell: only all together show how they are written."""
        return Cell(value, column, location)

    def join_labels(self, labels: Sequence[str], location: str) -> tuple[str, ...]:
        return tuple(labels)

    def finish_records(self, records, names, columns, known) -> LabelledRecords:
        """Read the label cells, which only all together show how they are written."""
        records = super().finish_records(records, names, columns, known)
        if columns.labels:
            return records

        cells = [
            record.label
            if isinstance(record.label, Cell)
            else Cell(record.label, "label", record.location)
            for record in records
        ]
        class_names = records.labels
        label_names = LabelNames(known, class_names, records.multi_hot)
        label_sets, all_names = read_label_sets(cells, label_names)
        for index, label_set in enumerate(label_sets):
            records[index] = records[index]._replace(label=label_set)
        records.multi_hot = all_names is not None
        records.labels = all_names or class_names
        return records

    def find_unnamed(self, lines: Sequence[Row], location: str) -> Columns:
        """Return the columns; the last one may number the examples, as in GoEmotions' files."""
        cells = [cells for _, cells in lines]
        if any(len(row) != 3 for row in cells):
            return super().find_unnamed(lines, location)
        numbers = [row[1] for row in cells]
        are_numbers = all(re.fullmatch(r"\d+(,\d+)*", number) for number in numbers)
        if not are_numbers or 2 * len({row[2] for row in cells}) <= len(cells):
            return super().find_unnamed(lines, location)
        _logger.warning(
            "%s: the columns are read as text, labels, id, as GoEmotions has them",
            data_of(location),
        )
        return Columns((0,), 1)

    def check_records(self, records, names, columns: Columns, options, way: str) -> None:
        if not columns.labels:
            labels = [label for record in records for label in record.label]
            check_repeated_labels(records, labels, names, columns, options, way)

    def split_labels(self, cell: str) -> list[str]:
        return split_text(cell)

    def labels(self, records: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the data's own labels, else in order; raise a ValueError if no text has one."""
        labels = {label for record in records for label in record.label}
        warn_of_missing_labels(",".join(record.label) or "no label" for record in records)
        if not labels:
            raise ValueError(f"{data_of(records[0].location)} must have labels, got none at all")
        return sort_labels(labels, getattr(records, "labels", None))

    def encode(self, records, tokenizer, labels, max_length: int) -> Examples:
        """Return labels as float32 (labels,), 0 or 1, each."""
        targets = np.zeros((len(records), len(labels)), np.float32)
        for target, numbers in zip(targets, number_labels(records, labels), strict=True):
            target[numbers] = 1.0
        return encode_texts(records, tokenizer, max_length, list(targets))

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """accuracy: of texts whose labels are all right; f1: of all together; the labels' means."""
        gold = np.stack(examples.labels[CLASSIFIER]) > 0.5

        def compute(gold, logits):
            predicted = logits > 0
            return {
                "accuracy": float((gold == predicted).all(1).mean()),
                "f1": metrics.micro_f1(gold, predicted),
                "macro_f1": metrics.mean_f1(gold, predicted),
                "map": metrics.mean_average_precision(gold, logits),
            }

        logits = np.stack(outputs[CLASSIFIER])
        predicted, warning = logits > 0, ""
        if (predicted == predicted[0]).all():
            expected, answers = (
                [_name_labels(labels, row) for row in rows] for rows in (gold, predicted)
            )
            warning = describe_one_class(expected, answers, "examples", "sets of labels")
        return Scores((gold, logits), compute, warning=warning)

    def count_labels(self, records: Sequence[Labelled]) -> dict[str, Any]:
        return {
            "labels": Counter(label for record in records for label in record.label),
            "without_a_label": sum(not record.label for record in records),
        }


def _name_labels(labels: Sequence[str], holds: np.ndarray) -> str:
    """Return the labels that hold, between commas."""
    return ", ".join(label for label, does in zip(labels, holds, strict=True) if does) or "no label"


TASK, REGRESSION, MULTI_LABEL = Classification(), Regression(), MultiLabel()
