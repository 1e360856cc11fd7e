"""Several labels for a text, or for a pair of them, or none: each holds or not."""

from collections.abc import Sequence

import numpy as np

from kbert.data.labelled import in_memory
from kbert.data.labelled.data_warnings import warn_of_missing_labels
from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import CLASSIFIER
from kbert.io.wording import data_of
from kbert.tasks.classification.reading import (
    Labelled,
    LabelledReader,
    check_labels,
    encode_texts,
    find_label,
    number_labels,
    sort_labels,
)
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores


class LabelListReader(LabelledReader):
    """Reads texts, or pairs of them, with any number of labels each: a list, or between commas."""

    description = "labels between commas"
    may_be_empty = True

    def parse_label(self, value, column: str, location: str, class_names) -> tuple[str, ...]:
        if value is None or value == "":
            return ()
        if isinstance(value, str):
            labels = tuple(label.strip() for label in value.split(","))
            if "" in labels:
                raise ValueError(f"{location}: expected labels between commas, got {value!r:.60}")
            return labels
        if not isinstance(value, list):
            raise ValueError(f'{location}: "{column}" must be a list of labels, got {value!r:.60}')
        return tuple(in_memory.label_of(label, column, location, class_names) for label in value)

    def split_labels(self, cell: str) -> list[str]:
        return [label.strip() for label in cell.split(",") if label.strip()]

    def check_records(self, *arguments) -> None:
        """Accept all: combinations of labels need not repeat."""


_READER = LabelListReader()


class SeveralLabels(Task):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "multilabel", "classifier", "f1"
    title = "a classifier of several labels"
    problem_type, loss = "multi_label_classification", "binary_cross_entropy"

    read = staticmethod(_READER.read)
    take = staticmethod(_READER.take)
    check_labels = staticmethod(check_labels)

    def labels(self, records: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the data's own labels, else in order; raise a ValueError if no text has one."""
        labels = {label for record in records for label in record.label}
        warn_of_missing_labels(",".join(record.label) or "no label" for record in records)
        if not labels:
            raise ValueError(f"{data_of(records[0].location)} must have labels, got none at all")
        return sort_labels(labels, getattr(records, "labels", None))

    def encode(self, records, tokenizer, labels, max_length: int) -> Examples:
        """Return labels as float32 (labels,), 0 or 1, each."""
        ids = number_labels(labels)
        targets = np.zeros((len(records), len(labels)), np.float32)
        for record, target in zip(records, targets, strict=True):
            for label in record.label:
                target[find_label(label, record, ids)] = 1.0
        return encode_texts(records, tokenizer, max_length, list(targets))

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """accuracy: of texts whose labels are all right; f1: of all together; the labels' means."""
        from kbert.tasks import metrics

        gold = np.stack(examples.labels[CLASSIFIER]) > 0.5

        def compute(gold, logits):
            predicted = logits > 0
            return {
                "accuracy": float((gold == predicted).all(1).mean()),
                "f1": metrics.micro_f1(gold, predicted),
                "macro_f1": metrics.mean_f1(gold, predicted),
                "map": metrics.mean_average_precision(gold, logits),
            }

        return Scores((gold, np.stack(outputs[CLASSIFIER])), compute)


TASK = SeveralLabels()
