"""Metrics against seqeval's, scikit-learn's and SQuAD's own numbers, saved in data/metrics.json."""

import json

import numpy as np
import pytest
from helpers.errors import raises
from helpers.sizes import FILES

from kbert.tasks.common import metrics

PEERS = json.loads((FILES / "metrics.json").read_text(encoding="utf-8"))


def figures_of(answers, predicted, odds=None) -> dict[str, float]:
    return metrics.compute_squad(*metrics.compare_answers(answers, predicted, odds))


def test_class_metrics_equal_scikit_learn():
    for case in PEERS["classes"]:
        gold, predicted = np.array(case["gold"]), np.array(case["predicted"])
        for name in ("accuracy", "f1", "macro_f1", "matthews"):
            assert getattr(metrics, name)(gold, predicted) == pytest.approx(case[name], abs=1e-12)


def test_entity_metrics_equal_seqeval():
    for case in PEERS["entities"]:
        for labels, expected in zip(case["gold"], case["entities"], strict=True):
            assert metrics.entities(labels) == {tuple(entity) for entity in expected}
        found = metrics.entity_scores(metrics.count_entities(case["gold"], case["predicted"]))
        for name in ("precision", "recall", "f1"):
            assert found[name] == pytest.approx(case[name], abs=1e-12)


def test_answer_metrics_equal_squad():
    for case in PEERS["answers"]:
        exact, f1 = metrics.answer_scores(case["answers"], case["predicted"])
        assert (exact, f1) == (case["exact"], pytest.approx(case["f1"], abs=1e-12))


def test_answer_metrics_equal_squad_2():
    """Exact, also the thresholds: it is the same search, in the same order."""
    for case in PEERS["squad2"]:
        found = figures_of(case["answers"], case["predicted"], case["odds"])
        assert found == pytest.approx(case["figures"], abs=1e-12)
        plain = figures_of(case["answers"], case["predicted"])
        pairs = zip(case["answers"], case["predicted"], strict=True)
        scores = [metrics.answer_scores(*pair) for pair in pairs]
        assert list(plain.values()) == pytest.approx(np.mean(scores, axis=0))


def test_best_threshold_reaches_its_scores():
    """Where no two odds are the same and the best is not to answer always."""
    chosen = [
        (case, name)
        for case in PEERS["squad2"]
        for name in ("exact", "f1")
        if len(set(case["odds"])) == len(case["odds"]) and case["figures"][f"best_{name}_thresh"]
    ]
    assert {name for _, name in chosen} == {"exact", "f1"}
    for case, name in chosen:
        odds = np.array(case["odds"]) - case["figures"][f"best_{name}_thresh"]
        found = figures_of(case["answers"], case["predicted"], odds)
        key = "exact_match" if name == "exact" else name
        assert found[key] == pytest.approx(case["figures"][f"best_{name}"])


def test_sentences_of_other_lengths_are_refused():
    with raises(ValueError, "2", "got 1"):
        metrics.count_entities([["O", "O"]], [["O"]])


def test_correlations_equal_scipy():
    for case in PEERS["numbers"]:
        gold, predicted = np.array(case["gold"]), np.array(case["predicted"])
        for name in ("pearson", "spearman"):
            assert getattr(metrics, name)(gold, predicted) == pytest.approx(case[name], abs=1e-12)


def test_multilabel_metrics_equal_scikit_learn():
    """Scores of one decimal: many are equal."""
    for case in PEERS["labels"]:
        gold, scores = np.array(case["gold"], bool), np.array(case["scores"])
        for name in ("micro_f1", "mean_f1"):
            assert getattr(metrics, name)(gold, scores > 0) == pytest.approx(case[name], abs=1e-12)
        expected = pytest.approx(case["mean_average_precision"], abs=1e-12)
        assert metrics.mean_average_precision(gold, scores) == expected
