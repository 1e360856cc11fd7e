"""A checkpoint held against the graph of a head: what goes where, and what does not fit."""

from collections.abc import Collection
from dataclasses import dataclass

from kbert.checkpoints import tables, transfer
from kbert.checkpoints.checkpoint import Checkpoint, Tensor
from kbert.checkpoints.tables import Entry

_CLASSIFIERS = ("classifier", "tokens")


@dataclass(frozen=True)
class Fit:
    """What a comparison found; names are those of the checkpoint's format.

    Attributes:
        entries: the parameters of the graph that the format has names for.
        nameless: those that it has none for, as "layer/variable".
        tensors: the checkpoint's tensors that may go into the graph.
        others: those that have the name of a parameter, and are of another head.
        num_labels: outputs of the classifier to build.
        problems: every missing, unexpected and mis-shaped tensor, one line each.
    """

    entries: list[Entry]
    nameless: list[str]
    tensors: dict[str, Tensor]
    others: list[str]
    num_labels: int
    problems: list[str]


def fit(
    checkpoint: Checkpoint,
    head: str,
    allow_missing: Collection[str] = (),
    ignore: Collection[str] = (),
) -> Fit:
    """Compares a checkpoint with the graph of a head.

    A part of which the checkpoint has nothing may be missing, and so may a part of another head
    be there; a part of which it has something must be whole.
    """
    config, column = checkpoint.config, checkpoint.column
    own = head == checkpoint.head
    num_labels = checkpoint.num_labels if own else 2
    tensors = dict(checkpoint.tensors)
    names = {
        part: {entry.name for entry in tables.entries(part, config, column)}
        for part in tables.PARTS
        if part not in ("embeddings", "encoder")
    }
    # A classifier of sequences and one of tokens have one name in transformers: not taken for it.
    classifiers = sorted(set().union(*(names[part] for part in _CLASSIFIERS)))
    others = [] if own else [name for name in classifiers if tensors.pop(name, None)]
    absent = [group for group in names.values() if not group & set(tensors)]
    rows = [row for part in tables.PARTS_OF_HEAD[head] for row in tables.rows_of(part, config)]
    entries = [
        entry
        for part in tables.PARTS_OF_HEAD[head]
        for entry in tables.entries(part, config, column, num_labels)
    ]
    problems = transfer.problems(
        entries,
        tensors,
        allow_missing={*allow_missing, *set().union(*absent)},
        ignore={*ignore, *set().union(*names.values())},
    )
    nameless = [row.kbert for row in rows if getattr(row, column) is None]
    return Fit(entries, nameless, tensors, others, num_labels, problems)
