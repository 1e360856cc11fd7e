"""Classification of texts, or of pairs of them."""

import numpy as np

from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import CLASSIFIER
from kbert.tasks.classification.reading import (
    check_labels,
    encode_labelled,
    list_labels,
    read_labelled,
    take_labelled,
)
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores


class Classification(Task):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "classify", "classifier", "accuracy"
    title, has_classes = "a classifier", True
    problem_type = "single_label_classification"

    read = staticmethod(read_labelled)
    take = staticmethod(take_labelled)
    labels = staticmethod(list_labels)
    check_labels = staticmethod(check_labels)
    encode = staticmethod(encode_labelled)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """accuracy, matthews, and f1: of label 1 where there are two, else the classes' mean."""
        from kbert.tasks import metrics

        gold = np.array(examples.labels[CLASSIFIER])
        predicted = np.array([int(row.argmax()) for row in outputs[CLASSIFIER]])
        f1 = metrics.f1 if len(labels) == 2 else metrics.macro_f1

        def compute(gold, predicted, counts):
            return {
                "accuracy": metrics.accuracy(gold, predicted, counts),
                "f1": f1(gold, predicted, counts=counts),
                "matthews": metrics.matthews(gold, predicted, counts),
            }

        # the confusion matrix, where it is not 0: resampled much faster than single texts
        cells, counts = np.unique(gold * len(labels) + predicted, return_counts=True)
        return Scores(np.divmod(cells, len(labels)), compute, counts)


TASK = Classification()
