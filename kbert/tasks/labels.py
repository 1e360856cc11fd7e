"""Names of the outputs of a head with labels."""

from kbert.checkpoints.bert import Bert


def label_names(bert: Bert, count: int) -> list[str]:
    """Return the checkpoint's names of its labels, else transformers' default ones."""
    if bert.labels is not None and len(bert.labels) == count:
        return list(bert.labels)
    return [f"LABEL_{number}" for number in range(count)]
