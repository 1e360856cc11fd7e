"""SNLI and MultiNLI as published: rows without a consensus ("-") are left out and counted."""

import json

import pytest
from helpers.errors import check_logged, raises

import kbert
from kbert.data.labelled.columns import ColumnOptions
from kbert.tasks.classification.training import TASK as CLASSIFY
from kbert.tasks.finetuning.task import read_data, records_of, task_of

LABELS = ["entailment", "neutral", "-", "contradiction"]
PARSES = [f"sentence{n}_{kind}" for kind in ("binary_parse", "parse") for n in (1, 2)]
VOTES = [f"label{n}" for n in range(1, 6)]
HEADERS = {  # of snli_1.0_dev.txt and multinli_1.0_dev_matched.txt
    "snli": ["gold_label", *PARSES, "sentence1", "sentence2", "captionID", "pairID", *VOTES],
    "multinli": [
        *("gold_label", *PARSES, "sentence1", "sentence2", "promptID", "pairID", "genre"),
        *VOTES,
    ],
}


def rows_of(corpus: str) -> list[dict[str, str]]:
    """Rows with all columns; most have one vote, as in the training data."""
    rows = []
    for n, label in enumerate(LABELS * 3):
        row = {name: f"( {name} {n} )" for name in HEADERS[corpus]}
        row |= {"gold_label": label, "sentence1": f'a "late" goal {n}', "sentence2": f"rain {n}"}
        row |= dict.fromkeys(VOTES, "") | {"label1": "neutral"}
        rows.append(row)
    return rows


def write(path, corpus: str):
    rows = rows_of(corpus)
    if path.suffix == ".jsonl":  # the votes are a list there
        objects = [
            {name: cell for name, cell in row.items() if name not in VOTES}
            | {"annotator_labels": ["neutral"]}
            for row in rows
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in objects))
    else:
        lines = [HEADERS[corpus], *(row.values() for row in rows)]
        path.write_text("".join("\t".join(cells) + "\n" for cells in lines))
    return path


@pytest.mark.parametrize("corpus", HEADERS)
@pytest.mark.parametrize("name", ["dev.txt", "dev.jsonl"])
def test_rows_without_a_consensus_are_left_out_and_counted(tmp_path, messages, corpus, name):
    data = write(tmp_path / name, corpus)
    train, dev, labels = read_data(CLASSIFY, data, data)
    expected = [
        (row["sentence1"], row["gold_label"], row["sentence2"])
        for row in rows_of(corpus)
        if row["gold_label"] != "-"
    ]
    assert [record[:3] for record in train] == [record[:3] for record in dev] == expected
    assert labels == ("contradiction", "entailment", "neutral")
    counted = [line for line in messages if str(data) in line and "3 of 12" in line]
    assert len(counted) == 2  # once for each use


def test_rows_in_memory_and_a_named_column_are_alike():
    rows = rows_of("snli")
    assert len(records_of(CLASSIFY, rows, "train")) == 9
    options = ColumnOptions("sentence1", "sentence2", "gold_label")
    assert len(records_of(CLASSIFY, rows, "train", options)) == 9


def test_evaluate_leaves_them_out(berts, tmp_path, messages):
    data = write(tmp_path / "dev.jsonl", "snli")
    bert = kbert.Bert(
        *(berts["classifier"].config, "classifier"),
        *(berts["classifier"].model, berts["classifier"].tokenizer),
        labels=("contradiction", "entailment", "neutral", "x", "y"),
    )
    metrics = kbert.evaluate(bert, "classify", data)
    rows = [row for row in rows_of("snli") if row["gold_label"] != "-"]
    premises, hypotheses = ([row[f"sentence{n}"] for row in rows] for n in (1, 2))
    found = [likely[0].label for likely in kbert.classify(bert, premises, hypotheses)]
    right = [label == row["gold_label"] for label, row in zip(found, rows, strict=True)]
    assert metrics["accuracy"] == pytest.approx(sum(right) / 9)
    check_logged(messages, "3 of 12")


@pytest.mark.parametrize("column", ["label", "class"])
def test_elsewhere_it_is_a_label(tmp_path, messages, column):
    path = tmp_path / "a.tsv"
    path.write_text(f"text\t{column}\n" + "a\t-\nb\t+\n" * 6)
    assert read_data(CLASSIFY, path, None)[2] == ("+", "-")
    assert not [line for line in messages if "6 of 12" in line]


def test_a_file_of_such_rows_alone_is_refused(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("gold_label\tsentence1\tsentence2\n-\ta\tb\n")
    with raises(ValueError, "got none"):
        records_of(task_of("classify"), path)


def test_a_label_column_follows_the_gold_label_beside_it(messages):
    rows = [
        {"sentence1": f"a {n}", "sentence2": "b", "label": gold, "gold_label": gold}
        for n, gold in enumerate(LABELS * 3)
    ]
    assert len(records_of(CLASSIFY, rows, "train")) == 9
    check_logged(messages, "3 of 12")
    options = ColumnOptions("sentence1", "sentence2", "annotator")  # what the user names is read
    rows = [row | {"annotator": "neutral"} for row in rows]
    assert len(records_of(CLASSIFY, rows, "train", options)) == 12


def test_a_rare_dash_among_labels_is_warned_of(tmp_path, messages):
    """SNLI saved as CSV under another name: 4 of its 200 labels are "-"."""
    path = tmp_path / "a.csv"
    labels = [LABELS[n % 2] if n % 50 else "-" for n in range(200)]
    rows = "".join(f"a {n},b,{label}\n" for n, label in enumerate(labels))
    path.write_text("sentence1,sentence2,label\n" + rows)
    CLASSIFY.labels(records_of(CLASSIFY, path))
    check_logged(messages, "'-'", "4 of 200")
