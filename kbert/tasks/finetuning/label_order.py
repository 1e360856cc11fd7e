"""Order of a run's labels: they go by name, so a trained head or a teacher keeps its order."""

import logging
from collections.abc import Sequence

from kbert.checkpoints.bert import Bert
from kbert.io.wording import first_few
from kbert.tasks.finetuning.evaluate import known_labels
from kbert.tasks.finetuning.task import Task

_logger = logging.getLogger("kbert")


def order_labels(labels: Sequence[str], source: Bert, task: Task) -> tuple[str, ...]:
    """Return the labels of the training data in the order of the source's head, if it is reused.

    It is reused if it has all labels of the data. It may have more, unless its labels are numbers:
    that 0 and 1 are among 0, 1 and 2 does not mean that they are the same labels.
    """
    labels, known = tuple(labels), known_labels(source) or ()
    is_of_task = source.head == task.head and task.problem_type != "regression"
    if not is_of_task or not set(labels) <= set(known):
        return labels

    unused = [label for label in known if label not in labels]
    if unused and all(label.isdecimal() for label in known):
        return labels
    if unused:
        _logger.warning(
            "the checkpoint's head is reused with all its %d labels, though the data have no "
            "example of %s. To train a head for the data's labels alone, start from a checkpoint "
            "without this head",
            len(known),
            first_few(unused),
        )
    return known


def match_outputs(teacher: Bert, labels: Sequence[str] | None) -> list[int] | None:
    """Return the index of each label among a teacher's outputs; None: they are in this order."""
    known = known_labels(teacher) or ()
    if labels is None or known == tuple(labels) or set(known) != set(labels):
        return None
    return [known.index(label) for label in labels]
