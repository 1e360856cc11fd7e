"""Labelled texts from files, and their batches."""

import collections
import csv
import itertools
import json

import numpy as np
import pytest
from helpers.errors import check_logged, check_named, raises
from helpers.peer_tasks import VOCABULARY
from helpers.sizes import ROOT

import kbert
from kbert.data.labelled.columns import NAMES, ColumnOptions
from kbert.data.labelled.length_buckets import IGNORED, BucketedBatches, Examples
from kbert.data.padding import cheapest_lengths, pick_length
from kbert.graph.names import (
    CLASSIFIER,
    SEGMENT_IDS,
    SEQUENCE_MASK,
    SPAN_END,
    SPAN_START,
    TOKEN_CLASSIFIER,
    TOKEN_IDS,
)
from kbert.io.wording import naming_commands
from kbert.tasks.classification.reading import Labelled
from kbert.tasks.classification.training import TASK as CLASSIFY
from kbert.tasks.finetuning.task import read_data, records_of, task_of

COUNT, BATCH = 45, 13  # 3 whole batches and one of 6 examples an epoch
STEPS = 4


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "some.tsv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture(scope="module")
def tokenizer():
    return kbert.Tokenizer.from_vocab(VOCABULARY, lowercase=True)


@pytest.fixture(scope="module")
def examples():
    """Of 3 … 40 tokens; the first id of each is its number."""
    sizes = np.random.default_rng(3).integers(3, 41, COUNT)
    return Examples(
        ids=[[100 + place, *[7] * (size - 1)] for place, size in enumerate(sizes)],
        segment_ids=[[0, *[1] * (size - 1)] for size in sizes],
        labels={CLASSIFIER: [place % 5 for place in range(COUNT)]},
    )


def batches_of(examples, **options) -> BucketedBatches:
    return BucketedBatches(examples, **{"batch_size": BATCH, "seed": 2} | options)


def real_rows(batch) -> np.ndarray:
    """The numbers of the examples that count."""
    return batch.inputs[TOKEN_IDS][:, 0][batch.weights[CLASSIFIER] > 0] - 100


READ = {  # file, content, (text, label, second text) of each record, lines
    "tsv": (
        *("some.tsv", "a fine film\t2\r\n\r\n  Bad .\t0\nCafé “x”\t10"),
        [("a fine film", "2", None), ("Bad .", "0", None), ("Café “x”", "10", None)],
        [1, 3, 4],
    ),
    "pairs": (
        *("some.tsv", "\ufeffpremise\thypothesis\tLabel\nA cat .\tNo cat .\tno\nB\tB\tyes\n"),
        *([("A cat .", "no", "No cat ."), ("B", "yes", "B")], [2, 3]),
    ),
    "csv": (
        *("a.csv", '\ufefftext,Label\r\n"a cat, ""red""\nand big",good\r\n\r\n a dog ,bad\n'),
        *([('a cat, "red"\nand big', "good", None), ("a dog", "bad", None)], [2, 5]),
    ),
    "pairs of csv": ("some.CSV", "a\tb,c,1", [("a\tb", "1", "c")], [1]),
    "jsonl": (
        "a.jsonl",
        '{"text": "a cat", "label": 2}\n\n{"label": "2", "text": "a\\nc"}\n',
        *([("a cat", "2", None), ("a\nc", "2", None)], [1, 3]),
    ),
    "pairs of jsonl": (
        "a.jsonl",
        '{"text": "a cat", "label": 2, "pair": "c"}\n{"label": "2", "pair": " b ", "text": "a"}\n',
        *([("a cat", "2", "c"), ("a", "2", "b")], [1, 2]),
    ),
}


@pytest.mark.parametrize("case", READ)
def test_files_of_every_kind_are_read(write, case):
    name, content, expected, lines = READ[case]
    records = CLASSIFY.read(write(content, name))
    assert [record[:3] for record in records] == expected
    assert [record.location.rpartition(f"{name}, line ")[2] for record in records] == [
        str(line) for line in lines
    ]


ENDINGS = [("some.tsv", "\t"), ("some.csv", ",")]


@pytest.mark.parametrize(("name", "between"), ENDINGS)
@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("sentence label", ("a film", "1"), ("a film", "1", None)),  # GLUE's SST-2
        ("label text", ("1", "a film"), ("a film", "1", None)),
        ("class review", ("1", "a film"), ("a film", "1", None)),
        ("index sentence1 sentence2 label", ("0", "a", "b", "x"), ("a", "x", "b")),  # RTE
        ("index question sentence label", ("0", "a", "b", "x"), ("a", "x", "b")),  # QNLI
        ("gold_label premise hypothesis", ("x", "a", "b"), ("a", "x", "b")),
        ("hypothesis label premise", ("b", "x", "a"), ("a", "x", "b")),
        (" Label Text", ("7", "1", "a film"), ("a film", "1", None)),  # pandas: the index
    ],
)
def test_a_header_names_its_columns_in_any_order(
    write, messages, name, between, header, row, expected
):
    cells = header.split(" ")
    (record,) = CLASSIFY.read(write(f"{between.join(cells)}\n{between.join(row)}\n", name))
    assert record[:3] == expected
    check_logged(messages, f"{name}, line 1", ", ".join(cells))
    (record,) = CLASSIFY.read(write(json.dumps(dict(zip(cells, row, strict=True))), "some.jsonl"))
    assert record[:3] == expected


LINES = [(f"text {n} of the film", "good" if n % 3 else "bad") for n in range(7)]


def test_the_documentation_lists_every_name():
    page = (ROOT / "docs" / "how_to" / "finetune.md").read_text(encoding="utf-8")
    assert [name for name in NAMES - {""} if f"`{name}`" not in page] == []


MANY = [(f"text {n}", f"class {n}") for n in range(9)]


@pytest.mark.parametrize(
    ("rows", "known_labels"),
    [
        ([("It was dull.", "bad"), ("fine", "good")], None),  # a sentence
        ([("dull", "0"), ("fine", "1")], None),  # a number as label
        ([("dull", "bad"), ("fine", "good"), ("slow", "bad")], None),
        (MANY, None),  # many labels, all different
        ([("a fine film", "mixed"), *LINES], ["mixed"]),  # a label of the training data
    ],
)
def test_rows_without_a_header_are_read_whole_with_no_warning(write, messages, rows, known_labels):
    file = write("".join(f"{text},{label}\n" for text, label in rows), "some.csv")
    options = {"known_labels": known_labels} if known_labels else {}
    found = CLASSIFY.read(file, options=ColumnOptions(**options))
    assert [(one.text, one.label) for one in found] == rows
    assert messages == []


@pytest.mark.parametrize("count", [1, 3, 7])
@pytest.mark.parametrize(
    ("header", "ignored"),
    [
        ("text,label,annotator", "annotator"),
        ("annotator,Sentence,label", "annotator"),
        ("label,when,id,review,who", "when, who"),
    ],
)
def test_header_with_unknown_columns_is_taken(write, messages, header, ignored, count):
    """`csv.DictReader` is the peer; the columns that are not read are named once."""
    names = header.split(",")
    text = next(name for name in names if name.lower() in ("text", "sentence", "review"))
    rows = [
        dict.fromkeys(names, f"note {n}") | {text: line, "label": label}
        for n, (line, label) in enumerate(LINES[:count])
    ]
    file = write("", "some.csv")
    with open(file, "w", newline="") as lines:
        writer = csv.DictWriter(lines, names)
        writer.writeheader()
        writer.writerows(rows)
    with open(file, newline="") as lines:
        expected = [(row[text], row["label"]) for row in csv.DictReader(lines)]
    assert [(one.text, one.label) for one in CLASSIFY.read(file)] == expected == LINES[:count]
    naming = [line for line in messages if line.endswith(f": {ignored}")]
    assert len(naming) == 1 and f"{file}, line 1" in naming[0]


@pytest.mark.parametrize("task", ["classify", "regress", "multilabel"])
@pytest.mark.parametrize("pair", [None, "a dog"])
def test_pair_among_single_texts_is_refused_with_file_and_line(write, task, pair):
    rows = [{"text": "a cat", "pair": pair, "label": "1"}] * 2
    rows.append({"text": "a cat", "label": "1"} | ({} if pair else {"pair": "a dog"}))
    path = write("\n".join(map(json.dumps, rows)) + "\n", "a.jsonl")
    with raises(ValueError, "a.jsonl", "line 3"):
        records_of(task_of(task), path)


def test_rows_with_other_columns_are_logged_once(messages):
    rows = [{"text": "a", "label": 1}, {"label": 0, "text": "c"}]
    assert len(CLASSIFY.read(rows)) == 2 and not messages
    rows += [{"sentence": "b", "label": 0}, {"review": "d", "class": 1}]
    assert len(CLASSIFY.read(rows)) == 4
    (line,) = messages
    check_named(line, "[2]", "sentence", "text")


def test_columns_of_rows_can_be_named():
    rows = [{"text": "no", "body": "a", "other": "b", "label": 1, "kind": "x"}]
    (found,) = CLASSIFY.read(rows, "train", ColumnOptions("Body", "other", "kind"))
    assert found[:3] == ("a", "x", "b")
    with raises(ValueError, "train[0]", "'bodi'", "text, body"):
        CLASSIFY.read(rows, "train", ColumnOptions("bodi"))
    with raises(ValueError, "'1'", "no_header=True"):
        CLASSIFY.read(rows, "train", ColumnOptions(1))
    with raises(ValueError, "'body'"):
        ColumnOptions("body", label="body")
    with raises(ValueError, "text_pair_column", "text_column"):
        ColumnOptions(text_pair="other")
    with raises(ValueError, "columns", "1", "no_header"):
        ColumnOptions("body", no_header=True)


def test_column_that_a_file_without_a_header_lacks_is_answered_with_numbers(write):
    long = "a stirring , funny and finally transporting re-imagining of beauty"
    path = write(f"{long}\t1\n{long}\t0\n", "a.tsv")
    with raises(ValueError, "text_column='1'") as got:
        CLASSIFY.read(path, options=ColumnOptions("text", label="label"))
    assert "transporting" not in str(got.value)
    lines = write('{"body": "a", "label": 1}\n', "a.jsonl")
    with raises(ValueError, "a.jsonl", "'text'", "body, label"):
        CLASSIFY.read(lines, options=ColumnOptions("text"))


def test_rows_in_memory_that_cannot_be_read_name_the_way(messages):
    texts, labels = [f"a fine film {n}" for n in range(12)], ["good", "bad"] * 6
    with raises(ValueError, "train[0]", "(texts, labels)"):
        CLASSIFY.read([texts, labels], "train")
    with raises(ValueError, "train[1]", "None"):
        CLASSIFY.read([("a", "x"), ("b", None)], "train")
    CLASSIFY.read({"text": texts, "label": labels, "w": texts}, "train")
    (line,) = messages
    assert line.startswith("train") and line.endswith(" w")


def test_command_line_names_options_and_python_arguments(write):
    """One way of naming in a message: of two, half the readers would have to translate."""
    path = write("".join(f"{n % 2}\tfilm {n}\n" for n in range(13)), "a.tsv")
    with pytest.raises(ValueError) as refused:
        CLASSIFY.read(path)
    with naming_commands(), pytest.raises(ValueError) as of_command:
        CLASSIFY.read(path)
    python, command = str(refused.value), str(of_command.value)
    assert "text_column='2', label_column='1', no_header=True" in python and "--" not in python
    assert "--text-column 2 --label-column 1 --no-header" in command
    assert "text_column" not in command


def test_unlabelled_rows_are_counted(messages):
    records = [Labelled("a", label) for label in ["0", "1"] * 20 + ["-1", "NaN", "nan"]]
    assert CLASSIFY.labels(records) == ("-1", "0", "1", "NaN", "nan")
    counts = [("-1", 1), ("NaN", 1), ("nan", 1)]
    for (label, count), message in zip(counts, messages, strict=True):
        check_named(message, "train", repr(label), f"{count} of 43")
    messages.clear()
    CLASSIFY.labels([Labelled("a", label) for label in ["-1", "0", "1"] * 9])  # a class as others
    assert not messages
    found = CLASSIFY.labels([Labelled("a", label) for label in ("2", "0", "10")])
    assert found == ("0", "2", "10")  # numbers by their value


def test_labels_that_hardly_repeat_are_refused(write):
    """Text and label swapped: either reading can be chosen; few examples prove nothing."""
    swapped = [(("good", "bad", "mixed")[n % 3], f"film {n}") for n in range(13)]
    right = [(text, label) for label, text in swapped]
    file = write("".join(f"{label},{text}\n" for label, text in swapped), "some.csv")
    first, second = (
        f"text_column='{text}', label_column='{label}', no_header=True"
        for text, label in ("21", "12")
    )
    with pytest.raises(ValueError) as refused:
        CLASSIFY.read(file)
    said = str(refused.value)
    check_named(said, "13 different", "13 examples", first, second)
    assert "regress" not in said and "\n" not in said
    for options, expected in (((2, None, 1), right), ((1, None, 2), swapped)):
        found = CLASSIFY.read(file, options=ColumnOptions(*options, no_header=True))
        assert [(one.text, one.label) for one in found] == expected
    found = CLASSIFY.read(swapped, "train", ColumnOptions("label", None, "text"))
    assert [(one.text, one.label) for one in found] == right
    with raises(ValueError, "train", "(texts, labels)"):
        CLASSIFY.read(swapped, "train")
    numbers = [("a", "b", str(n % 8)) for n in range(16)]  # half of them: as many as may be
    assert len(CLASSIFY.read(numbers, "train")) == 16 > len(CLASSIFY.read(swapped[:10], "train"))
    with raises(ValueError, "(texts, second_texts, labels)", "regress"):
        CLASSIFY.read(numbers[:15], "train")
    assert len(CLASSIFY.read(file, options=ColumnOptions(known_labels=["film 0"]))) == 13


@pytest.mark.parametrize("name", ["some.tsv", "some.csv", "some.jsonl"])
def test_any_line_ending_gives_the_same_records(write, name):
    between = {"some.tsv": "\t", "some.csv": ","}.get(name)
    lines = [f"a cat{between}1", f"a dog{between}0"]
    if between is None:
        lines = ['{"text": "a cat", "label": 1}', '{"text": "a dog", "label": 0}']
    for end in ("\n", "\r\n", "\r"):
        records = CLASSIFY.read(write(end.join(lines) + end, name))
        assert [record[:2] for record in records] == [("a cat", "1"), ("a dog", "0")]


def test_sst2_is_read(shared):
    folder = shared / "data" / "sst2"
    counts = {name: len(CLASSIFY.read(folder / f"{name}.tsv")) for name in ("train", "dev", "test")}
    assert counts == {"train": 6920, "dev": 872, "test": 1821}  # Socher et al. 2013


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "", ("a.tsv",)),
        ("a.tsv", "text\tlabel\n", ("a.tsv", "got none")),
        ("a.tsv", "good\t1\nno label\n", ("line 2", "2", "got 1")),
        ("a.tsv", "good\t1\nbad\t0\t0\n", ("line 2", "2", "got 3")),
        ("a.tsv", "no label at all\n", ("line 1",)),
        ("a.tsv", "a\tb\tc\td\n", ("line 1",)),
        (
            "a.tsv",
            "good\t1\n\nbad\t\n",
            ("line 3", '"column 2"'),
        ),
        ("a.tsv", "good\t1\n\t0\n", ("line 2", '"column 1"')),
        ("a.tsv", b"good\t1\ncaf\xe9\t0\n", ("line 2", "UTF-8", "0xe9")),
        ("a.xlsx", b"PK\x03\x04\xff", ("a.xlsx", ".csv")),
        ("a.csv", "", ("a.csv",)),
        ("a.csv", '"a\nb",1\nno label\n', ("a.csv", "line 3", "2", "got 1")),
        ("a.csv", 'a,1\n"b\n\nc",\n', ("a.csv", "line 2", '"column 2"')),
        ("a.csv", 'a,1\n"b,1\nc,1\n', ("a.csv", "line 2")),
        ("a.csv", 'a,1\n"b"c,1\n', ("a.csv", "line 2")),
        ("a.csv", "a\n", ("a.csv", "line 1")),
        (
            "a.csv",
            "a;1\nb;2\n",
            ("line 1", "commas", "semicolons"),
        ),
        ("a.csv", "text;label\na, b, c;1\n", ("line 1", "semicolons")),
        ("a.csv", 'text;label\n"a; b";1\n', ("a.csv",)),
        ("a.csv", "text\tlabel\na\t1\n", ("line 1", "tabs")),
        ("a.tsv", "text|label\na, b|1\n", ("'|'",)),
        (
            "a.csv",
            b"a,1\ncaf\xe9,0\n",
            ("line 2", "UTF-8", "0xe9"),
        ),
        (
            "a.csv",
            "label,note\n1,a\n",
            ("line 1", "'label, note'"),
        ),
        (
            "a.csv",
            "text,label,class,labels\n",
            ("got none",),
        ),
        (
            "a.csv",
            "text,sentence2\n",
            ("a.csv", "line 1", "'text, sentence2'"),
        ),
        ("a.csv", "text,label,Text\na,1,b\n", ("line 1", "2", "'text'")),
        (
            "a.csv",
            "idx,text,label\n4,,1\n",
            ("a.csv", "line 2", '"text"'),
        ),
        (
            "a.csv",
            "idx,text,label\n4,a\n",
            ("a.csv", "line 2", "3", "got 2"),
        ),
        ("a.json", "\n", ("a.json", "got none")),
        ("a.json", "\n[]\n", ("line 2", "JSON", "list")),
        (
            "a.json",
            '{"text": "a"',
            ("line 1", "JSON"),
        ),
        (
            "a.json",
            '{"text": "a"}',
            ("line 1",),
        ),
        ("a.json", '{"text": "a", "label": 1.5}', ('"label"',)),
        ("a.json", '{"text": "a", "label": [1]}', ('"label"',)),
        ("a.json", '{"label": 1}', ("a.json", "line 1", "label")),
        ("a.json", '{"label": 1, "text": null}', ('"text"', "None")),
        ("a.json", '{"text": "a", "label": 1, "pair": 2}', ('"pair"', "got 2")),
    ],
)
def test_bad_files_are_refused_with_the_line(write, name, content, said):
    with raises(ValueError, *said) as error:
        read_data(task_of("classify"), write(content, name), None)
    assert "\n" not in str(error.value)


def test_bad_labels_are_refused_with_the_line(write, tokenizer):
    records = CLASSIFY.read(write("a cat\t1\na dog\t2\n"))
    with raises(ValueError, "some.tsv", "line 2", "label", "0, 1", "'2'"):
        CLASSIFY.encode(records, tokenizer, ("0", "1"), 16)
    with raises(ValueError, "'1'"):
        CLASSIFY.labels(records[:1])
    mixed = [Labelled("a", "1"), Labelled("a", "1", "b")]
    with raises(ValueError, "got both"):
        CLASSIFY.encode(mixed, tokenizer, ("0", "1"), 16)


def test_texts_are_encoded_and_cut_ones_counted(tokenizer, messages):
    records = [Labelled("a cat", "x", "the dog"), Labelled("a cat sat on the mat", "y", "the dog")]
    examples = CLASSIFY.encode(records, tokenizer, ("x", "y"), 8)
    pair = tokenizer.encode("a cat", "the dog")
    assert examples.ids[0] == pair.ids
    assert examples.segment_ids[0] == pair.segment_ids
    assert [len(ids) for ids in examples.ids] == [7, 8]
    assert examples.labels == {CLASSIFIER: [0, 1]}
    check_logged(messages, "1 of 2", "8 tokens")


def test_every_example_comes_once_an_epoch(examples):
    batches = batches_of(examples)
    assert batches.steps_per_epoch == STEPS
    for epoch in range(3):
        seen = []
        for step in range(epoch * STEPS, (epoch + 1) * STEPS):
            batch = batches.batch(step)
            assert len(batch) == BATCH  # static, the odd one as well
            assert batch.weights[CLASSIFIER].sum() == pytest.approx(1)
            assert {array.dtype for array in batch.inputs.values()} == {np.dtype("int32")}
            seen += real_rows(batch).tolist()
            for row, place in enumerate(batch.inputs[TOKEN_IDS][:, 0] - 100):
                size = len(examples.ids[place])
                assert list(batch.inputs[TOKEN_IDS][row, :size]) == examples.ids[place]
                assert not batch.inputs[TOKEN_IDS][row, size:].any()
                assert list(batch.inputs[SEGMENT_IDS][row, :size]) == examples.segment_ids[place]
                assert batch.labels[CLASSIFIER][row] == examples.labels[CLASSIFIER][place]
        assert sorted(seen) == list(range(COUNT))


def test_a_batch_depends_on_seed_and_step_alone(examples):
    first, again = batches_of(examples), batches_of(examples)
    for step in (9, 0, 5, 9):
        one, two = first.batch(step), again.batch(step)
        parts = [again.batch(step, part) for part in (slice(0, 4), slice(4, 9), slice(9, BATCH))]
        for group in ("inputs", "labels", "weights"):
            for name, array in getattr(one, group).items():
                assert np.array_equal(array, getattr(two, group)[name])
                pieces = [getattr(part, group)[name] for part in parts]
                assert np.array_equal(array, np.concatenate(pieces))  # on three hosts
    orders = [tuple(real_rows(first.batch(step))) for step in range(2 * STEPS)]
    assert len(set(orders)) == 2 * STEPS  # another epoch, another order
    assert tuple(real_rows(batches_of(examples, seed=3).batch(0))) not in orders


def test_batches_have_few_shapes_and_little_padding(examples):
    sorted_batches = batches_of(examples)
    random = batches_of(examples, pool=1)

    def sizes(batches):
        return [batches.batch(step).inputs[TOKEN_IDS].shape[1] for step in range(STEPS)]

    assert set(sizes(sorted_batches)) <= {16, 32, 48}
    assert sorted_batches.lengths == (16, 32, 48)
    assert sum(sizes(sorted_batches)) < sum(sizes(random))


def test_bucket_lengths_have_the_least_cost():
    """Against every choice, tried."""
    random = np.random.default_rng(3)
    for shape_cost in (0.0, 0.3, 2.0, 11.0):
        lengths = sorted(random.choice(60, 7, replace=False) + 1)
        needed = {int(length): int(random.integers(1, 9)) for length in lengths}
        mean = np.average(list(needed), weights=list(needed.values()))

        def cost(chosen, needed=needed, mean=mean, shape_cost=shape_cost):
            waste = sum(
                count * (pick_length(chosen, length) - length) for length, count in needed.items()
            )
            return waste / mean + shape_cost * len(chosen)

        *shorter, longest = needed
        every = [
            (*chosen, longest)
            for count in range(len(shorter) + 1)
            for chosen in itertools.combinations(shorter, count)
        ]
        found = cheapest_lengths(needed, shape_cost)
        assert found in every
        assert cost(found) == pytest.approx(min(map(cost, every)))
    assert cheapest_lengths({8: 3, 12: 1}, 0.0) == (8, 12)
    assert cheapest_lengths({8: 3, 12: 1}, 99.0) == (12,)


def test_bucket_lengths_do_not_change_the_batches(examples):
    batches = batches_of(examples, lengths=range(4, 65, 4))
    few = batches.with_lengths((20, 64))
    for step in range(STEPS):
        one, other = batches.batch(step), few.batch(step)
        assert other.inputs[TOKEN_IDS].shape[1] in (20, 64)
        width = one.inputs[TOKEN_IDS].shape[1]
        np.testing.assert_array_equal(other.inputs[TOKEN_IDS][:, :width], one.inputs[TOKEN_IDS])
        assert not other.inputs[TOKEN_IDS][:, width:].any()
    assert few.fingerprint != batches.fingerprint and batches.lengths != few.lengths


def test_labels_of_tokens_weigh_the_same(examples):
    """1 / (labelled tokens of the batch), however long the texts are."""
    random = np.random.default_rng(5)
    given = [
        [int(n) if n else IGNORED for n in random.integers(0, 3, len(i))] for i in examples.ids
    ]
    tokens = Examples(examples.ids, examples.segment_ids, {TOKEN_CLASSIFIER: given})
    batch = batches_of(tokens, batch_size=COUNT + 2).batch(0)
    counted = collections.Counter(label for row in given for label in row if label != IGNORED)
    labels, weights = batch.labels[TOKEN_CLASSIFIER], batch.weights[TOKEN_CLASSIFIER]
    assert labels.shape == weights.shape == batch.inputs[TOKEN_IDS].shape
    assert collections.Counter(labels[weights > 0].tolist()) == counted
    assert np.allclose(weights[weights > 0], 1 / counted.total())


def test_two_outputs_share_the_loss(examples):
    """0.5 / B each; a window without an answer that counts weighs nothing."""
    spans = {SPAN_START: [1] * COUNT, SPAN_END: [IGNORED, *[2] * (COUNT - 1)]}
    batch = batches_of(Examples(examples.ids, examples.segment_ids, spans), batch_size=COUNT).batch(
        0
    )
    assert np.allclose(batch.weights[SPAN_START], 0.5 / COUNT)
    assert sorted(np.unique(batch.weights[SPAN_END])) == pytest.approx([0, 0.5 / (COUNT - 1)])


@pytest.mark.parametrize("pad_counts", [True, False])
def test_sequences_of_an_example_stay_together(pad_counts):
    """Each example's sequences have 1, 2, … tokens more than the one before's.

    Examples of 1 and 2 sequences are one batch, which has 2 of each unless all are padded to 3.
    """
    ids = [[1] * tokens for tokens in range(1, 10)]
    examples = Examples(ids, ids, {CLASSIFIER: [2, 0, 1, 1]}, counts=(3, 1, 3, 2))
    options = {"batch_size": 2, "lengths": (4, 9), "pad_counts": pad_counts}
    batches, seen = BucketedBatches(examples, **options), []
    for step, (rows, length) in enumerate(batches.shapes_in(0)):
        batch = batches.batch(step)
        tokens = (batch.inputs[TOKEN_IDS] > 0).sum(-1)
        assert batch.inputs[SEGMENT_IDS].shape == (2, rows // 2, length)
        seen += zip(
            tokens.tolist(),
            batch.inputs[SEQUENCE_MASK].tolist(),
            batch.labels[CLASSIFIER].tolist(),
            strict=True,
        )
    assert sorted(seen) == [
        ([1, 2, 3], [1, 1, 1], 2),
        (([4, 4, 4], [1, 0, 0], 0) if pad_counts else ([4, 4], [1, 0], 0)),
        ([5, 6, 7], [1, 1, 1], 1),
        (([8, 9, 8], [1, 1, 0], 1) if pad_counts else ([8, 9], [1, 1], 1)),
    ]
    grouped = examples.group_sequences([np.array([n]) for n in range(9)])
    assert [one.tolist() for one in grouped] == [[0, 1, 2], [3], [4, 5, 6], [7, 8]]
    with raises(ValueError, "sequences", "9", "got 8"):
        Examples(ids, ids, {CLASSIFIER: [2, 0, 1]}, counts=(3, 3, 2))


def test_bad_batch_settings_are_refused(examples):
    with raises(ValueError, "16", "got 39"):
        batches_of(examples, lengths=(8, 16))
    with raises(ValueError, "examples", "got none"):
        batches_of(Examples([], [], {CLASSIFIER: []}))
    with raises(ValueError, "Classifier", "45", "got 2"):
        Examples(examples.ids, examples.segment_ids, {CLASSIFIER: [0, 1]})
    with raises(ValueError, "step", "0", "got -1"):
        batches_of(examples).batch(-1)


def test_the_fingerprint_tells_data_and_settings_apart(examples):
    labels = {CLASSIFIER: [1, *examples.labels[CLASSIFIER][1:]]}
    other = Examples(examples.ids, examples.segment_ids, labels)
    prints = [batches_of(examples), batches_of(other), batches_of(examples, seed=4)]
    assert len({str(batches.fingerprint) for batches in prints}) == 3
    assert batches_of(examples).fingerprint == prints[0].fingerprint


def test_columns_of_pairs_without_a_header_are_logged(write, messages):
    CLASSIFY.read(write("7\ta film\tgood\n9\tb\tbad\n"))
    check_logged(messages, "some.tsv", "text, second text, label")


def test_training_and_dev_data_of_different_kinds_are_refused(write):
    pairs = write("a\tb\tgood\nc\td\tbad\n", "pairs.tsv")
    single = write("a\tgood\nc\tbad\n", "single.tsv")
    with raises(ValueError, "pairs.tsv", "single.tsv"):
        read_data(task_of("classify"), pairs, single)
    with raises(ValueError, "pairs.tsv", "single.tsv"):
        read_data(task_of("classify"), single, pairs)
