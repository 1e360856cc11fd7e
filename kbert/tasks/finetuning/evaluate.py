"""Evaluation of a model on labelled data: its outputs, and the task's metrics.

kbert.evaluate("run/model.keras", "classify", "test.tsv")["accuracy"]
"""

import functools
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kbert.checkpoints.bert import Bert, load
from kbert.data.labelled.in_memory import Rows
from kbert.data.packed_batch import one_per_row
from kbert.data.padding import batches_by_length, fitting_lengths, lengths_up_to, pick_length
from kbert.graph.config import require_positive
from kbert.graph.names import SEGMENT_IDS, TOKEN_IDS
from kbert.heads import HEADS
from kbert.io import printable
from kbert.tasks.common.checks import (
    check_max_length,
    longest,
    require_data,
    require_head,
    require_source,
    require_tokenizer,
)
from kbert.tasks.common.intervals import Scores, find_intervals
from kbert.tasks.finetuning.run_defaults import (
    complete_options,
    find_run,
    has_named_columns,
    peek_names,
    warn_of_pairs,
)
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import Task, records_of, task_of, with_known_labels
from kbert.tasks.finetuning.user_metrics import Pairs, add_metrics, evaluate_metrics, pair_arrays
from kbert.training.run.predictions import Predictions
from kbert.training.run.run_folder import RunFolder
from kbert.training.settings.user_objects import UserFunction

if TYPE_CHECKING:
    import keras

_logger = logging.getLogger("kbert")
BATCH_SIZE = 32
_PROBLEMS = {  # the task of a problem_type, and its model in words
    "single_label_classification": ("classify", "a classifier of one label per text"),
    "multi_label_classification": ("multilabel", "a classifier of several labels per text"),
    "regression": ("regress", "a regression"),
}


@printable.escape_errors()
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
    label_columns: Sequence[str] | None = None,
    no_header: bool | None = None,
    positive_label: str | None = None,
    metrics: "Sequence[keras.metrics.Metric | Callable] | None" = None,
) -> dict[str, float]:
    """Compute a model's metrics on labelled data.

    Args:
        source: a `Bert`, or a checkpoint of any format, with the task's head. If it is the folder
            of a run of this task, or the model in it, options that are None are the run's.
        task: one of `kbert.tasks.finetuning.task.TASKS`, such as "classify".
        data: a file, or rows in memory, as for `finetune`.
        max_length: maximum tokens of an example; None: the run's, else the model's maximum.
        batch_size: examples per batch.
        precision: "float32" or "bfloat16", as for `kbert.embed`; losses are in float64.
        text_column, text_pair_column, label_column, label_columns, no_header, positive_label: see
            `FinetuningSettings`; None: the run's. Rows in memory that are tuples have no names of
            columns, so the run's are not used for them.
        metrics: further metrics: Keras metrics, or functions of labels and logits, as for
            `finetune`. Those of a run are not kept: give them again.

    Returns:
        The metrics by name, with "loss", the task's own, if the data have labels.

    Raises:
        OSError, ValueError: data or model do not fit, see `finetune`.
    """
    require_source(source, "evaluate")
    require_data(data=data)
    user_options = {
        "max_length": max_length,
        "text_column": text_column,
        "text_pair_column": text_pair_column,
        "label_column": label_column,
        "label_columns": label_columns,
        "no_header": no_header,
        "positive_label": positive_label,
        "metrics": metrics,
    }
    run = find_run(source)
    bert = source if isinstance(source, Bert) else load(source)
    return evaluate_model(bert, run, task, data, user_options, batch_size, precision)


def evaluate_model(
    bert: Bert,
    run: RunFolder | None,
    task: str,
    data: str | os.PathLike | Rows,
    user_options: Mapping[str, Any],
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
) -> dict[str, float]:
    """Compute a model's metrics as `evaluate` does; `run` is where it is from, or None.

    `user_options` are the user's options, by the names of `FinetuningSettings.evaluation`.
    """
    chosen = task_of(task)
    data, names = peek_names(data, run)
    has_names = has_named_columns(data)
    options = complete_options(run, chosen.name, names, user_options, has_names)
    settings = FinetuningSettings.from_options(options, "evaluate")
    chosen = chosen.with_positive_label(settings.positive_label)

    columns = settings.columns
    if bert.head == chosen.head and HEADS[bert.head].has_labels:
        columns = with_known_labels(columns, chosen, known_labels(bert))
    records = records_of(chosen, data, columns=columns)
    warn_of_pairs(run, getattr(records[0], "pair", None) is not None)

    require_tokenizer(bert, "evaluate")
    check_max_length(bert, settings.max_length)
    evaluate_task = getattr(chosen, "evaluate", None)
    if evaluate_task is not None:
        return evaluate_task(bert, records, settings, batch_size=batch_size, precision=precision)
    require_head(bert, "evaluate", chosen.head, HEADS[chosen.head].layers)
    require_kind(bert, "evaluate", chosen)
    return _evaluate_head(bert, chosen, records, settings, batch_size, precision)


def _evaluate_head(
    bert: Bert, task: Task, records: list, settings: FinetuningSettings, batch_size: int, precision
) -> dict[str, float]:
    """Compute the metrics of a model's head; log what they are of."""
    from kbert.tasks.common.running import get_output_function

    outputs, labels = list(bert.model.output_names), known_labels(bert)
    metrics_text = task.describe_metrics(labels)  # it refuses a label that the model lacks
    if metrics_text:
        _logger.warning("%s", metrics_text)
    limit = longest(bert, settings.max_length)
    examples = task.encode(records, bert.tokenizer, labels, max_length=limit)
    function = get_output_function(bert, outputs, precision)

    def predict(inputs):
        return function(inputs[TOKEN_IDS], inputs[SEGMENT_IDS])

    fixed = bert.spec.seq_len
    evaluation = LabelledEvaluation(
        examples,
        batch_size,
        bert.config.pad_token_id,
        lengths_up_to(limit) if fixed is None else (fixed,),
        task=task,
        records=records,
        labels=labels,
        metrics=settings.metrics or (),
    )
    result = evaluation(predict, outputs)
    result.warn_of_predictions("data")
    return result.metrics


@dataclass(frozen=True)
class EvaluationResult:
    """The metrics of a model on some data.

    Attributes:
        metrics: by name.
        scores: what the task's own metrics were computed from, by the suffix of their names.
        user_scores: the same of the user's functions.
        describe: returns what a run's page shows of the predictions, if there is something.
    """

    metrics: dict[str, float]
    scores: Mapping[str, Scores]
    user_scores: Sequence[Scores] = ()
    describe: Callable[[], Predictions | None] = lambda: None

    def find_intervals(self) -> dict[str, tuple[float, float]]:
        """Return the 95 % intervals of the metrics that have one."""
        intervals = find_intervals(self.scores)
        for scores in self.user_scores:
            intervals |= find_intervals({"": scores})
        return intervals

    def warn_of_predictions(self, name: str) -> None:
        """Log what is wrong with predictions for data of a name, such as that all are one label."""
        for scores in self.scores.values():
            if scores.warning:
                _logger.warning("%s: %s", name, scores.warning)


@dataclass(eq=False)
class Evaluation(ABC):
    """Data, and the metrics of a model's outputs for them.

    Attributes:
        examples: the data, encoded.
        batch_size: sequences per batch.
        pad_id: the padding token.
        lengths: allowed sequence lengths of batches, ascending.
        metrics: of the user, in addition to the task's.
    """

    examples: Any  # `Examples`
    batch_size: int
    pad_id: int
    lengths: Sequence[int]
    metrics: Sequence[UserFunction | Mapping] = field(default=(), kw_only=True)

    def __post_init__(self):
        require_positive("batch_size", self.batch_size)
        token_counts = [len(ids) for ids in self.examples.ids]
        longest = max(token_counts, default=1)
        self.lengths = fitting_lengths(self.lengths, longest)

    def __len__(self) -> int:
        return len(self.examples)

    @abstractmethod
    def __call__(self, predict: Callable, outputs: Sequence[str]) -> EvaluationResult:
        """Compute the metrics of `predict`'s named outputs, arrays (B, …), for inputs by name."""

    def measure_user_metrics(
        self,
        metrics: dict[str, float],
        scores: Mapping[str, Scores],
        functions_of: Pairs | None,
        keras_of: Pairs | None,
        describe: Callable[[], Predictions | None],
    ) -> EvaluationResult:
        """Return the task's metrics and those of the user; see `evaluate_metrics`."""
        more, user_scores = evaluate_metrics(self.metrics, functions_of, keras_of)
        add_metrics(metrics, more)
        return EvaluationResult(metrics, scores, user_scores, describe)

    def predict_sequences(self, predict: Callable) -> list[list[np.ndarray]]:
        """Return the outputs for each sequence, float32; all batches have the same size."""
        examples = self.examples
        sequences = list(zip(examples.ids, examples.segment_ids, strict=True))
        results: list[list[np.ndarray]] = [[] for _ in sequences]
        for indices, token_ids, segment_ids in batches_by_length(
            sequences,
            self.batch_size,
            pad_id=self.pad_id,
            length_for=functools.partial(pick_length, self.lengths),
            count_for=lambda count: self.batch_size,
        ):
            inputs = {TOKEN_IDS: token_ids, SEGMENT_IDS: segment_ids}
            for output in predict(inputs):
                values = np.asarray(output, np.float32)
                for index, row in zip(indices, values, strict=False):
                    results[index].append(row)
        return results


@dataclass(eq=False, kw_only=True)
class LabelledEvaluation(Evaluation):
    """Labelled data, and the metrics of a model's outputs for them.

    Attributes:
        task: see `kbert.tasks.finetuning.task`.
        records: the data as read.
        labels: the head's labels.
        packed: whether the model is of the packed graph; its rows then have one text each.
        loss: a `kbert.training.losses.loss.Loss`; None: the task's own.
    """

    task: Task
    records: Sequence
    labels: Sequence[str] | None
    packed: bool = False
    loss: Any = None

    def __call__(self, predict: Callable, outputs: Sequence[str]) -> EvaluationResult:
        # imports Keras, which the reading of data does not
        from kbert.training.losses.table import LOSSES

        logits = self._predict_logits(predict, outputs)
        data = self.records, self.examples, logits, self.labels
        scores = self.task.scores(*data)
        metrics = scores.metrics()
        loss_of = self.loss or LOSSES[self.task.loss]
        loss = loss_of.compute_mean(self.examples.labels, logits)
        if loss is not None:
            metrics = {"loss": loss} | metrics

        describe = functools.partial(self.task.describe_predictions, *data)
        if not self.metrics:
            return EvaluationResult(metrics, {"": scores}, describe=describe)
        keras_of = pair_arrays(self.task, self.examples, logits)
        functions_of = self.task.pair_predictions(*data) or keras_of
        return self.measure_user_metrics(metrics, {"": scores}, functions_of, keras_of, describe)

    def _predict_logits(self, predict: Callable, outputs: Sequence[str]) -> dict[str, list]:
        """Return the logits of each output, an array per example."""

        def predict_packed(inputs):
            return predict(one_per_row(inputs, self.pad_id))

        arrays = self.predict_sequences(predict_packed if self.packed else predict)
        if HEADS[self.task.head].reads != "first":  # logits of tokens, without padding
            for outputs_of_text, ids in zip(arrays, self.examples.ids, strict=True):
                length = len(ids)
                outputs_of_text[:] = [array[:length] for array in outputs_of_text]

        logits = {}
        columns = zip(*arrays, strict=True)
        for name, column in zip(outputs, columns, strict=True):
            logits[name] = self.examples.group_sequences(column)
        return logits


def require_kind(bert: Bert, function: str, task: Task) -> None:
    """Raise a ValueError for a classifier of another kind than the task's, if its files say it."""
    known, needed = bert.problem_type, task.problem_type
    if known is None or needed is None or known == needed:
        return
    fitting, kind = _PROBLEMS[known]
    raise ValueError(
        f"{function} of the task {task.name} needs {_PROBLEMS[needed][1]}, got a model with "
        f"problem_type {known}, {kind}: take the task {fitting}, or another checkpoint"
    )


def known_labels(bert: Bert) -> tuple[str, ...] | None:
    """Return the names of a head's outputs in data; 0, 1, … if the checkpoint has none.

    None: the head has no labels.
    """
    if not HEADS[bert.head].has_labels:
        return None
    numbers = tuple(str(number) for number in range(bert.spec.num_labels))
    unnamed = tuple(f"LABEL_{number}" for number in numbers)  # transformers' own
    if bert.labels is None or tuple(bert.labels) == unnamed:
        return numbers
    return tuple(bert.labels)
