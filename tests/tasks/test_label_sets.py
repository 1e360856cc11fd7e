"""Several labels per text as data have them: rows and columns of 0 and 1, lists, separators."""

import json

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import check_logged, raises
from helpers.small_berts import small_bert

import kbert
from kbert.data.labelled.columns import ColumnOptions
from kbert.graph.names import CLASSIFIER
from kbert.tasks.classification.training import TASK as CLASSIFY
from kbert.tasks.finetuning.task import read_data, records_of, task_of

MULTI = task_of("multilabel")
TEXTS = ["goals and taxes", "a late goal", "it rained", "the vote", "a quiet day"]
ROWS = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]])
NAMED = [("sport", "politics"), ("sport",), ("weather",), ("politics",), ()]
LABELS = ("politics", "sport", "weather")


def targets(records, labels) -> list[list[int]]:
    """The rows of 0 and 1 that a model would learn."""
    return [[int(label in record.label) for label in labels] for record in records]


def rows_of(kind: str) -> list:
    """ROWS as a program may hold it."""
    return {
        "ints": ROWS.tolist(),
        "floats": ROWS.astype(float).tolist(),
        "bools": ROWS.astype(bool).tolist(),
        "tuples": list(map(tuple, ROWS.tolist())),
        "arrays": list(ROWS),
        "float32": list(ROWS.astype(np.float32)),
        "truths": list(ROWS > 0),
    }[kind]


@pytest.mark.parametrize(
    "kind", ["ints", "floats", "bools", "tuples", "arrays", "float32", "truths"]
)
@pytest.mark.parametrize("layout", ["tuples", "dicts", "columns"])
def test_rows_of_0_and_1_are_labels_by_index(kind, layout):
    rows = rows_of(kind)
    data = list(zip(TEXTS, rows, strict=True))
    if layout == "dicts":
        data = [{"text": text, "labels": row} for text, row in data]
    if layout == "columns":
        data = {"text": TEXTS, "labels": rows}
    train, dev, labels = read_data(MULTI, data, data)
    assert labels == ("0", "1", "2")
    assert targets(train, labels) == targets(dev, labels) == ROWS.tolist()


@pytest.mark.full
@pytest.mark.parametrize("library", ["pandas", "polars", "lazy", "datasets", "pyarrow", "torch"])
def test_rows_of_0_and_1_of_every_library(library):
    rows = ROWS.astype(float).tolist()
    columns = {"text": TEXTS, "labels": rows}
    if library == "pandas":
        data = pytest.importorskip("pandas").DataFrame(columns)
    elif library in ("polars", "lazy"):
        data = pytest.importorskip("polars").DataFrame(columns)
        data = data.lazy() if library == "lazy" else data
    elif library == "pyarrow":
        data = pytest.importorskip("pyarrow").table(columns)
    else:
        data = pytest.importorskip("datasets").Dataset.from_dict(columns)
        data = data.with_format("torch") if library == "torch" else data
    records = records_of(MULTI, data, "train")
    assert records.labels == ("0", "1", "2")
    assert targets(records, records.labels) == ROWS.tolist()


@pytest.mark.full
def test_scikit_learns_binarizer_is_undone_by_the_names_of_a_model():
    """Labels of a model name the rows; MultiLabelBinarizer gives the rows of the named labels."""
    binarizer = pytest.importorskip("sklearn.preprocessing").MultiLabelBinarizer()
    rows = binarizer.fit_transform(NAMED)
    known = ColumnOptions(known_labels=tuple(binarizer.classes_))
    records = records_of(MULTI, list(zip(TEXTS, rows, strict=True)), "data", known)
    assert [set(record.label) for record in records] == list(map(set, NAMED))


def test_a_label_that_no_text_has_is_learned_too():
    rows = [("a goal", [1, 0, 0]), ("a vote", [0, 1, 0])]
    assert read_data(MULTI, rows, None)[2] == ("0", "1", "2")


def test_numbers_of_labels_are_no_rows_of_0_and_1():
    """GoEmotions in `datasets`: each text has the numbers of its labels."""
    rows = [("a", [0]), ("b", [0, 1]), ("c", [3]), ("d", [])]
    train, _, labels = read_data(MULTI, rows, None)
    assert labels == ("0", "1", "3")
    assert [record.label for record in train] == [("0",), ("0", "1"), ("3",), ()]


@pytest.mark.parametrize(
    "labels",
    [
        [[1, 0, 0], [1, 0], [0, 1, 1]],  # rows of different lengths
        [[1.0], [0.0], [1.0]],
        [[1], [0], [1]],
        [[True], [False], [True]],
        [[0.5, 1.0], [1.0, 0.0], [0.0, 1.0]],
        ["1", "0", "1"],
    ],
)
def test_rows_that_may_be_labels_or_not_are_refused(labels):
    with raises(ValueError, "train") as refused:
        records_of(MULTI, list(zip("abc", labels, strict=True)), "train")
    assert "\n" not in str(refused.value)


def test_rows_of_another_length_than_the_models_labels_are_refused():
    with raises(ValueError, "dev[2]"):
        read_data(
            MULTI,
            list(zip(TEXTS, ROWS.tolist(), strict=True)),
            [("a", [1, 0]), ("b", [0, 1]), ("c", [1, 1])],
        )


CELLS = {  # NAMED, as people and programs write it
    "commas": ["sport,politics", "sport", "weather", "politics", ""],
    "commas and blanks": ["sport , politics", " sport", "weather", "politics", ""],
    "|": ["sport|politics", "sport", "weather", "politics", ""],
    "| and blanks": ["sport | politics", "sport", "weather", "politics", ""],
    ";": ["sport;politics", "sport", "weather", "politics", ""],
    "lists": [str(list(labels)) for labels in NAMED],
    "tuples": [str(labels) for labels in NAMED],
    "sets": [str(set(labels)) for labels in NAMED],
    "json": [json.dumps(labels) for labels in NAMED],
}


def write_csv(path, cells):
    quoted = (cell.replace('"', '""') for cell in cells)
    rows = (f'{text},"{cell}"\n' for text, cell in zip(TEXTS, quoted, strict=True))
    path.write_text("text,labels\n" + "".join(rows))
    return path


@pytest.mark.parametrize("written", CELLS)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_labels_in_a_file_are_read_however_they_are_written(tmp_path, name, written):
    path, cells = tmp_path / name, CELLS[written]
    if name == "a.csv":
        write_csv(path, cells)
    else:
        objects = [{"text": t, "labels": c} for t, c in zip(TEXTS, cells, strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in objects))
    train, _, labels = read_data(MULTI, path, None)
    assert labels == LABELS
    assert [set(record.label) for record in train] == list(map(set, NAMED))


@pytest.mark.parametrize(
    "write",
    [
        lambda row: str(row.tolist()),
        lambda row: str(row.astype(float).tolist()),
        lambda row: str(row),
        lambda row: str(row.astype(float)),
        lambda row: str(row.astype(bool)),
        lambda row: str(row.astype(bool).tolist()),
        lambda row: " ".join(map(str, row)),
        lambda row: ",".join(map(str, row)),
    ],
)
def test_rows_of_0_and_1_in_a_file(tmp_path, write):
    """Python and NumPy wrote them, as pandas' to_csv does."""
    train, _, labels = read_data(MULTI, write_csv(tmp_path / "a.csv", map(write, ROWS)), None)
    assert labels == ("0", "1", "2") and targets(train, labels) == ROWS.tolist()


def test_numbers_in_lists_of_a_file(tmp_path):
    path = write_csv(tmp_path / "a.csv", ["[0, 1]", "[0]", "[2]", "[1]", "[]"])
    train, _, labels = read_data(MULTI, path, None)
    assert labels == ("0", "1", "2") and targets(train, labels) == ROWS.tolist()


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (["['sport' 'politics']", "['sport']", "x", "x", "x"], 2),  # NumPy's; Python joins them
        (["[sport, politics]", "[sport]", "x", "x", "x"], 2),
        (["sport,politics", "sport;politics", "sport", "x", "x"], 3),
        (["sport|politics", "sport;politics", "sport", "x", "x"], 3),
        (["sport|", "sport|politics", "sport", "x", "x"], 2),
        (["sport", "[None]", "x", "x", "x"], 3),
        (["sport", "[0 0 0 ... 0 1]", "x", "x", "x"], 3),
    ],
)
def test_cells_that_cannot_be_read_rightly_are_refused(tmp_path, cells, line):
    with raises(ValueError, f"a.csv, line {line}") as refused:
        records_of(MULTI, write_csv(tmp_path / "a.csv", cells))
    assert "\n" not in str(refused.value)


def test_a_mark_in_a_label_stays(tmp_path):
    """Where other marks separate, or where the model has such a label."""
    path = write_csv(tmp_path / "a.csv", ["rock,R|B", "rock", "rock", "R|B", ""])
    assert read_data(MULTI, path, None)[2] == ("R|B", "rock")
    path = write_csv(tmp_path / "a.csv", ["R|B", "rock", "rock", "R|B", ""])
    found = records_of(MULTI, path, columns=ColumnOptions(known_labels=("R|B", "rock")))
    assert [record.label for record in found][:2] == [("R|B",), ("rock",)]


GOEMOTIONS = (  # the layout of its train.tsv, with its numbers of emotions and its quotes
    "Is this in Rome?? I feel that it is.\t27\tedgurhb\n"
    "You know the answer man, don’t avoid them!\t4,27\tee84bjg\n"
    '"""I did not learn anything"" Oh look a new one!"\t10\teepmnfn\n'
    "Like this just cuz of [NAME]\t27\teebwc0c\n"
    "Lol dream on buddy.\t1,3,25\ted2znun\n"
)


def test_goemotions_own_files_are_read(tmp_path):
    (tmp_path / "train.tsv").write_text(GOEMOTIONS)
    found = records_of(MULTI, tmp_path / "train.tsv")
    labels = [("27",), ("4", "27"), ("10",), ("27",), ("1", "3", "25")]
    assert [record.label for record in found] == labels
    assert [record.pair for record in found] == [None] * 5
    assert found[2].text == '"I did not learn anything" Oh look a new one!'


def read_cells(cells, **known) -> list[set[str]]:
    """The labels of 24 texts, of which the cells are repeated."""
    rows = [(f"a late goal {n}", cells[n % len(cells)]) for n in range(24)]
    records = records_of(MULTI, rows, "train", ColumnOptions(**known))
    return [set(record.label) for record in records[: len(cells)]]


def refuse_cells(cells, **known):
    with raises(ValueError, "train") as refused:
        read_cells(cells, **known)
    assert "\n" not in str(refused.value)


EMOTIONS = ("admiration", "amusement", "anger")


@pytest.mark.full
@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("length", [-1, 3])
def test_rows_of_0_and_1_under_a_feature_of_classes(kind, length):
    """`Dataset.map` keeps the feature of the numbers that it replaces, and its names."""
    datasets = pytest.importorskip("datasets")
    classes = datasets.Sequence(datasets.ClassLabel(names=list(EMOTIONS)), length=length)
    features = datasets.Features({"text": datasets.Value("string"), "labels": classes})
    rows = [[kind(value) for value in row] for row in ROWS.tolist()]
    data = datasets.Dataset.from_dict({"text": TEXTS, "labels": rows}, features=features)
    train, _, labels = read_data(MULTI, data, None)
    assert labels == EMOTIONS and targets(train, labels) == ROWS.tolist()


class Classes:
    """Rows with the features that a `datasets.Dataset` has."""

    def __init__(self, lists, names):
        self.rows = [{"text": f"t {n}", "labels": values} for n, values in enumerate(lists)]
        self.features = {"labels": type("ClassLabel", (), {"names": list(names)})}

    def __iter__(self):
        return iter(self.rows)


def test_numbers_under_a_feature_of_classes():
    for rows in (ROWS.tolist(), ROWS.astype(float).tolist()):
        train, _, labels = read_data(MULTI, Classes(rows, EMOTIONS), None)
        assert labels == EMOTIONS and targets(train, labels) == ROWS.tolist()
    train, _, labels = read_data(MULTI, Classes([[0], [], [2, 1], None], EMOTIONS), None)
    assert [record.label for record in train] == [("admiration",), (), ("anger", "amusement"), ()]
    for rows in ([[0, 0], [1]], [[1, 0, 0, 1]], [[3]], [[-1]], [[1.0, 0.0], [1.0]]):
        with raises(ValueError, "train[0]"):
            read_data(MULTI, Classes(rows, EMOTIONS), None)


def test_dev_data_are_read_as_the_training_data_are():
    """[0, 1] are both of two labels where the training data have numbers of labels."""
    both = [(text, [0, 1]) for text in TEXTS]
    numbers = [(text, [[0], [1], [0, 1]][n % 3]) for n, text in enumerate(TEXTS)]
    rows = [(text, [[1, 0], [1, 1]][n % 2]) for n, text in enumerate(TEXTS)]
    for train, expected in ((numbers, ("0", "1")), (rows, ("1",))):
        _, dev, _ = read_data(MULTI, train, both)
        assert [record.label for record in dev] == [expected] * 5
    lists = [cell for _, cell in numbers]
    _, dev, _ = read_data(MULTI, Classes(lists, "ab"), Classes([[0, 1]] * 5, "ab"))
    assert [record.label for record in dev] == [("a", "b")] * 5


def test_an_ambiguous_pair_of_numbers_is_warned_of(messages):
    assert read_cells([[0, 1]], known_labels=("0", "1")) == [{"1"}]
    check_logged(messages, "[0, 1]")


@pytest.mark.parametrize(
    "cells",
    [
        ["0,1", "1,0"],
        ["False,True", "True,False"],
        [["0.0", "1.0"], ["1.0", "0.0"]],
        ["0 1", "1 0"],
    ],
)
def test_rows_of_two_texts_of_0_and_1(cells):
    """As the same rows of numbers, [0, 1] and [1, 0]."""
    assert read_cells(cells) == [{"1"}, {"0"}]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["16 0", "0 1", "2"], [{"16", "0"}, {"0", "1"}, {"2"}]),  # Kaggle's Human Protein Atlas
        (["0 1", "1 0", "0", "1"], [{"0", "1"}, {"0", "1"}, {"0"}, {"1"}]),
        (["007 012", "012"], [{"007", "012"}, {"012"}]),
        (["[0 2]", "[1]"], [{"0", "2"}, {"1"}]),  # NumPy's
        (["<c#><.net>", "<c#>"], [{"<c#>", "<.net>"}, {"<c#>"}]),  # Stack Exchange's Posts.xml
        (["__label__a __label__b", "__label__a"], [{"__label__a", "__label__b"}, {"__label__a"}]),
        (["sport\npolitics", "sport"], [{"sport", "politics"}, {"sport"}]),
        ([{"sport", "politics"}, frozenset({"sport"})], [{"sport", "politics"}, {"sport"}]),
        (["[other]", "[PAD]", "[not this]"], [{"[other]"}, {"[PAD]"}, {"[not this]"}]),
        ([["sport"], float("nan"), None], [{"sport"}, set(), set()]),
        ([repr(row) for row in ROWS], [{"0", "1"}, {"0"}, {"2"}, {"1"}, set()]),
        ([repr(np.array(["a", "b"], object)), "['a']"], [{"a", "b"}, {"a"}]),
        ([repr(frozenset("a")), "frozenset()"], [{"a"}, set()]),
        (
            ["tensor([0., 1., 0.])", "tensor([1., 1., 0.], dtype=torch.float64)"],
            [{"1"}, {"0", "1"}],
        ),
    ],
)
def test_what_programs_write_between_labels(cells, expected):
    assert read_cells(cells) == expected


@pytest.mark.parametrize(
    "cells",
    [
        [[2, 0, 1], [0, 0, 3]],  # annotators' counts
        [[-1, 1, 1], [1, 0, 0]],  # unknown labels
        [[-1, 1, 0], [1, 0, -1]],
        [[0], [1], [-1]],
        ["3,0,0", "0,1,0"],
        ["0 1 -1", "1 0 0"],
        ["[0, 1, -1]", "[1, 0, 0]"],
        ["0.9,0.1", "0.2,0.8"],  # probabilities
        ["0.9 0.1", "0.2 0.8"],
        ["no,yes", "yes,no"],
        ["no,yes,no", "yes,no,no"],
        ["sport,sport", "politics"],
        [["sport", "sport"], ["politics"]],
        ["True False", "True"],
    ],
)
def test_cells_that_are_no_sets_are_refused(cells):
    refuse_cells(cells)


@pytest.mark.parametrize(
    "cell", ["clear primary", "clear/primary", "clear & primary", "clear+primary"]
)
def test_a_cell_that_may_be_several_labels_is_warned_of(messages, cell):
    assert read_cells([cell, "clear", "haze primary"])[0] == {cell}
    check_logged(messages, repr(cell))


def test_a_plain_label_is_not_warned_of(messages):
    read_cells(["breaking news", "sport", "a quiet day"])
    read_cells(["sport,politics", "sport", "sport news"])
    read_cells(["clear primary", "clear"], known_labels=("clear primary", "clear"))
    assert messages == []


def test_a_comma_in_a_known_label_separates_nothing(tmp_path):
    """The training data are rows in memory, whose labels may have any mark."""
    names = ["R&B, Soul", "Pop", "R&B, Soul", "Pop", "Pop"]
    train = [(text, [name]) for text, name in zip(TEXTS, names, strict=True)]
    _, dev, labels = read_data(MULTI, train, write_csv(tmp_path / "dev.csv", names))
    assert labels == ("Pop", "R&B, Soul")
    assert [record.label for record in dev] == [(name,) for name in names]
    with raises(ValueError, "dev.csv", "line 2"):
        read_data(MULTI, train, write_csv(tmp_path / "dev.csv", ["R&B, Pop", *names[1:]]))


def test_a_long_cell_that_is_almost_numbers_is_read_at_once():
    """A pattern with several ways to match a number would search for ever."""
    cell = "1110 " * 500 + "x"
    assert read_cells([cell, "x"]) == [{cell}, {"x"}]
    refuse_cells([f"[{cell}]", "x"])
    refuse_cells([f"tensor([{cell}]{', a=1' * 50}", "x"])


def test_nan_as_a_label_is_warned_of_however_frequent(messages):
    rows = [(f"t {n}", ["a, b", "a", "NaN"][n % 3]) for n in range(24)]
    MULTI.labels(records_of(MULTI, rows, "train"))
    check_logged(messages, "'NaN'", "8 of 24")


def test_columns_of_labels_have_the_names_that_the_user_gives(tmp_path):
    """Whatever their case in the header, so that a run's names are those of its model."""
    path = tmp_path / "a.csv"
    path.write_text("text,Toxic,THREAT\nsome,1,0\nmore,1,1\n")
    rows = [{"text": "some", "Toxic": 1, "THREAT": 0}, {"text": "more", "Toxic": 1, "THREAT": 1}]
    for data in (path, rows):
        records = records_of(MULTI, data, "data", ColumnOptions(labels=("toxic", "threat")))
        assert [record.label for record in records] == [("toxic",), ("toxic", "threat")]
        assert records.labels == ("toxic", "threat")


def test_lists_to_classify_are_refused_with_a_way_out():
    for label in ([0, 1], [1.0, 0.0], ["a", "b"]):
        with raises(ValueError, "train[0]", "label_columns"):
            records_of(CLASSIFY, [("a", label), ("b", label)], "train")


def test_one_set_of_labels_for_all_is_said_so():
    """Three labels make four sets here."""
    sets = [("a",), ("b",), ("c",), ("a", "b")]
    records = records_of(MULTI, [(f"t {n}", sets[n % 4]) for n in range(12)], "data")
    gold = [np.array([label in record.label for label in "abc"], float) for record in records]
    examples = type("Examples", (), {"labels": {CLASSIFIER: gold}})
    logits = [np.array([1.0, -1.0, -1.0])] * 12
    warning = MULTI.scores(records, examples, {CLASSIFIER: logits}, ("a", "b", "c")).warning
    assert "4 sets of labels" in warning


def test_labels_that_hardly_repeat_are_refused(tmp_path):
    """As for classify: a column of ids, or text and labels swapped; naming the columns trains."""
    (tmp_path / "a.csv").write_text("text,labels\n" + "".join(f"t {n},id{n}\n" for n in range(11)))
    with raises(ValueError, "11"):
        records_of(MULTI, tmp_path / "a.csv")
    named = ColumnOptions("text", None, "labels")
    assert len(records_of(MULTI, tmp_path / "a.csv", columns=named)) == 11
    (tmp_path / "b.tsv").write_text("".join(f"t {n}\tu {n}\tid{n}\n" for n in range(11)))
    with raises(ValueError, "11"):
        records_of(MULTI, tmp_path / "b.tsv")


JIGSAW = "id,comment_text,toxic,severe_toxic,threat\n"  # and two more labels, in Kaggle's train.csv
FLAGS = [(1, 1, 0), (0, 0, 0), (1, 0, 1)]


def write_jigsaw(path, write=str):
    lines = (
        f'{n:016x},"text {n}, ""so""",' + ",".join(map(write, row)) + "\n"
        for n, row in enumerate(FLAGS * 4)
    )
    path.write_text(JIGSAW + "".join(lines))
    return path


@pytest.mark.parametrize("write", [str, lambda n: f"{n}.0", lambda n: str(bool(n))])
def test_columns_of_0_and_1_are_the_labels(tmp_path, write):
    names = ("toxic", "severe_toxic", "threat")
    options = ColumnOptions(labels=names)
    data = write_jigsaw(tmp_path / "train.csv", write)
    train, _, labels = read_data(MULTI, data, data, options)
    assert labels == names and targets(train, labels) == list(map(list, FLAGS * 4))
    assert train[0].text == 'text 0, "so"'
    rows = [dict(zip(names, row, strict=True)) | {"text": "a"} for row in FLAGS]
    found = records_of(MULTI, rows, "train", options)
    assert targets(found, names) == list(map(list, FLAGS)) and found.labels == names


def test_columns_of_which_one_is_1_are_a_label_to_classify():
    rows = [{"text": "a", "good": 1, "bad": 0}, {"text": "b", "good": 0, "bad": 1}]
    options = ColumnOptions(labels=("good", "bad"))
    records, _, labels = read_data(CLASSIFY, rows, None, options)
    assert [record.label for record in records] == ["good", "bad"] and labels == ("good", "bad")
    for row in ({"good": 1, "bad": 1}, {"good": 0, "bad": 0}):
        with raises(ValueError, "train[2]"):
            records_of(CLASSIFY, [*rows, row | {"text": "c"}], "train", options)


@pytest.mark.parametrize("value", [-1, "", None, 0.7, "yes"])
def test_a_cell_that_is_neither_0_nor_1_is_refused(value):
    rows = [{"text": "a", "toxic": 1, "threat": 0}, {"text": "b", "toxic": value, "threat": 0}]
    with raises(ValueError, "train[1]", '"toxic"', "0", "1"):
        records_of(MULTI, rows, "train", ColumnOptions(labels=("toxic", "threat")))


def test_bad_label_columns_are_refused(tmp_path):
    data = write_jigsaw(tmp_path / "train.csv")
    with raises(ValueError, "'insult'"):
        records_of(MULTI, data, columns=ColumnOptions(labels=("toxic", "insult")))
    for task in ("regress", "tag", "qa", "choice", "embed"):
        with raises(ValueError, "label_columns"):
            records_of(task_of(task), data, columns=ColumnOptions(labels=("toxic", "threat")))
    with raises(ValueError, "label_columns"):
        ColumnOptions(label="toxic", labels=("toxic", "threat"))
    with raises(ValueError, "line 1", "label_columns"):
        records_of(MULTI, data)


@pytest.mark.full
def test_label_columns_are_settings_of_a_run_and_options(small, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_jigsaw(tmp_path / "train.csv")
    kbert.save(small_bert(small, "encoder"), tmp_path / "source")
    named = ["--label-columns", "toxic,severe_toxic,threat"]
    run = ["source", "--task", "multilabel", "--train", "train.csv", "-o", "run", "--epochs", "1"]
    assert kbert_command(capsys, "finetune", *run, *named).status == 0
    kept = json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]
    assert kept["label_columns"] == ["toxic", "severe_toxic", "threat"]
    assert kbert.load("run").labels == ("toxic", "severe_toxic", "threat")
    assert kbert_command(capsys, "finetune", "--resume", "run").status == 0
    done = kbert_command(capsys, "evaluate", "run", "--data", "train.csv", *named)
    assert done.status == 0 and "macro_f1" in done.out
    done = kbert_command(capsys, "finetune", *run, "--label-columns", "toxic")
    assert (done.status, done.err.count("\n")) == (2, 1)
