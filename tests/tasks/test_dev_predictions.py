"""What a run's page shows of dev predictions: scikit-learn's numbers, and the worst examples."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from kbert.data.labelled.text_columns import TextColumns
from kbert.graph.names import CLASSIFIER, SPAN_END, SPAN_START, TOKEN_CLASSIFIER
from kbert.tasks import choosing
from kbert.tasks.answering import training as answering
from kbert.tasks.answering.squad import Question
from kbert.tasks.classification.reading import Labelled
from kbert.tasks.classification.training import MULTI_LABEL, REGRESSION, TASK
from kbert.tasks.embedding.predictions import describe_similarities
from kbert.tasks.embedding.tables import TextRecord
from kbert.tasks.finetuning.dev_predictions import count_confusions
from kbert.tasks.tagging import training as tagging
from kbert.tasks.tagging.reading import Sentence
from kbert.tasks.tagging.windows import Window

LABELS = ("bad", "fair", "good")
RANDOM = np.random.default_rng(3)
GOLD = RANDOM.integers(0, 3, 60)
LOGITS = RANDOM.normal(size=(60, 3)) * 3
SETS = RANDOM.random((60, 3)) < 0.4


def labelled(labels) -> list[Labelled]:
    return [Labelled(f"text {n}", label, None, f"line {n}") for n, label in enumerate(labels)]


def describe_classes():
    records = labelled(LABELS[number] for number in GOLD)
    examples = SimpleNamespace(labels={CLASSIFIER: GOLD.tolist()})
    return TASK.describe_predictions(records, examples, {CLASSIFIER: list(LOGITS)}, LABELS)


def describe_sets():
    records = labelled(
        [label for label, has in zip(LABELS, row, strict=True) if has] for row in SETS
    )
    examples = SimpleNamespace(labels={CLASSIFIER: list(SETS.astype("float32"))})
    return MULTI_LABEL.describe_predictions(records, examples, {CLASSIFIER: list(LOGITS)}, LABELS)


@pytest.mark.full
def test_matrix_and_scores_of_labels_are_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    found = describe_classes()
    predicted = LOGITS.argmax(1)
    assert found.matrix == metrics.confusion_matrix(GOLD, predicted).tolist()
    assert_scores(found, metrics.precision_recall_fscore_support(GOLD, predicted))


def test_thousands_of_labels_are_counted_in_little_memory():
    """A matrix of all pairs would be 7 GB."""
    import tracemalloc

    gold = np.arange(30_000)
    tracemalloc.start()
    counts = count_confusions(gold, np.roll(gold, 1), [f"{number}" for number in gold])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**26
    assert "matrix" not in counts and len(counts["label_scores"]) == len(gold)


@pytest.mark.full
def test_scores_of_several_labels_are_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    found = describe_sets()
    assert not found.matrix
    expected = metrics.precision_recall_fscore_support(SETS, LOGITS > 0)
    assert_scores(found, expected)


def assert_scores(found, expected) -> None:
    rows = [each[1:] for each in found.label_scores]
    assert [each.label for each in found.label_scores] == list(LABELS)
    np.testing.assert_allclose(np.array(rows), np.stack(expected, 1), rtol=1e-12)


@pytest.mark.full
def test_baselines_are_scikit_learns():
    """Those of its DummyClassifier and DummyRegressor, fitted on the training labels."""
    dummy = pytest.importorskip("sklearn.dummy")
    train, dev = GOLD[:40], GOLD[40:]
    records = [labelled(LABELS[number] for number in numbers) for numbers in (train, dev)]
    model = dummy.DummyClassifier(strategy="most_frequent").fit(train, train)
    baseline = TASK.find_baseline(*records)
    assert baseline.metric == "accuracy"
    assert baseline.value == pytest.approx(model.score(dev, dev))

    numbers = [LOGITS[:40, 0], LOGITS[40:, 0]]
    regressor = dummy.DummyRegressor().fit(numbers[0], numbers[0])
    error = np.mean((regressor.predict(numbers[1]) - numbers[1]) ** 2)
    baseline = REGRESSION.find_baseline(*map(labelled, numbers))
    assert (baseline.metric, baseline.value) == ("mse", pytest.approx(error))


@pytest.mark.full
def test_scores_of_entity_types_are_seqevals():
    """seqeval 1.2.2's classification_report(output_dict=True) of these sentences, recorded."""
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC", "I-LOC", "O"], ["B-PER", "O"]]
    predicted = [["B-PER", "I-PER", "O", "O"], ["O", "B-LOC", "O", "O"], ["B-PER", "B-PER"]]
    found, _ = describe_tags(gold, predicted)
    assert found.scored == "type of entity"
    rows = {row.label: row[1:] for row in found.label_scores}
    assert rows == {
        "LOC": (0.0, 0.0, 0.0, 2),
        "PER": (pytest.approx(2 / 3), 1.0, pytest.approx(0.8), 2),
    }


def describe_tags(gold, predicted):
    """The predictions of sentences of one-token words, and their records."""
    labels = tuple(sorted({label for sentence in gold + predicted for label in sentence}))
    records, windows, logits = [], [], []
    for number, (expected, answers) in enumerate(zip(gold, predicted, strict=True)):
        words = tuple(f"w{place}" for place in range(len(expected)))
        records.append(Sentence(words, tuple(expected), tuple("x, line 1" for _ in words)))
        tokens = range(1, len(words) + 1)
        ids = [0] * (len(words) + 2)
        windows.append(Window(ids, tuple(range(len(words))), tuple(tokens), number))
        values = np.zeros((len(ids), len(labels)))
        for place, label in zip(tokens, answers, strict=True):
            values[place, labels.index(label)] = 4.0
        logits.append(values)
    examples = SimpleNamespace(labels={TOKEN_CLASSIFIER: []}, notes=windows)
    outputs = {TOKEN_CLASSIFIER: logits}
    return tagging.TASK.describe_predictions(records, examples, outputs, labels), records


def test_wrong_words_are_marked():
    gold = [["O", "B-X", "O"], ["O", "O"]]
    found, _ = describe_tags(gold, [["O", "O", "O"], ["O", "O"]])
    worst, other = found.examples
    marks = [piece for (pieces,) in [worst.texts] for piece in pieces if piece.mark]
    prob = np.exp(4) / (np.exp(4) + 1)  # of two labels
    assert [(piece.text, piece.mark) for piece in marks] == [("w1", f"B-X → O {prob:.0%}")]
    assert worst.is_wrong and not other.is_wrong
    assert worst.error == pytest.approx(-np.log(1 - prob) - 2 * np.log(prob))


def test_worst_examples_have_the_largest_loss_and_their_probabilities():
    found = describe_classes()
    exponentials = np.exp(LOGITS)
    probs = exponentials / exponentials.sum(1, keepdims=True)
    of_gold = probs[np.arange(60), GOLD]
    order = np.argsort(of_gold, kind="stable")[:20]
    assert [each.location for each in found.examples] == [f"line {n}" for n in order]
    for number, example in zip(order, found.examples, strict=True):
        (gold,), (predicted,) = example.gold, example.predicted
        assert gold == (LABELS[GOLD[number]], pytest.approx(of_gold[number]))
        assert predicted == (LABELS[probs[number].argmax()], pytest.approx(probs[number].max()))
        assert example.is_wrong == (gold.text != predicted.text)


def test_many_labels_have_a_table_without_a_matrix():
    labels = tuple(f"label {n}" for n in range(21))
    records = labelled(labels)
    outputs = {CLASSIFIER: list(np.eye(21))}
    examples = SimpleNamespace(labels={CLASSIFIER: list(range(21))})
    found = TASK.describe_predictions(records, examples, outputs, labels)
    assert not found.matrix and len(found.label_scores) == 21


def test_several_labels_show_those_of_the_data_and_those_predicted():
    found = describe_sets()
    number = int(found.examples[0].location.removeprefix("line "))
    expected = [label for label, has in zip(LABELS, SETS[number], strict=True) if has]
    predicted = [label for label, value in zip(LABELS, LOGITS[number], strict=True) if value > 0]
    assert [answer.text for answer in found.examples[0].gold] == (expected or ["no label"])
    assert [answer.text for answer in found.examples[0].predicted] == (predicted or ["no label"])


def test_numbers_have_points_and_the_largest_errors():
    gold = np.array([1.0, 2.0, 3.0])
    examples = SimpleNamespace(labels={CLASSIFIER: gold.tolist()})
    outputs = {CLASSIFIER: list(np.array([[1.5], [2.0], [0.0]]))}
    found = REGRESSION.describe_predictions(labelled(gold), examples, outputs, ("score",))
    assert found.points == [(1.0, 1.5), (2.0, 2.0), (3.0, 0.0)]
    assert [each.error for each in found.examples] == [3.0, 0.5, 0.0]


def test_answers_are_marked_in_their_context():
    context = "Ada wrote it in 1843 in London."
    record = Question("q1", "When was it written?", context, (("1843", 16),), "dev.json, q1")
    offsets = [(0, 3), (4, 9), (16, 20), (24, 30)]
    note = answering.ContextWindow(0, 2, offsets)
    start, end = np.zeros(7), np.zeros(7)
    start[5] = end[5] = 9.0  # London
    outputs = {SPAN_START: [start], SPAN_END: [end]}
    examples = SimpleNamespace(labels={SPAN_START: [4], SPAN_END: [4]}, notes=[note])
    found = answering.TASK.describe_predictions([record], examples, outputs, None)
    (example,) = found.examples
    assert ("London", "predicted") in example.texts[1]
    assert example.gold[0].text == "1843" and example.predicted[0].text == "London"
    prob = np.exp(9) / (np.exp(9) + 6)
    assert example.predicted[0].prob == pytest.approx(prob**2)
    assert "".join(piece.text for piece in example.texts[1]) == context


def test_choices_are_named_and_chance_is_their_baseline():
    records = [choosing.Question("It", ("rains.", "is."), 1), choosing.Question("A", ("b", "c"), 0)]
    outputs = {CLASSIFIER: [np.array([3.0, 0.0]), np.array([1.0, 0.0])]}
    found = choosing.TASK.describe_predictions(records, SimpleNamespace(), outputs, None)
    worst = found.examples[0]
    assert worst.gold[0].text == "is." and worst.predicted[0].text == "rains."
    assert worst.is_wrong and not found.examples[1].is_wrong
    assert choosing.TASK.find_baseline(records, records).value == 0.5


def test_nearest_wrong_texts_of_embeddings():
    unit = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, 0.6]])
    records = [TextRecord(("query a", "text a")), TextRecord(("query b", "text b"))]
    columns = np.array([[0, 1], [2, 3]])
    found = describe_similarities("pairs", records, TextColumns([], [], {}, columns=columns), unit)
    for example, right, wrong in zip(found.examples, "ab", "ba", strict=True):
        assert example.gold[0].text == f"0.600 text {right}"
        assert example.predicted[0].text == f"0.800 text {wrong}"
        assert example.is_wrong and example.error == pytest.approx(0.2)


def test_scored_pairs_compare_ranks():
    unit = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    columns = np.array([[0, 0], [0, 1], [0, 2]])
    records = [
        TextRecord(("a", "a"), 0.0),
        TextRecord(("a", "b"), 0.5),
        TextRecord(("a", "c"), 1.0),
    ]
    examples = TextColumns([], [], {}, columns=columns, scores=np.array([0.0, 0.5, 1.0]))
    found = describe_similarities("scored pairs", records, examples, unit)
    # ranks of the scores 0, ½, 1, of the cosines 1, 0, ½
    assert [each.error for each in found.examples] == pytest.approx([1.0, 0.5, 0.5])
    assert found.points == [(0.0, 1.0), (0.5, 0.0), (1.0, 0.6)]


def test_predictions_are_json_numbers():
    """Python's own numbers, which any page can write."""
    json.dumps([describe_classes().examples, describe_sets().label_scores])
