"""Evaluation of a model on labelled data: its outputs, and the task's metrics.

kbert.evaluate("run/model.keras", "classify", "test.tsv")["accuracy"]
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from kbert.checkpoints.bert import Bert, load
from kbert.data.labelled.columns import ColumnOptions
from kbert.data.labelled.in_memory import Rows
from kbert.data.labelled.length_buckets import Examples
from kbert.data.packed_batch import one_per_row
from kbert.data.padding import fitting_lengths, lengths_up_to
from kbert.graph.config import require_positive
from kbert.graph.names import SEGMENT_IDS, TOKEN_IDS
from kbert.heads import HEADS
from kbert.tasks.checks import (
    check_max_length,
    longest,
    require_data,
    require_head,
    require_source,
    require_tokenizer,
)
from kbert.tasks.encoding import predict_sequences
from kbert.tasks.finetuning.task import Task, records_of, task_of, with_known_labels
from kbert.tasks.intervals import Scores
from kbert.training.loss import LOSSES

BATCH_SIZE = 32


def evaluate(
    source: Bert | str | os.PathLike,
    task: str,
    data: str | os.PathLike | Rows,
    *,
    max_length: int | None = None,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    text_column: str | None = None,
    text_pair_column: str | None = None,
    label_column: str | None = None,
    no_header: bool = False,
) -> dict[str, float]:
    """Compute a model's metrics on labelled data.

    Args:
        source: a `Bert`, or a checkpoint of any format, with the task's head.
        task: one of `kbert.tasks.finetuning.task.TASKS`, such as "classify".
        data: a file, or rows in memory, as for `finetune`.
        max_length: maximum tokens of an example; None: the model's maximum.
        batch_size: examples per batch.
        precision: "float32" or "bfloat16", as for `kbert.embed`; losses are in float64.
        text_column, text_pair_column, label_column, no_header: see `FinetuningSettings`.

    Returns:
        The metrics by name, with "loss" if the data have labels.

    Raises:
        OSError, ValueError: data or model do not fit, see `finetune`.
    """
    from kbert.tasks.running import get_output_function

    require_source(source, "evaluate")
    require_data(data=data)
    chosen = task_of(task)
    columns = ColumnOptions(text_column, text_pair_column, label_column, no_header)
    bert = source if isinstance(source, Bert) else load(source)
    if bert.head == chosen.head and HEADS[bert.head].has_labels:
        columns = with_known_labels(columns, chosen, known_labels(bert))
    records = records_of(chosen, data, columns=columns)
    tokenizer = require_tokenizer(bert, "evaluate")
    check_max_length(bert, max_length)
    if (own := getattr(chosen, "evaluate", None)) is not None:
        options = {"batch_size": batch_size, "precision": precision}
        return own(bert, records, max_length=max_length, **options)
    outputs = list(bert.model.output_names)
    require_head(bert, "evaluate", chosen.head, HEADS[chosen.head].layers)
    limit = longest(bert, max_length)
    labels = known_labels(bert)
    examples = chosen.encode(records, tokenizer, labels, max_length=limit)
    function = get_output_function(bert, outputs, precision)

    def predict(inputs):
        return function(inputs[TOKEN_IDS], inputs[SEGMENT_IDS])

    fixed = bert.spec.seq_len
    lengths = lengths_up_to(limit) if fixed is None else (fixed,)
    evaluation = LabelledEvaluation(
        chosen, records, examples, labels, batch_size, tokenizer.pad_id, lengths
    )
    return evaluation(predict, outputs)


class Evaluation(Protocol):
    """Data, and the metrics of a model's outputs for it."""

    @property
    def scores(self) -> Mapping[str, Scores]:
        """Scores that the last call's metrics were computed from, see `find_intervals`."""

    def __len__(self) -> int: ...

    def __call__(self, predict: Callable, outputs: Sequence[str]) -> dict[str, float]: ...


class LabelledEvaluation:
    """Labelled data, and the metrics of a model's outputs for it.

    Args:
        task: see `kbert.tasks.finetuning.task`.
        records, examples: the data as read, and encoded.
        labels: the head's labels.
        batch_size: examples per batch.
        pad_id: the padding token.
        lengths: allowed sequence lengths of batches, ascending.
        packed: whether the model is of the packed graph; its rows then have one text each.
    """

    def __init__(
        self,
        task: Task,
        records,
        examples: Examples,
        labels,
        batch_size,
        pad_id,
        lengths,
        packed: bool = False,
    ):
        self._task, self._records, self._examples, self._labels = task, records, examples, labels
        self._batch_size, self._pad_id = require_positive("batch_size", batch_size), pad_id
        longest = max((len(row) for row in examples.ids), default=1)
        self._lengths, self._packed = fitting_lengths(lengths, longest), packed
        self.scores: dict[str, Scores] = {}

    def __len__(self) -> int:
        return len(self._examples)

    def __call__(self, predict: Callable, outputs: Sequence[str]) -> dict[str, float]:
        """Compute the metrics.

        Args:
            predict: returns the outputs, a list of logits (B, …), for inputs by name.
            outputs: the names of the outputs.
        """
        logits = self._compute_logits(predict, outputs)
        loss = LOSSES[self._task.loss].compute_mean(self._examples.labels, logits)
        scores = self._task.scores(self._records, self._examples, logits, self._labels)
        self.scores = {"": scores}
        return ({} if loss is None else {"loss": loss}) | scores.metrics()

    def _compute_logits(self, predict: Callable, names: Sequence[str]) -> dict[str, list]:
        """Return logits by output, one array per example; token logits without padding.

        Of an example with several sequences they are one logit per sequence.
        """
        ids, pad_id = self._examples.ids, self._pad_id
        outputs = predict_sequences(
            (lambda inputs: predict(one_per_row(inputs, pad_id))) if self._packed else predict,
            list(zip(ids, self._examples.segment_ids, strict=True)),
            *(self._batch_size, pad_id, self._lengths),
        )
        if HEADS[self._task.head].reads != "first":
            outputs = [
                [row[: len(sequence)] for row in rows]
                for rows, sequence in zip(outputs, ids, strict=True)
            ]
        columns = zip(*outputs, strict=True)
        return {
            name: self._examples.group_sequences(column)
            for name, column in zip(names, columns, strict=True)
        }


def known_labels(bert: Bert) -> tuple[str, ...] | None:
    """Return the names of a head's outputs in data; 0, 1, … if the checkpoint has none.

    None: the head has no labels.
    """
    if not HEADS[bert.head].has_labels:
        return None
    numbers = tuple(map(str, range(bert.spec.num_labels)))
    unnamed = tuple(f"LABEL_{number}" for number in numbers)  # transformers' own
    return numbers if bert.labels is None or tuple(bert.labels) == unnamed else tuple(bert.labels)
