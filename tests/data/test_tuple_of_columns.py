"""A tuple of columns, such as (texts, labels), where rows are taken from memory."""

import numpy as np
import pytest
from helpers.errors import raises

import kbert
from kbert.data.labelled.columns import ColumnOptions
from kbert.tasks.finetuning.task import records_of, task_of

TEXTS = ["a cat sat", "the dog, red", "a big café", "a mat", "the cat"]
PAIRS = ["a dog", "the dog", "red", "the mat", "a"]
LABELS = ["good", "bad", "good", "bad", "bad"]
NUMBERS = [1, 0, 1, 0, 0]
SCORES = [0.5, 1.0, 0.25, 0.0, 0.75]
WORDS = [["Ada", "said"], ["no"], ["Oslo", "is", "far"], ["yes"], ["so", "so"]]
TAGS = [["B-PER", "O"], ["O"], ["B-LOC", "O", "O"], ["O"], ["O", "O"]]
SETS = [["good"], [], ["good", "long"], ["long"], ["long"]]


def read(task, data):
    """Return records without their locations, which the order gives."""
    records = records_of(task_of(task), data, "train")
    if task == "embed":
        return [(record.texts, record.score, record.label) for record in records]
    return [record[:2] if task == "tag" else record[:3] for record in records]


def pairs():
    return list(zip(TEXTS, PAIRS, strict=True))


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("classify", (TEXTS, LABELS)),
        ("classify", (TEXTS, PAIRS, LABELS)),
        ("classify", (pairs(), NUMBERS)),
        ("classify", (tuple(TEXTS), tuple(NUMBERS))),
        ("classify", (np.array(TEXTS), np.array(NUMBERS))),
        ("regress", (TEXTS, PAIRS, SCORES)),
        ("multilabel", (TEXTS, SETS)),
        ("multilabel", (TEXTS, np.eye(5, 3, dtype=int))),
        ("tag", (WORDS, TAGS)),
        ("embed", (TEXTS, NUMBERS)),
        ("embed", (TEXTS, PAIRS, SCORES)),
    ],
)
@pytest.mark.parametrize("count", [5, 4, 1])
def test_columns_give_the_records_of_their_rows(task, columns, count):
    columns = tuple(column[:count] for column in columns)
    rows = [tuple(row) for row in zip(*columns, strict=True)]
    found = read(task, columns)
    assert found == read(task, rows) and len(found) == count


def test_long_columns_of_texts_are_pairs_to_embed():
    columns = TEXTS * 5, PAIRS * 5
    assert read("embed", columns) == read("embed", list(zip(*columns, strict=True)))


def test_pairs_with_scores_come_apart():
    rows = list(zip(TEXTS, PAIRS, SCORES, strict=True))
    assert read("embed", (pairs(), SCORES)) == read("embed", rows)


@pytest.mark.full
def test_columns_of_pandas_are_taken():
    pandas = pytest.importorskip("pandas")
    columns = pandas.Series(TEXTS), pandas.Series(NUMBERS, index=range(5, 0, -1))
    assert read("classify", columns) == read("classify", (TEXTS, NUMBERS))


@pytest.mark.parametrize(
    ("task", "rows"),
    [
        ("classify", (["a", 1], ["b", 0])),
        ("classify", (("a", 1), ("b", 0), ("c", 1))),
        ("classify", ({"text": "a", "label": 1}, {"text": "b", "label": 0})),
        ("tag", ([["a", "b"], ["O", "O"]], [["c"], ["O"]])),
        ("embed", (("a", "b", 0.5), ("c", "d", 0.25))),
        ("classify", tuple(zip(TEXTS, LABELS, strict=True))),
    ],
)
def test_rows_in_a_tuple_stay_rows(task, rows):
    assert read(task, rows) == read(task, list(rows))


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("classify", (["a", "b"], [1, 0])),
        ("classify", (["a", "b", "c"], ["d", "e", "f"], [1, 0, 1])),
        ("classify", ([("a", "b"), ("c", "d")], ["good", "bad"])),
        ("tag", ([["a", "b"], ["c"]], [["O", "O"], ["O"]])),
        ("embed", (["a", "b"], ["c", "d"], [0.5, 1.0])),
    ],
)
def test_two_or_three_examples_are_columns_where_they_cannot_be_rows(task, columns):
    rows = list(zip(*columns, strict=True))
    assert read(task, columns) == read(task, rows)


@pytest.mark.parametrize(
    ("task", "data"),
    [
        ("classify", (["a", "b"], ["good", "bad"])),
        ("classify", (("a", "good"), ("b", "bad"))),
        ("classify", (["a", "b", "c"], ["d", "e", "f"], ["x", "y", "z"])),
        ("tag", ([["a", "b"], ["c", "d"]], [["O", "O"], ["O", "O"]])),
        ("embed", (["a", "b"], ["c", "d"])),
        ("embed", (tuple(TEXTS), tuple(PAIRS))),
        ("embed", (["anchor", "similar", "other", "else"], ["query", "answer", "no", "none"])),
        ("embed", tuple([f"{n} {part}" for n in range(12)] for part in "ab")),
    ],
)
def test_what_may_be_rows_or_columns_is_refused_with_both_ways(task, data):
    with raises(ValueError, "dev", "list", "rows", "dict", "columns") as refused:
        records_of(task_of(task), data, "dev")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "columns", [(TEXTS, NUMBERS[:4]), (TEXTS[:3], NUMBERS[:2]), (TEXTS, PAIRS, NUMBERS[:2])]
)
def test_columns_of_different_lengths_are_refused_with_these(columns):
    lengths = " and ".join(str(len(column)) for column in columns)
    with raises(ValueError, "train", lengths):
        kbert.finetune("bert-base-uncased", "classify", train=columns)


@pytest.mark.parametrize("data", [("a", "b"), (np.str_("a text"), np.str_("good"))])
def test_texts_in_a_tuple_are_no_columns(data):
    with raises(ValueError, "train[0]"):
        records_of(task_of("classify"), data, "train")


def test_a_wrong_label_is_named_with_its_place():
    with raises(ValueError, "train[3]", '"label"'):
        read("classify", (TEXTS, [1, 0, 1, None, 0]))


MANY, CLASSES = ["a cat", "the dog"] * 13, ["good", "bad"] * 13
WEIGHTS = [1.0, 2.0, 2.0, 1.0] * 6 + [1.0, 1.0]  # with both weights for each class


@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("classify", (MANY, CLASSES, WEIGHTS)),
        ("classify", (MANY, CLASSES, [int(weight) for weight in WEIGHTS])),
        ("classify", (MANY, np.array(CLASSES), np.array(WEIGHTS, "float32"))),
        ("classify", (MANY[:2], CLASSES[:2], WEIGHTS[:2])),
        ("classify", (TEXTS, NUMBERS, SCORES)),
        ("regress", (TEXTS, SCORES, SCORES)),
        ("multilabel", (TEXTS, SETS, SCORES)),
        ("multilabel", (MANY, CLASSES, WEIGHTS)),
    ],
)
def test_weights_after_labels_are_refused_as_in_keras(task, columns, as_rows):
    """Else labels would be second texts, and weights labels."""
    data = list(zip(*columns, strict=True)) if as_rows else columns
    with raises(ValueError, "train", "'weight'", "sample_weight_column") as refused:
        read(task, data)
    assert "\n" not in str(refused.value)


def test_weights_in_a_dict_are_read():
    columns = {"text": MANY, "label": CLASSES, "weight": WEIGHTS}
    task = task_of("classify")
    records = records_of(task, columns, "train", columns=ColumnOptions(weight="weight"))
    assert [record.weight for record in records] == WEIGHTS


@pytest.mark.parametrize("kind", [int, float])
def test_repeated_second_texts_with_numbers_are_read_where_they_are_named_or_in_pairs(kind):
    labels = [kind(label) for label in [1, 0, 0, 1] * 6 + [1, 1]]
    pairs = list(zip(MANY, CLASSES, strict=True))
    for data in (
        {"text": MANY, "pair": CLASSES, "label": labels},
        (pairs, labels),
        list(zip(pairs, labels, strict=True)),
    ):
        found = read("classify", data)
        assert found[:2] == [("a cat", "1", "good"), ("the dog", "0", "bad")]


def test_repeated_second_texts_are_read_where_the_labels_are_known():
    known = ColumnOptions(known_labels=("1", "2"))
    columns = MANY, CLASSES, [int(weight) for weight in WEIGHTS]
    assert len(records_of(task_of("classify"), columns, "dev", columns=known)) == len(MANY)


@pytest.mark.parametrize("count", [2, 26])
def test_columns_in_an_inner_tuple_are_refused(count):
    data = ((MANY[:count], CLASSES[::-1][:count]), CLASSES[:count])
    with raises(ValueError, "train", "(texts, second_texts, labels)"):
        read("classify", data)
