"""The columns that a run was trained on are those that its model is evaluated on."""

import json

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import raises
from helpers.labelled_texts import QUIET
from helpers.small_berts import small_bert

import kbert

pytestmark = pytest.mark.full

ROWS = [
    {"text": text, "label": n % 2, "mood": int(n % 3 == 0)}
    for n, text in enumerate(["a cat", "red dog", "big red tree", "the sun . the moon"] * 3)
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
SMALL = {"epochs": 1, "batch_size": 6, "seed": 4} | QUIET


class Indexed:
    """A data set as torch's are: rows by their index."""

    def __len__(self):
        return len(ROWS)

    def __getitem__(self, index):
        return ROWS[index]


class Again:
    """A data set that begins again each time, as `datasets.IterableDataset` does."""

    def __iter__(self):
        return iter(ROWS)


def package(name: str):
    return pytest.importorskip(name, reason=f"pip install {name}")


WAYS = {
    "list": lambda: ROWS,
    "tuple": lambda: tuple(ROWS),
    "generator": lambda: (row for row in ROWS),
    "indexed": Indexed,
    "iterable": Again,
    "columns": lambda: COLUMNS,
    "pandas": lambda: package("pandas").DataFrame(COLUMNS),
    "polars": lambda: package("polars").DataFrame(COLUMNS),
    "polars, lazy": lambda: package("polars").LazyFrame(COLUMNS),
    "pyarrow": lambda: package("pyarrow").table(COLUMNS),
    "datasets": lambda: package("datasets").Dataset.from_list(ROWS),
    "datasets, streamed": lambda: package("datasets").IterableDataset.from_generator(Again),
}
PEERS = ("pandas", "polars", "pyarrow", "datasets")


def mark_peers(ways) -> list:
    """The ways that need a package of others are left to the full round."""
    return [pytest.param(way, marks=[pytest.mark.full] * way.startswith(PEERS)) for way in ways]


@pytest.fixture(scope="module")
def bert(small):
    return small_bert(small.replace(num_hidden_layers=1), "encoder")


@pytest.fixture(scope="module")
def run(bert, tmp_path_factory):
    """A run on the column mood, of rows that have a column label too."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    named = {"text_column": "text", "label_column": "mood"}
    return kbert.finetune(bert, "classify", train=ROWS, dev=ROWS, output=folder, **named, **SMALL)


@pytest.mark.filterwarnings("ignore")  # of the packages that hold the rows
@pytest.mark.parametrize("way", mark_peers(WAYS))
def test_run_is_evaluated_on_its_own_columns(run, way):
    found = kbert.evaluate(run.folder, "classify", WAYS[way]())
    assert found == pytest.approx(run.metrics, rel=1e-5)
    label = kbert.evaluate(run.folder, "classify", WAYS[way](), label_column="label")
    assert label["loss"] != pytest.approx(run.metrics["loss"], rel=1e-5)


@pytest.mark.parametrize("make", [list, iter])
def test_each_column_of_a_run_holds_by_itself(run, make):
    """The text's is another one, and mood is still the label."""
    rows = [{"body": row["text"], "label": row["label"], "mood": row["mood"]} for row in ROWS]
    found = kbert.evaluate(run.folder, "classify", make(rows), text_column="body")
    assert found == pytest.approx(run.metrics, rel=1e-5)


@pytest.mark.parametrize("make", [list, iter])
def test_missing_column_of_a_run_is_named(run, make):
    rows = [{"text": row["text"], "label": row["label"]} for row in ROWS]
    with raises(ValueError, "'mood'") as refused:
        kbert.evaluate(run.folder, "classify", make(rows))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("make", [list, iter])
def test_tuples_have_no_columns(run, make):
    rows = [(row["text"], row["mood"]) for row in ROWS]
    found = kbert.evaluate(run.folder, "classify", make(rows))
    assert found == pytest.approx(run.metrics, rel=1e-5)


def test_run_is_trained_and_evaluated_on_a_tuple_of_columns(run, bert, tmp_path):
    """As on the same rows, bit for bit."""
    columns = [row["text"] for row in ROWS], np.array([row["mood"] for row in ROWS])
    assert kbert.evaluate(run.folder, "classify", columns) == pytest.approx(run.metrics, rel=1e-5)
    done = kbert.finetune(bert, "classify", train=columns, dev=columns, **SMALL)
    assert done.metrics == run.metrics


def test_numbered_columns_of_a_run_are_those_of_files(bert, tmp_path):
    lines = [f"{row['label']}\t{row['text']}" for row in ROWS]
    (tmp_path / "a.tsv").write_text("\n".join(lines) + "\n")
    numbers = {"text_column": "2", "label_column": "1", "no_header": True}
    files = {"train": tmp_path / "a.tsv", "dev": tmp_path / "a.tsv"}
    done = kbert.finetune(bert, "classify", output=tmp_path / "run", **files, **numbers, **SMALL)
    rows = [{"text": row["text"], "label": row["label"]} for row in ROWS]
    assert kbert.evaluate(done.folder, "classify", rows) == pytest.approx(done.metrics, rel=1e-5)


@pytest.fixture(scope="module")
def several(bert, tmp_path_factory):
    """A run on two columns of 0 and 1."""
    folder = tmp_path_factory.mktemp("several")
    lines = ["text,label,mood", *(",".join(map(str, row.values())) for row in ROWS)]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    names = [",".join(name for name in ("label", "mood") if row[name]) for row in ROWS]
    lines = [f'{row["text"]},"{cell}"' for row, cell in zip(ROWS, names, strict=True)]
    (folder / "b.csv").write_text("\n".join(["text,names", *lines]) + "\n")
    named = {"label_columns": ["label", "mood"], "output": folder / "run"}
    files = {"train": folder / "a.csv", "dev": folder / "a.csv"}
    return kbert.finetune(bert, "multilabel", **files, **named, **SMALL)


def test_run_on_label_columns_is_evaluated_on_them(several, capsys):
    expected = pytest.approx(several.metrics, rel=1e-5)
    data = several.folder.parent / "a.csv"
    assert kbert.evaluate(several.folder, "multilabel", data) == expected
    assert kbert.evaluate(several.folder, "multilabel", iter(ROWS)) == expected
    printed = kbert_command(capsys, "evaluate", several.folder, "--data", data, "--format", "json")
    assert json.loads(printed.out) == expected


def test_label_column_takes_the_place_of_a_runs_label_columns(several, capsys):
    data = several.folder.parent / "b.csv"
    found = kbert.evaluate(several.folder, "multilabel", data, label_column="names")
    assert found == pytest.approx(several.metrics, rel=1e-5)
    printed = kbert_command(
        *(capsys, "evaluate", several.folder, "--data", data),
        *("--label-column", "names", "--format", "json"),
    )
    assert json.loads(printed.out) == pytest.approx(several.metrics, rel=1e-5)


def test_label_columns_take_the_place_of_a_runs_label_column(bert, several, tmp_path):
    folder = several.folder.parent
    files = {"train": folder / "b.csv", "dev": folder / "b.csv", "label_column": "names"}
    done = kbert.finetune(bert, "multilabel", output=tmp_path / "run", **files, **SMALL)
    named = {"label_columns": ["label", "mood"]}
    found = kbert.evaluate(done.folder, "multilabel", folder / "a.csv", **named)
    assert found == pytest.approx(done.metrics, rel=1e-5)
