"""Numbers for texts, or for pairs of them: regression, as GLUE's STS-B has it."""

from collections.abc import Sequence

import numpy as np

from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import CLASSIFIER
from kbert.tasks.classification.reading import Labelled, LabelledReader, encode_texts
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores
from kbert.tasks.record_reader import parse_number, split_number

LABEL = "score"  # what the one output is called


class NumberReader(LabelledReader):
    """Reads texts, or pairs of them, with a number each."""

    description = "a number"

    def parse_label(self, value, column: str, location: str, class_names) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError(f'{location}: "{column}" must be a number, got {value!r:.60}')
        number = parse_number(value)
        if number is None:
            raise ValueError(f"{location}: the label must be a number, got {str(value)!r:.60}")
        return number

    def split_labels(self, cell: str) -> tuple[str, ...]:
        return split_number(cell)

    def check_records(self, *arguments) -> None:
        """Accept all: numbers need not repeat."""


_READER = NumberReader()


class Regression(Task):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "regress", "classifier", "spearman"
    title, problem_type = "a regression", "regression"
    loss = "squared_error"

    read = staticmethod(_READER.read)
    take = staticmethod(_READER.take)

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
