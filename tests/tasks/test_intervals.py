"""95 % intervals of metrics: scipy's bootstrap with the same draws, each task's, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from kbert.data.labelled.length_buckets import Examples
from kbert.data.labelled.text_columns import TextColumns
from kbert.graph.names import CLASSIFIER, TOKEN_CLASSIFIER
from kbert.tasks.common import metrics
from kbert.tasks.common.intervals import RESAMPLES, Scores, find_intervals
from kbert.tasks.embedding.evaluation import score_embeddings
from kbert.tasks.finetuning.task import task_of
from kbert.tasks.tagging.reading import Sentence
from kbert.training.loop.best_weights import BestWeights

RNG = np.random.default_rng(3)
GOLD = RNG.integers(0, 2, 87)
PREDICTED = np.where(RNG.random(87) < 0.8, GOLD, 1 - GOLD)


def by_scipy(compute, *columns) -> tuple[float, float]:
    """The interval by scipy; one resample at a time, it draws what NumPy draws for kbert."""
    found = stats.bootstrap(
        columns,
        compute,
        n_resamples=RESAMPLES,
        batch=1,
        vectorized=False,
        paired=True,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return pytest.approx((found.low, found.high), abs=1e-12)


def classify(gold, predicted) -> Scores:
    count = len(gold)
    examples = Examples([[1]] * count, [[0]] * count, {CLASSIFIER: gold.tolist()})
    outputs = {CLASSIFIER: list(np.eye(2)[predicted])}
    return task_of("classify").scores([], examples, outputs, ("no", "yes"))


def test_intervals_of_classes_are_of_multinomial_draws_and_near_scipys():
    gold, predicted = np.tile(GOLD, 3), np.tile(PREDICTED, 3)
    found = find_intervals({"": classify(gold, predicted)})
    rng, drawn = np.random.default_rng(0), []
    cells, counts = np.unique(np.stack([gold, predicted]), axis=1, return_counts=True)
    for _ in range(RESAMPLES):
        drawn.append(np.repeat(cells, rng.multinomial(len(gold), counts / len(gold)), axis=1))
    for name in ("accuracy", "f1", "matthews"):
        compute = getattr(metrics, name)
        low, high = np.percentile([compute(*pair) for pair in drawn], (2.5, 97.5))
        assert found[name] == pytest.approx((low, high), abs=1e-12)
        options = {"n_resamples": 1000, "vectorized": False, "paired": True, "rng": 5}
        near = stats.bootstrap((gold, predicted), compute, method="percentile", **options)
        near = near.confidence_interval
        assert found[name] == pytest.approx((near.low, near.high), abs=0.15 * (high - low))


def test_intervals_of_numbers_equal_scipys():
    rows = RNG.normal(size=(2, 31))
    found = find_intervals({"": Scores(tuple(rows), lambda *two: {"r": metrics.pearson(*two)})})
    assert found["r"] == by_scipy(metrics.pearson, *rows)


def test_many_texts_of_many_classes_are_resampled_at_once():
    """Peers of `metrics` are in test_metrics.py; scikit-learn's macro F1 leaves absent ones out."""
    gold = RNG.integers(0, 700, 20_000)
    predicted = np.where(RNG.random(20_000) < 0.9, gold, RNG.integers(0, 700, 20_000))
    outputs = {CLASSIFIER: [_OneHot(place) for place in predicted]}
    examples = Examples([[1]] * 20_000, [[0]] * 20_000, {CLASSIFIER: gold.tolist()})
    scores = task_of("classify").scores([], examples, outputs, [str(n) for n in range(700)])
    assert len(scores) == 20_000 and len(scores.columns[0]) < 3_000
    for name in ("accuracy", "matthews"):
        assert scores.metrics()[name] == pytest.approx(getattr(metrics, name)(gold, predicted))
    assert scores.metrics()["f1"] == pytest.approx(metrics.macro_f1(gold, predicted))
    low, high = find_intervals({"": scores})["f1"]
    assert low < metrics.macro_f1(gold, predicted) < high < low + 0.02


class _OneHot(int):
    """An output of 700 classes, that takes no memory."""

    def argmax(self) -> int:
        return self


def test_number_of_resamples_is_chosen_by_size():
    def count(*columns, counts=None):
        return Scores(columns, dict, counts).count_resamples()

    assert count(np.zeros(200_000)) == RESAMPLES
    assert count(np.zeros(400_000)) == 100 and count(np.zeros((100_000, 4)), np.zeros(0)) == 100
    assert count(np.zeros(800_000)) == 50 and count(np.zeros(800_001)) == 0
    words = np.fromiter((np.zeros(40_000) for _ in range(10)), object, 10)
    assert count(words) == 100
    assert [count(np.zeros(n)) for n in (9, 10)] == [0, RESAMPLES]
    assert [count(np.zeros(2), counts=np.array([4, n])) for n in (5, 6)] == [0, RESAMPLES]


def test_metric_that_is_not_a_number_has_no_interval():
    values = np.arange(12.0)
    values[3] = np.nan
    scores = Scores((values,), lambda row: {"mean": row.mean(), "kinds": len(set(row))})
    assert list(find_intervals({"": scores})) == ["kinds"]


@pytest.mark.parametrize(("share", "interval"), [(1, (0.8064, 1)), (0, (0, 0.1936))])
def test_accuracy_of_all_or_none_has_wilsons_interval(share, interval):
    """Its bootstrap interval would have no width, as those of F1 and Matthews' correlation."""
    gold = np.tile([0, 1], 8)
    found = find_intervals({"-mm": classify(gold, gold if share else 1 - gold)})
    assert list(found) == ["accuracy-mm"]
    assert found["accuracy-mm"] == pytest.approx(interval, abs=1e-4)
    wilson = stats.binomtest(16 * share, 16).proportion_ci(method="wilson")
    assert found["accuracy-mm"] == pytest.approx((wilson.low, wilson.high), abs=1e-6)


def test_intervals_are_the_same_each_time_and_hold_the_metric():
    scores = classify(GOLD, PREDICTED)
    found, values = find_intervals({"": scores}), scores.metrics()
    assert found == find_intervals({"": scores})
    assert all(low < values[name] < high for name, (low, high) in found.items())


def test_questions_without_answer_are_resampled_with_their_odds():
    answers = [["a b"], [], ["c"], ["d e f"], []] * 9
    predicted = ["a", "x", "c", "d e", ""] * 9
    odds = np.tile([-1.0, 2.0, -3.0, 1.0, -2.0], 9)
    columns = metrics.compare_answers(answers, predicted, odds)
    found = find_intervals({"": Scores(columns, metrics.compute_squad)})

    def f1(rows):
        return metrics.compute_squad(*(column[rows] for column in columns))["f1"]

    assert found["f1"] == by_scipy(f1, np.arange(45))
    assert set(found) <= set(metrics.compute_squad(*columns))


def test_sentences_are_resampled_whole():
    task, labels = task_of("tag"), ("B-x", "I-x", "O")
    sizes = [1, 4, 7] * 5
    words = [tuple(labels[(size + place) % 3] for place in range(size)) for size in sizes]
    records = [Sentence(("w",) * len(row), row, ("",) * len(row)) for row in words]

    class Note:
        def __init__(self, record, length):
            self.record, self.words, self.tokens = record, range(length), range(length)

    notes = [Note(place, len(one.words)) for place, one in enumerate(records)]
    outputs = [RNG.normal(size=(len(one.words), 3)) for one in records]
    examples = Examples([[1]] * 15, [[0]] * 15, {}, notes=notes)
    scores = task.scores(records, examples, {TOKEN_CLASSIFIER: outputs}, labels)
    said = [[labels[row.argmax()] for row in one] for one in outputs]

    def f1(rows):
        gold = [records[row].labels for row in rows]
        counts = metrics.count_entities(gold, [said[row] for row in rows])
        return metrics.entity_scores(counts)["f1"]

    assert find_intervals({"": scores})["f1"] == by_scipy(f1, np.arange(15))


def test_queries_are_resampled_and_cut_vectors_have_their_own():
    vectors = RNG.normal(size=(60, 6))
    columns = np.stack([np.repeat(np.arange(12), 2), np.arange(12, 36), np.arange(36, 60)], 1)
    examples = TextColumns.from_texts([[2, n + 5, 3] for n in range(60)], columns)
    scores = score_embeddings("triplets", examples, vectors)
    assert [len(column) for column in scores.columns] == [12, 12, 12]
    found = find_intervals(
        {"": scores, "_3": score_embeddings("triplets", examples, vectors[:, :3])}
    )
    names = ["accuracy", "recall@1", "recall@5", "recall@10", "mrr@10"]
    names += [f"{name}_3" for name in names]
    assert list(found) == [name for name in names if name in found] and "mrr@10" in found
    assert found["mrr@10"] == by_scipy(np.mean, scores.columns[2][:, 3])


def test_intervals_are_of_the_weights_that_are_kept():
    """Of the best evaluation, of the last, or of a new one where an earlier start did it."""
    better, worse = classify(GOLD, GOLD), classify(GOLD, PREDICTED)

    left = [worse, better, worse, worse]

    def evaluate(engine):
        scores = {"": left.pop(0)}
        return scores[""].metrics(), lambda: find_intervals(scores)

    engine = SimpleNamespace(state=SimpleNamespace(weights=dict))
    best = BestWeights(engine, evaluate, "accuracy", True, None)
    for _ in range(3):
        best.evaluate()
    for scores in (better, worse):
        assert best.find_intervals(scores.metrics()) == find_intervals({"": scores})
    assert best.find_intervals({"accuracy": 0.25}) == find_intervals({"": worse})
    assert left == []  # evaluated again
    assert BestWeights(engine, None, "accuracy", True, None).find_intervals({}) == {}
