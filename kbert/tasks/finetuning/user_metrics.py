"""Metrics of the user on dev data: functions, which have intervals, and Keras metrics."""

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from kbert.data.labelled.length_buckets import IGNORED
from kbert.graph.names import CLASSIFIER, TOKEN_CLASSIFIER
from kbert.tasks.common.intervals import Scores
from kbert.training.settings import user_objects
from kbert.training.settings.user_objects import UserFunction

Column = Sequence | np.ndarray
Pairs = tuple[Column, Column]  # of all examples, labels and predictions


def pair_arrays(task, examples, outputs: Mapping[str, list]) -> Pairs | None:
    """Return the labels and logits of all examples: (N,) and (N, C), or (N, C) both.

    Numbers are (N,) both. Logits of choices are padded with −∞. Of a tagger these are the words of
    all sentences. None: the outputs are spans.
    """
    if TOKEN_CLASSIFIER in outputs:
        labels = np.concatenate(examples.labels[TOKEN_CLASSIFIER])
        logits = np.concatenate(outputs[TOKEN_CLASSIFIER])
        has_label = labels != IGNORED
        return labels[has_label], logits[has_label]
    if CLASSIFIER not in outputs:
        return None

    labels = np.array(examples.labels[CLASSIFIER])
    arrays = outputs[CLASSIFIER]
    width = max(len(array) for array in arrays)
    shape = len(arrays), width
    logits = np.full(shape, -np.inf, np.float32)
    for padded, array in zip(logits, arrays, strict=True):
        padded[: len(array)] = array
    if task.problem_type == "regression":
        return labels.astype(np.float32), logits[:, 0]
    return labels, logits


def evaluate_metrics(
    metrics: Sequence[UserFunction | Mapping], functions_of: Pairs | None, keras_of: Pairs | None
) -> tuple[dict[str, float], list[Scores]]:
    """Compute a user's metrics; return them by name, and the functions' `Scores`.

    `functions_of` are what functions get, `keras_of` what Keras metrics get; None: the task has
    nothing for them.
    """
    values: dict[str, float] = {}
    scores = []
    for metric in metrics:
        name = user_objects.name_object(metric)
        pairs = functions_of if isinstance(metric, UserFunction) else keras_of
        if pairs is None:
            raise ValueError(
                f"metrics: {name} has no meaning for these data: leave it out, or write a function"
            )

        try:
            if isinstance(metric, UserFunction):
                computed = _call_function(metric, *pairs)
                scores.append(_make_scores(metric, pairs, list(computed)))
            else:
                computed = _compute_keras(metric, *pairs)
        except Exception as error:  # of the user's code
            raise ValueError(
                f"metrics: {name} failed on {_describe(pairs[0])} and {_describe(pairs[1])}: "
                f"{user_objects.describe_error(error)}"
            ) from error
        add_metrics(values, computed)
    return values, scores


def add_metrics(values: dict[str, float], more: Mapping[str, float]) -> None:
    """Add metrics to others; raise a ValueError for a name that they have."""
    for name in more:
        if name in values:
            raise ValueError(
                f"metrics: there is a metric {name!r} already: give yours another name"
            )
    values |= more


def list_keras_metrics(metrics: Sequence[UserFunction | Mapping]) -> list[str]:
    """Return the names of Keras metrics, which have no intervals."""
    return [user_objects.name_object(metric) for metric in metrics if isinstance(metric, Mapping)]


def _make_scores(function: UserFunction, pairs: Pairs, names: Sequence[str]) -> Scores:
    """Return a function's metrics of examples, which are resampled for the intervals."""
    if isinstance(pairs[0], np.ndarray):
        columns = tuple(np.asarray(column) for column in pairs)
    else:
        arrays = [np.fromiter(column, object, len(column)) for column in pairs]
        columns = tuple(arrays)
    return Scores(columns, functools.partial(_compute_or_nan, function, names))


def _compute_or_nan(function: UserFunction, names: Sequence[str], *columns) -> dict[str, float]:
    """Return a function's metrics; NaN, so no interval, if it fails on resampled examples."""
    arguments = []
    for column in columns:
        arguments.append(column.tolist() if column.dtype == object else column)
    try:
        return _call_function(function, *arguments)
    except Exception:
        return dict.fromkeys(names, math.nan)


def _call_function(function: UserFunction, labels, predictions) -> dict[str, float]:
    assert function.call is not None
    # copies, since a function may compute in place
    values = function.call(_copy(labels), _copy(predictions))
    return _name_values(function.name, values)


def _copy(column: Column) -> Column:
    return column.copy() if isinstance(column, np.ndarray) else list(column)


def _compute_keras(json: Mapping, labels, logits) -> dict[str, float]:
    """Return the result of a Keras metric over all examples at once."""
    import keras

    metric = user_objects.deserialize(json)
    one_hot = (
        keras.metrics.CategoricalAccuracy,
        keras.metrics.CategoricalCrossentropy,
        keras.metrics.CategoricalHinge,
        keras.metrics.TopKCategoricalAccuracy,
        keras.metrics.FBetaScore,  # and F1Score
    )
    if isinstance(metric, one_hot) and labels.ndim < logits.ndim:
        identity = np.eye(logits.shape[1], dtype=np.float32)
        labels = identity[labels]
    if logits.ndim == 1 and metric.get_config().get("axis") == -1:
        raise ValueError("it compares along an axis of one number per example: give axis=0")
    if logits.ndim == 1:  # as in `fit`: the mean over the last axis is one of numbers
        labels, logits = labels[:, None], logits[:, None]

    metric.update_state(labels, logits)
    result = metric.result()
    if isinstance(result, Mapping):
        numbers = {name: _to_numpy(value) for name, value in result.items()}
        return _name_values(metric.name, numbers)
    return _name_values(metric.name, _to_numpy(result))


def _to_numpy(value) -> np.ndarray:
    import keras

    return keras.ops.convert_to_numpy(value)


def _name_values(name: str, value) -> dict[str, float]:
    """Return a metric's number by its name, or its numbers by theirs."""
    import keras

    values = value if isinstance(value, Mapping) else {name: value}
    if not values:
        raise ValueError("expected a number or a dict of numbers, got an empty dict")
    numbers = {}
    for key, number in values.items():
        is_tensor = keras.ops.is_tensor(number)
        number = _to_numpy(number) if is_tensor else np.asarray(number)
        if number.size != 1:
            raise ValueError(f"{key} must be one number, got {number.size}")
        numbers[str(key)] = float(number.reshape(()))
    return numbers


def _describe(values: Column) -> str:
    """Return the shape of an array, or the length of a list."""
    return str(values.shape) if isinstance(values, np.ndarray) else f"{len(values):,} examples"
