"""Metrics by functions of the user: their intervals are scipy's, by the same draws."""

import numpy as np
import pytest
from scipy import stats

from kbert.tasks.finetuning.user_metrics import evaluate_metrics
from kbert.tasks.intervals import RESAMPLES, find_intervals
from kbert.training.setting_rules import check_settings

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
