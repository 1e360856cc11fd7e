"""Metrics by functions of the user: their intervals are scipy's, by the same draws."""

import keras
import numpy as np
import pytest
from helpers.errors import raises
from scipy import stats

from kbert.tasks.common.intervals import RESAMPLES, find_intervals
from kbert.tasks.finetuning.user_metrics import evaluate_metrics
from kbert.training.settings.setting_rules import check_settings

RNG = np.random.default_rng(8)
LABELS = RNG.integers(0, 3, 61)
LOGITS = RNG.normal(size=(61, 3)) + 2 * np.eye(3)[LABELS]
WORDS = [["a"] * n for n in RNG.integers(1, 5, 30)]
PREDICTED = [["a" if RNG.random() < 0.7 else "b" for _ in words] for words in WORDS]


def log_loss(labels, logits):
    """Not a mean of 0 and 1, which the confusion matrix would do for."""
    chosen = logits[np.arange(len(labels)), labels]
    return np.mean(np.log(np.exp(logits).sum(1)) - chosen)


def share_of_words(labels, predicted):
    assert isinstance(labels, list) and isinstance(labels[0], list)
    pairs = [
        pair for rows in zip(labels, predicted, strict=True) for pair in zip(*rows, strict=True)
    ]
    return {"words_right": np.mean([one == other for one, other in pairs])}


def first_of_all(labels, logits):
    """A number, unless an example is missing, as in nearly all resamples."""
    if len(np.unique(logits[:, 0])) < len(logits):
        raise ValueError
    return 1.0


def bootstrap(compute, count: int):
    """The interval of a function of examples' indices, by scipy with kbert's draws."""
    found = stats.bootstrap(
        (np.arange(count),),
        compute,
        n_resamples=RESAMPLES,
        batch=1,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return pytest.approx((found.low, found.high), abs=1e-12)


def softmax_in_place(labels, logits):
    """The mean probability of the labels, computed in the array that it gets."""
    logits -= logits.max(1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(1, keepdims=True)
    return float(logits[np.arange(len(labels)), labels].mean())


def softmax_of_a_copy(labels, logits):
    return softmax_in_place(labels, logits.copy())


def evaluate(function, *pairs):
    """The metrics of a function and their intervals."""
    (kept,) = check_settings({"metrics": [function]})["metrics"]
    values, (scores,) = evaluate_metrics([kept], pairs, None)
    return values, find_intervals({"": scores})


def test_interval_of_a_function_of_arrays_is_scipys():
    values, intervals = evaluate(log_loss, LABELS, LOGITS)
    assert values == {"log_loss": log_loss(LABELS, LOGITS)}
    expected = bootstrap(lambda rows: log_loss(LABELS[rows], LOGITS[rows]), len(LABELS))
    assert intervals["log_loss"] == expected


def test_interval_of_a_function_of_lists_is_scipys():
    _, intervals = evaluate(share_of_words, WORDS, PREDICTED)

    def compute(rows):
        return share_of_words([WORDS[n] for n in rows], [PREDICTED[n] for n in rows])["words_right"]

    assert intervals["words_right"] == bootstrap(compute, len(WORDS))


def test_function_that_fails_on_a_resample_has_no_interval():
    assert evaluate(first_of_all, LABELS, LOGITS) == ({"first_of_all": 1.0}, {})


def test_function_that_computes_in_place_changes_nothing():
    logits = LOGITS.copy()
    values, intervals = evaluate(softmax_in_place, LABELS, logits)
    expected, expected_intervals = evaluate(softmax_of_a_copy, LABELS, LOGITS)
    np.testing.assert_array_equal(logits, LOGITS)
    assert list(values.values()) == list(expected.values())
    assert list(intervals.values()) == list(expected_intervals.values())


def test_function_may_return_a_tensor():
    def mean_of_ops(labels, logits):
        return keras.ops.mean(keras.ops.convert_to_tensor(logits))

    values, _ = evaluate(mean_of_ops, LABELS, LOGITS)
    assert values["mean_of_ops"] == pytest.approx(LOGITS.mean(), rel=1e-5)


def test_metric_along_the_axis_of_an_example_needs_another_axis():
    """Pearson's r of numbers is scipy's over the examples; along one example's number it is NaN."""
    gold, predicted = RNG.normal(size=(2, 31)).astype("float32")
    for axis in (0, -1):
        metric = keras.metrics.PearsonCorrelation(axis=axis)
        (kept,) = check_settings({"metrics": [metric]})["metrics"]
        if axis == -1:
            with raises(ValueError, "axis=0"):
                evaluate_metrics([kept], None, (gold, predicted))
            continue
        values, _ = evaluate_metrics([kept], None, (gold, predicted))
        (value,) = values.values()
        assert value == pytest.approx(stats.pearsonr(gold, predicted)[0], rel=1e-4)
