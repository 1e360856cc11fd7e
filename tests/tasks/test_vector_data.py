"""What sentence vectors are trained with: files and rows, batches, and what is refused."""

import csv
import json

import numpy as np
import pytest
from helpers.errors import check_logged, raises

import kbert
from kbert.data.labelled.columns import ColumnOptions
from kbert.data.labelled.text_columns import ColumnBatches, TextColumns
from kbert.graph.names import TOKEN_IDS
from kbert.tasks.embedding.training import TASK, TextRecord

PAIR, TRIPLE = ("a cat", "a dog, too"), ("a cat", "a dog", "the sun")


def written(tmp_path, name: str, rows) -> str:
    path = tmp_path / name
    with open(path, "w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        elif path.suffix == ".csv":
            csv.writer(file).writerows(rows)
        else:
            file.writelines("\t".join(map(str, row)) + "\n" for row in rows)
    return str(path)


READ = {
    "pairs": ("a.tsv", [PAIR, TRIPLE[:2]], [PAIR, TRIPLE[:2]], None, None),
    "pairs of csv": ("a.csv", [PAIR], [PAIR], None, None),
    "header": ("a.csv", [("answer", "query"), PAIR], [PAIR[::-1]], None, None),
    "glue": ("a.tsv", [("question1", "question2"), PAIR], [PAIR], None, None),
    "triplets": ("a.tsv", [TRIPLE], [TRIPLE], None, None),
    "negatives": ("a.tsv", [(*TRIPLE, "7", "8")], [(*TRIPLE, "7", "8")], None, None),
    "scores": ("a.tsv", [(*PAIR, 2.5), (*PAIR, -1)], [PAIR, PAIR], [2.5, -1.0], None),
    "stsb": ("a.csv", [("sentence1", "sentence2", "label"), (*PAIR, 3)], [PAIR], [3.0], None),
    "labels": ("a.tsv", [("a cat", 1), ("a dog", 0)], [("a cat",), ("a dog",)], None, ["1", "0"]),
    "words": ("a.tsv", [("text", "label"), ("cat", "x")], [("cat",)], None, ["x"]),
    "objects": (
        "a.jsonl",
        [{"positive": "a dog", "negative": "the sun", "anchor": "a cat"}],
        [TRIPLE],
        None,
        None,
    ),
    "scored objects": (
        "a.jsonl",
        [{"sentence1": PAIR[0], "sentence2": PAIR[1], "score": 0.5}],
        [PAIR],
        [0.5],
        None,
    ),
}


@pytest.mark.parametrize("case", READ)
def test_embedding_files_of_every_kind_are_read(tmp_path, case):
    name, rows, texts, scores, labels = READ[case]
    found = TASK.read(written(tmp_path, name, rows))
    assert [record.texts for record in found] == texts
    assert [record.score for record in found] == (scores or [None] * len(texts))
    assert [record.label for record in found] == (labels or [None] * len(texts))
    first = 2 if len(rows) > len(texts) else 1
    assert found[0].location == f"{tmp_path / name}, line {first}"
    if name.endswith(".jsonl"):
        in_memory = TASK.read(rows, "train")
        assert [one[:3] for one in in_memory] == [one[:3] for one in found]


def test_embedding_rows_in_memory_are_read():
    found = TASK.read([PAIR, ("x", "y")], "train")
    assert found[1] == TextRecord(("x", "y"), location="train[1]")
    assert TASK.read([(*PAIR, np.float32(0.5))], "dev")[0].score == 0.5
    assert TASK.read({"text": ["a", "b"], "label": [1, 0]}, "train")[0].label == "1"
    assert TASK.read(found, "train")[0].texts == PAIR


def test_embedding_columns_can_be_named(tmp_path):
    names = ("id", "q", "a", "negative", "like")
    file = written(tmp_path, "a.csv", [names, (7, *TRIPLE, 0.5), (8, *PAIR, "x", 2)])
    found = TASK.read(file, options=ColumnOptions("q", "a"))
    assert [record.texts for record in found] == [TRIPLE, (*PAIR, "x")]
    file = written(tmp_path, "b.csv", [("q", "a", "like"), (*PAIR, 0.5)])
    (record,) = TASK.read(file, options=ColumnOptions("q", "a", "like"))
    assert (record.texts, record.score) == (PAIR, 0.5)
    (record,) = TASK.read([{"q": "a cat", "kind": 3}], "train", ColumnOptions("q", None, "kind"))
    assert (record.texts, record.label) == (("a cat",), "3")
    file = written(tmp_path, "c.tsv", [("x", *PAIR, "7")])
    (record,) = TASK.read(file, options=ColumnOptions("2", "3", "4", no_header=True))
    assert (record.texts, record.score) == (PAIR, 7.0)


def test_unknown_columns_and_headers_of_pairs_are_logged(tmp_path, messages):
    rows = [("anchor", "positive", "where"), (*PAIR, "x")]
    assert [one.texts for one in TASK.read(written(tmp_path, "a.csv", rows))] == [PAIR]
    check_logged(messages, "a.csv, line 1", ": where")


def test_possible_labels_are_warned_of(tmp_path, messages):
    rows = [(f"text {number}", "good") for number in range(30)]
    TASK.read(written(tmp_path, "a.tsv", rows))
    check_logged(messages, "a.tsv", "1 different")


REFUSED = {
    "a header of labels": (
        "a.tsv",
        [("body", "group"), *((f"text {n}", n % 3) for n in range(7))],
        ("'group'", "text_column="),
    ),
    "a header": ("a.csv", [("query", "reply"), PAIR], ("line 1", "'query, reply'")),
    "one column": (
        "a.tsv",
        [("a cat",)],
        ("a.tsv, line 1",),
    ),
    "nothing": ("a.tsv", [], ("a.tsv",)),
    "columns": ("a.tsv", [PAIR, TRIPLE], ("a.tsv", "line 2", "2", "got 3")),
    "no text": ("a.tsv", [PAIR, ("a", " ")], ("a.tsv", "line 2", '"column 2"')),
    "score": (
        "a.csv",
        [("text1", "text2", "score"), (*PAIR, "x")],
        ("line 2", "score", "'x'"),
    ),
    "a score among scores": (
        "a.tsv",
        [(*PAIR, 1), (*PAIR, 2), (*PAIR, "n/a")],
        ("line 3", "score", "'n/a'"),
    ),
    "nan": ("a.jsonl", [{"anchor": "a", "positive": "b", "score": None}], ("line 1", "score")),
    "kinds": (
        "a.jsonl",
        [{"anchor": "a", "positive": "b"}, {"anchor": "a", "positive": "b", "negative": "c"}],
        ("line 2", "2 texts", "3 texts"),
    ),
    "names": ("a.jsonl", [{"anchor": "a", "other": "b"}], ("line 1", "anchor")),
    "negative": ("a.tsv", [("a", "b", "b")], ("line 1", "negative")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_rows_are_refused_with_file_and_line(tmp_path, case):
    name, rows, said = REFUSED[case]
    with raises(ValueError, *said) as refused:
        TASK.read(written(tmp_path, name, rows))
    assert "\n" not in str(refused.value)
    assert str(tmp_path / name) in str(refused.value)


# batches


def columns_of(count: int, columns: int, **others) -> TextColumns:
    random = np.random.default_rng(1)
    texts = [[2, *random.integers(5, 99, random.integers(1, 9)), 3] for _ in range(count * columns)]
    return TextColumns.from_texts(
        texts, np.arange(count * columns).reshape(count, columns), **others
    )


def test_epoch_of_text_columns_has_each_record_once():
    examples = columns_of(31, 3)
    batches = ColumnBatches(examples, output="Vectors", batch_size=7, seed=3)
    rows = {tuple(row): number for number, row in enumerate(examples.columns.tolist())}
    seen = []
    for step in range(batches.steps_per_epoch):
        batch, part = batches.batch(step), batches.batch(step, slice(2, 5))
        assert (part.inputs[TOKEN_IDS] == batch.inputs[TOKEN_IDS][2:5]).all()
        weights = batch.weights["Vectors"]
        assert weights.sum() == pytest.approx(1.0)
        for ids, numbers, weight in zip(
            batch.inputs[TOKEN_IDS], batch.labels["Vectors"], weights, strict=True
        ):
            seen += [rows[tuple(numbers.tolist())]] if weight else []
            for text, number in zip(ids, numbers, strict=True):
                assert text[text > 0].tolist() == list(map(int, examples.ids[number]))
    assert sorted(seen) == list(range(31))


def test_equal_texts_have_one_number():
    examples = TextColumns.from_texts(
        [[2, 7, 3], [2, 8, 3], [2, 7, 3], [2, 9, 3]], [[0, 1], [2, 3]]
    )
    assert examples.columns.tolist() == [[0, 1], [0, 2]]


@pytest.mark.parametrize("drawn", [2, 3])
def test_labelled_sentences_get_partners_of_their_label(drawn):
    groups = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 0, 1], np.int32)
    examples = columns_of(11, 1, groups=groups)
    batches = ColumnBatches(
        examples, output="Vectors", batch_size=11, seed=3, texts_per_record=drawn
    )
    label_of = {
        tuple(map(int, row)): label for row, label in zip(examples.ids, groups, strict=True)
    }
    partners = set()
    for step in range(40):  # epochs
        batch = batches.batch(step)
        for ids, labels in zip(batch.inputs[TOKEN_IDS], batch.labels["Vectors"], strict=True):
            texts = [tuple(text[text > 0].tolist()) for text in ids]
            assert [label_of[text] for text in texts] == labels.tolist()
            assert texts[0] != texts[1] and labels[0] == labels[1]
            assert drawn == 2 or labels[2] != labels[0]
            partners.add(tuple(texts[:2]))
    assert len(partners) == 3 * 2 + 4 * 3 + 4 * 3  # every one of them, at some time


# what finetune refuses


@pytest.fixture
def source(berts):
    return berts["encoder"]


PAIRS = [(f"a cat {word}", f"a dog {word}") for word in "abcdefghijklm"]
SCORED = [(a, b, 0.5) for a, b in PAIRS]
NOT_TRAINED = {
    "dimension": (PAIRS, {"dimensions": (24, 25)}, ("24", "got 25")),
    "dimensions": (PAIRS, {"dimensions": (5, 5)}, ("dimensions",)),
    "loss": (PAIRS, {"loss": "cosent"}, ("infonce", "cosent")),
    "loss of scores": (
        SCORED,
        {"loss": "infonce"},
        ("infonce",),
    ),
    "unknown loss": (PAIRS, {"loss": "mse"}, ("loss", "infonce, triplet, cosine", "'mse'")),
    "duplicates": (PAIRS[:1] * 13, {}, ("train[0]", "13")),
    "one row": (PAIRS, {"batch_size": 1}, ("batch_size", "2")),
    "scale of scores": ([(*PAIR, 5.0)], {"loss": "cosine"}, ("train[0]", "scores", "-1 … 1")),
    "negatives": ([(*TRIPLE, "x")], {"loss": "triplet"}, ("train[0]",)),
    "labels": ([("a", 1), ("b", 1)], {}, ("train", "labels")),
    "packing": (PAIRS, {"packing": True}, ("packing",)),
    "smoothing": (PAIRS, {"label_smoothing": 0.1}, ("label_smoothing",)),
}


@pytest.mark.parametrize("case", NOT_TRAINED)
def test_finetune_refuses_bad_embedding_options(source, case):
    rows, options, said = NOT_TRAINED[case]
    with raises(ValueError, *said) as refused:
        kbert.finetune(source, "embed", train=rows, progress=False, **{"batch_size": 13} | options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name, value", [("loss", "cosent"), ("dimensions", (3,)), ("scale", 2.0)])
def test_other_tasks_refuse_embedding_settings(source, name, value):
    with raises(ValueError, name, "classify"):
        kbert.finetune(source, "classify", train=[("a", "x")], **{name: value})
