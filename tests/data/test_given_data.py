"""Labelled data in memory: every way in which people have them gives a file's records."""

import csv
import json
from collections import Counter

import numpy as np
import pytest
from helpers.errors import logged, raises
from helpers.sample_data import ANSWERED, TAGGED

import kbert
from kbert.data import samples
from kbert.tasks.answering.squad import read_squad, take_questions
from kbert.tasks.classification.training import TASK as CLASSIFY
from kbert.tasks.finetuning.task import task_of
from kbert.tasks.tagging.training import TASK as TAGGING

TEXTS = ["a cat sat", "the dog, red", "a big café", " a mat ", "the cat"]
PAIRS = ["a dog", "the dog", "red", "the mat", "a"]
LABELS = [2, 0, 1, 2, 10]
KINDS = [int, np.int8, np.uint16, np.int64, np.float32, str, np.str_]


def plain(records) -> list[tuple]:
    return [record[:3] for record in records]


@pytest.fixture
def files(tmp_path):
    """The same rows in a file of texts, and in one of pairs."""
    names = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for path, columns in zip(names, ((TEXTS,), (TEXTS, PAIRS)), strict=True):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(zip(*columns, LABELS, strict=True))
    return [plain(CLASSIFY.read(path)) for path in names]


# What people have, each with the same rows.


def tensors(*columns):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(columns if len(columns) > 1 else columns[0])


def package(name: str):
    return pytest.importorskip(name, reason=f"pip install {name}")


def frame(columns):
    return package("pandas").DataFrame(columns)


def dataset(columns):
    return package("datasets").Dataset.from_dict(columns)


ONE = {"text": TEXTS, "label": LABELS}
TWO = {"label": LABELS, "idx": [4, 3, 2, 1, 0], "hypothesis": PAIRS, "premise": TEXTS}
ROWS = list(zip(TEXTS, LABELS, strict=True))
BYTES = [text.encode() for text in TEXTS]
WAYS = {
    "pairs": (lambda: ROWS, 0),
    "iterator": (lambda: zip(TEXTS, LABELS, strict=True), 0),
    "array": (lambda: np.array([TEXTS, LABELS]).T, 0),
    "dicts": (lambda: [dict(zip(ONE, row, strict=True)) for row in ROWS], 0),
    "columns": (lambda: ONE, 0),
    "bytes": (lambda: zip(BYTES, LABELS, strict=True), 0),
    "triples": (lambda: zip(TEXTS, PAIRS, LABELS, strict=True), 1),
    "pair, label": (lambda: zip(zip(TEXTS, PAIRS, strict=True), LABELS, strict=True), 1),
    "columns of pairs": (lambda: TWO, 1),
    "tf.data": (lambda: tensors(TEXTS, LABELS), 0),
    "tf.data of dicts": (lambda: tensors(TWO), 1),
    "tf.data for fit": (lambda: tensors({"text": TEXTS, "pair": PAIRS}, LABELS), 1),
    "tf.data for fit, two inputs": (lambda: tensors((TEXTS, PAIRS), LABELS), 1),
    "eager tensors": (lambda: iter(tensors(TEXTS, LABELS)), 0),
    "pandas": (lambda: frame(ONE), 0),
    "pandas, another index": (lambda: frame(TWO).set_index("idx"), 1),
    "pandas, category": (lambda: frame(ONE).astype({"label": "category"}), 0),
    "pandas, text": (lambda: frame(ONE).astype({"text": "string", "label": "Int32"}), 0),
    "polars": (lambda: package("polars").DataFrame(TWO), 1),
    "pyarrow": (lambda: package("pyarrow").table(TWO), 1),
    "datasets": (lambda: dataset(TWO), 1),
    "datasets, columns": (lambda: dataset(ONE)[:], 0),
    "datasets, torch": (lambda: dataset(ONE).with_format("torch"), 0),
    "datasets, streamed": (lambda: dataset(ONE).to_iterable_dataset(), 0),
}
PEERS = ("pandas", "polars", "pyarrow", "datasets", "frame")  # packages that the gate installs


def mark_peers(ways) -> list:
    """The ways that need a package of others are left to the full round."""
    return [pytest.param(way, marks=[pytest.mark.full] * way.startswith(PEERS)) for way in ways]


@pytest.mark.filterwarnings("ignore")  # of the packages that hold the rows
@pytest.mark.parametrize("way", mark_peers(WAYS))
def test_rows_in_memory_are_those_of_a_file(files, way):
    make, which = WAYS[way]
    records = CLASSIFY.read(make(), "train")
    assert plain(records) == files[which]
    assert [record.location for record in records] == [f"train[{n}]" for n in range(len(TEXTS))]
    assert CLASSIFY.labels(records) == ("0", "1", "2", "10")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_labels_of_every_kind_have_the_same_names(kind):
    records = CLASSIFY.read([(text, kind(label)) for text, label in ROWS], "train")
    assert [record.label for record in records] == [str(label) for label in LABELS]


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_boolean_labels_are_named_as_in_csv(kind, tmp_path):
    rows = [("a cat", kind(1)), ("a dog", kind(0))]
    path = tmp_path / "some.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert plain(CLASSIFY.read(rows, "train")) == plain(CLASSIFY.read(path))
    assert CLASSIFY.labels(CLASSIFY.read(rows, "train")) == ("False", "True")


def test_records_are_taken_as_they_are():
    records = CLASSIFY.read([("a", 1), ("b", 0)], "train")
    assert CLASSIFY.read(records, "dev") == records
    for task, path in ((TAGGING, TAGGED), (task_of("qa"), ANSWERED)):
        assert task.read(task.read(path)[3:9], "dev") == task.read(path)[3:9]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_class_labels_give_their_names_in_their_order():
    """Not sorted as text, and one that no row has is there."""
    names = ["world", "sports", "business", "arts"]
    sets = package("datasets")
    features = sets.Features({"text": sets.Value("string"), "label": sets.ClassLabel(names=names)})
    rows = {"text": TEXTS, "label": [2, 0, 1, 2, 0]}
    data = sets.Dataset.from_dict(rows, features=features)
    records = CLASSIFY.read(data, "train")
    assert [record.label for record in records] == [names[label] for label in rows["label"]]
    assert CLASSIFY.labels(records) == tuple(names)
    hidden = sets.Dataset.from_dict(rows | {"label": [2, 0, -1, 2, 0]}, features=features)
    with raises(ValueError, "test[2]", '"label"', "world", "-1"):
        CLASSIFY.read(hidden, "test")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_tags_of_datasets_give_their_names():
    sets, names = package("datasets"), ["O", "B-PER", "I-PER"]
    tags = sets.Sequence(sets.ClassLabel(names=names))
    features = sets.Features({"tokens": sets.Sequence(sets.Value("string")), "ner_tags": tags})
    rows = {"tokens": [["Ada", "Lovelace"], ["No", "one", "."]], "ner_tags": [[1, 2], [0, 0, 0]]}
    records = TAGGING.read(sets.Dataset.from_dict(rows, features=features), "train")
    assert records[0].labels == ("B-PER", "I-PER")
    assert TAGGING.labels(records) == tuple(names)


def test_words_and_tags_in_memory_are_those_of_a_file():
    read = TAGGING.read(TAGGED)
    rows = [(sentence.words, sentence.labels) for sentence in read]
    dicts = [{"tokens": np.array(words), "tags": list(labels)} for words, labels in rows]
    for given in (rows, dicts, iter(rows)):
        found = TAGGING.read(given, "dev")
        assert [(one.words, one.labels) for one in found] == rows
        assert found[4].locations == ("dev[4]",) * len(rows[4][0])


def test_ragged_words_of_tf_data_are_taken():
    import tensorflow as tf

    words = tf.ragged.constant([["Ada", "said"], ["no"]])
    rows = tf.data.Dataset.from_tensor_slices((words, tf.ragged.constant([[1, 0], [0]])))
    found = TAGGING.read(rows, "train")
    assert [(one.words, one.labels) for one in found] == [
        (("Ada", "said"), ("1", "0")),
        (("no",), ("0",)),
    ]


def flat(content: dict) -> list[dict]:
    """The rows that `datasets` has of SQuAD's JSON, as its own script writes them."""
    return [
        {
            "id": entry["id"],
            "title": article["title"],
            "context": paragraph["context"],
            "question": entry["question"],
            "answers": {
                "text": [answer["text"] for answer in entry["answers"]],
                "answer_start": [answer["answer_start"] for answer in entry["answers"]],
            },
        }
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for entry in paragraph["qas"]
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "way", mark_peers(["whole", "articles", "rows", "arrays", "frame", "datasets"])
)
def test_questions_in_memory_are_those_of_the_file(way):
    content = json.loads(ANSWERED.read_text(encoding="utf-8"))
    rows = flat(content)
    arrays = [
        row | {"answers": {key: np.array(cells) for key, cells in row["answers"].items()}}
        for row in rows
    ]
    make = {
        "whole": lambda: content,
        "articles": lambda: content["data"],
        "rows": lambda: rows,
        "arrays": lambda: arrays,
        "frame": lambda: frame(rows),
        "datasets": lambda: package("datasets").Dataset.from_list(rows),
    }[way]
    expected = [question[:4] for question in read_squad(ANSWERED)]
    assert any(not answers for *_, answers in expected)  # SQuAD 2.0
    assert [question[:4] for question in take_questions(make(), "dev")] == expected


@pytest.mark.parametrize(
    ("task", "data", "said"),
    [
        ("classify", 3, ("train", "file", "rows", "DataFrame")),
        ("classify", b"a", ("train", "file", "rows")),
        ("classify", [], ("train", "classify", "none")),
        ("classify", ["a", "b"], ("train[0]", "(text, label)")),
        (
            "classify",
            [("a", 1), ("b", 2, 3, 4)],
            ("train[1]", "(text, label)", "['b', 2, 3, 4]"),
        ),
        ("classify", [("a", 1), ("b",)], ("train[1]", "(text, label)", "['b']")),
        ("classify", [("a", 1), ("b", None)], ("train[1]", '"label"', "text", "whole")),
        ("classify", [("a", 1), ("b", 0.5)], ("train[1]", '"label"', "0.5")),
        ("classify", [("a", 1), ("b", float("nan"))], ("train[1]", '"label"', "nan")),
        ("classify", [("a", 1), ("", 1)], ("train[1]", '"text"', "''")),
        ("classify", [("a", 1), (None, 1)], ("train[1]", '"text"', "None")),
        ("classify", [("a", 1), (b"\xff", 1)], ("train[1]", "UTF-8", "0xff")),
        ("classify", [("a", 1), (["b", "c"], [1, 0])], ("train[1]", '"label"', "multilabel")),
        ("classify", [{"body": "a", "label": 1}], ("train[0]", "text", "body")),
        ("classify", [{"text": "a"}], ("train[0]", "text", "label")),
        ("classify", [{"sentence": "a", "review": "b", "label": 1}], ("train[0]", "text", "label")),
        ("classify", {"text": ["a", "b"], "label": [1]}, ("train", "2 text", "1 label")),
        ("classify", {"text": "a", "label": 1}, ("train", "dict", "lists")),
        ("tag", [("a b", ["O"])], ("train[0]", '"words"', "list")),
        ("tag", [(["a"], ["O"]), (["a", "b"], ["O"])], ("train[1]", "2 words", "1 labels")),
        ("tag", [(["a", 3], ["O", "O"])], ("train[0]", '"words"', "3")),
        (
            "tag",
            [{"tokens": ["a"], "pos_tags": [1], "ner_tags": [1]}],
            ("train[0]", "ner_tags", "pos_tags"),
        ),
        ("tag", [{"tokens": ["a"]}], ("train[0]", '"labels"', "tokens")),
        ("qa", [("a", "b")], ("train[0]", "dict", "question")),
        (
            "qa",
            [{"question": "a", "answers": []}],
            ("train[0]", '"context"'),
        ),
        (
            "qa",
            [{"question": "a", "context": "b", "answers": {"text": ["c"], "answer_start": [0]}}],
            ("train[0]", "'c'", "character 0", "'b'"),
        ),
        (
            "qa",
            [{"question": "a", "context": "b", "answers": {"text": ["b"], "answer_start": []}}],
            ("train[0]", "1 answers", "0 answer_start"),
        ),
    ],
)
def test_a_bad_row_is_named_with_its_place(task, data, said):
    """Before a checkpoint is opened."""
    with raises(ValueError, *said) as error:
        kbert.finetune("bert-base-uncased", task, train=data)
    assert "\n" not in str(error.value)
    assert task_of(task).name == task


def test_endless_and_batched_data_sets_are_refused():
    data = tensors(TEXTS, LABELS)
    with raises(ValueError, "train", "end", "repeats"):
        kbert.finetune("bert-base-uncased", "classify", train=data.repeat())
    with raises(ValueError, "train[0]", "batch"):
        kbert.finetune("bert-base-uncased", "classify", train=data.batch(3))


def test_several_data_sets_by_name_are_refused():
    data = tensors(TEXTS, LABELS)
    with raises(ValueError, "train", "columns", "lists"):
        kbert.finetune("bert-base-uncased", "classify", train={"train": data, "test": data})


@pytest.mark.full
def test_dataset_dict_is_refused():
    sets = package("datasets")
    both = sets.DatasetDict(train=sets.Dataset.from_dict(ONE), test=sets.Dataset.from_dict(ONE))
    with raises(ValueError, "several", "train, test"):
        kbert.finetune("bert-base-uncased", "classify", train=both)


def test_columns_that_are_not_read_are_named():
    with logged("train", "context, place"):
        CLASSIFY.read([{"text": "a", "label": 1, "idx": 3, "context": "b", "place": "c"}], "train")


def examples(path):
    return [tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def test_sample_has_48_and_16_different_reviews_half_of_them_positive():
    train, dev = examples(samples.TRAIN), examples(samples.DEV)
    assert Counter(label for _, label in train) == {"positive": 24, "negative": 24}
    assert Counter(label for _, label in dev) == {"positive": 8, "negative": 8}
    assert len({text for text, _ in train + dev}) == 64


def test_a_csv_cell_may_be_long(tmp_path):
    """Python's csv reads 131,072 characters, unless it is told otherwise."""
    text = "cat " * 50_000
    (tmp_path / "a.csv").write_text(f"text,label\n{text},0\na dog,1\n", encoding="utf-8")
    assert [one.text for one in CLASSIFY.read(tmp_path / "a.csv")] == [text.strip(), "a dog"]
