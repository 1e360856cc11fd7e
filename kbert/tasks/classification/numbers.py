"""Numbers for texts, or for pairs of them: regression, as GLUE's STS-B has it."""

import functools
import math
from collections.abc import Sequence

import numpy as np

from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import CLASSIFIER
from kbert.tasks.classification.reading import (
    LabelKind,
    Labelled,
    encode_texts,
    read_labelled,
    take_labelled,
)
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores

LABEL = "score"  # what the one output is called


def _parse_cell(cell: str, location: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{location}: the label must be a number, got {cell!r:.60}")
    return number


def _parse_value(value, column: str, location: str, names) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f'{location}: "{column}" must be a number, got {value!r:.60}')
    return _parse_cell(str(value), location)


def _classify_cell(cell: str) -> tuple[str, ...]:
    """Return one label for all numbers; other text, as in a header, is its own label."""
    try:
        float(cell)
    except ValueError:
        return (cell,)
    return ("a number",)


NUMBER = LabelKind(_parse_cell, _parse_value, "a number", _classify_cell)


class Regression(Task):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "regress", "classifier", "spearman"
    title, problem_type = "a regression", "regression"
    loss = "squared_error"

    read = staticmethod(functools.partial(read_labelled, kind=NUMBER))
    take = staticmethod(functools.partial(take_labelled, kind=NUMBER))

    def labels(self, records: Sequence[Labelled]) -> tuple[str, ...]:
        return (LABEL,)

    def encode(self, records, tokenizer, labels, max_length: int) -> Examples:
        if len(labels) != 1:
            raise ValueError(
                f"regress needs a model with one output, got {len(labels)}: {', '.join(labels)}"
            )
        numbers = [record.label for record in records]
        return encode_texts(records, tokenizer, max_length, numbers)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """pearson, spearman, and the mean squared error."""
        from kbert.tasks import metrics

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


TASK = Regression()
