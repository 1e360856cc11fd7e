"""Tables as pandas, csv, Excel and GLUE write them: quotes, blanks, two columns of one name."""

import csv
import itertools
import random

import pytest
from helpers.errors import check_logged, raises

from kbert.data.labelled.columns import ColumnOptions
from kbert.tasks.classification.training import TASK as CLASSIFY
from kbert.tasks.finetuning.task import records_of, task_of

TEXTS = [
    'He said "a late goal" won',
    '"Quoted," he said, "at both ends"',
    "it rained",
    "with a\ttab",
    "with a\nline end",
    'a 5" screen, "new"',
    "plain, with a comma",
    '""',
]
ROWS = [(text, str(n % 2)) for n, text in enumerate(TEXTS)]


def write(path, rows, **options):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, **options).writerows([("text", "label"), *rows])
    return path


def read(path, **options) -> list[tuple[str, str]]:
    records = records_of(CLASSIFY, path, columns=ColumnOptions(**options))
    return [(record.text, record.label) for record in records]


QUOTING = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]


@pytest.mark.parametrize("quoting", QUOTING)
@pytest.mark.parametrize(("name", "delimiter"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_what_csv_writes_is_read_as_it_was(tmp_path, name, delimiter, quoting):
    for rows in (ROWS, ROWS[:3], ROWS[2:4], ROWS[4:5], ROWS[-1:], list(reversed(ROWS))):
        path = write(tmp_path / name, rows, delimiter=delimiter, quoting=quoting)
        assert read(path) == rows


def test_random_texts_are_read_as_csv_wrote_them(tmp_path):
    """Also as GLUE writes them, csv.QUOTE_NONE, where no text has a tab or a line end."""
    rng = random.Random(3)
    for trial in range(150):
        size = rng.randrange(3, 9)
        texts = ["".join(rng.choices('ab" ,', k=rng.randrange(1, 9))) for _ in range(size)]
        rows = [(text.strip() or "a", str(n % 2)) for n, text in enumerate(texts)]
        quoting = QUOTING[trial % 3]
        assert read(write(tmp_path / "a.tsv", rows, delimiter="\t", quoting=quoting)) == rows
        lines = ["text\tlabel", *map("\t".join, rows)]
        (tmp_path / "b.tsv").write_text("\n".join(lines) + "\n")
        plain = read(tmp_path / "b.tsv")
        certain = [text for text, _ in rows if text.count('"') % 2 or text.strip('"') == text]
        assert [row for row in plain if row[0] in certain] == [r for r in rows if r[0] in certain]


GLUE = [  # as in the published train.tsv of MRPC, SST-2 and QNLI, which quote no cell
    '"This is a step in the right direction , " he said .',
    'Amrozi accused his brother , whom he called " the witness " .',
    '" hey arnold !',
    'what is the "royal we" ?',
    '"The screen is 5" wide"',
    '"an ""odd"" line"',  # quoted for csv, but other lines are not
]


def test_quotes_of_texts_in_glues_files_stay(tmp_path):
    rows = [(text, str(n % 2)) for n, text in enumerate(GLUE)]
    lines = ["sentence\tlabel", *map("\t".join, rows)]
    (tmp_path / "a.tsv").write_text("\n".join(lines) + "\n")
    assert read(tmp_path / "a.tsv") == rows
    two = [("He said.", '"A film"'), ("She said.", "a film")]  # one text stands in quotes
    (tmp_path / "b.tsv").write_text("".join(f"{b}\t{n % 2}\n" for n, (_, b) in enumerate(two * 3)))
    assert [text for text, _ in read(tmp_path / "b.tsv")] == ['"A film"', "a film"] * 3


def test_a_quote_that_two_texts_begin_and_end_does_not_join_their_lines(tmp_path):
    rows = [('" it begins', "1"), ("a film", "0"), ('and it ends "', "1"), ("a dog", "0")]
    (tmp_path / "a.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    assert read(tmp_path / "a.tsv") == rows


def test_cells_that_excel_quotes_for_a_comma_are_read(tmp_path):
    """Excel's "Text (Tab delimited)" quotes a cell with a comma too."""
    (tmp_path / "a.txt").write_bytes(b'text\tlabel\r\n"yes, a goal"\t1\r\nit rained\t0\r\n')
    assert read(tmp_path / "a.txt") == [("yes, a goal", "1"), ("it rained", "0")]


def test_blanks_after_commas_are_no_text(tmp_path):
    """`csv` with skipinitialspace is the peer."""
    content = 'text, label\n"a late goal, yes", "pos"\n  "it rained",  neg\na "new" film, pos\n'
    (tmp_path / "a.csv").write_text(content)
    rows = csv.reader(content.splitlines(), skipinitialspace=True)
    assert read(tmp_path / "a.csv") == [tuple(row) for row in itertools.islice(rows, 1, None)]


@pytest.mark.full
@pytest.mark.parametrize("quoting", QUOTING)
def test_what_pandas_writes_is_read_as_pandas_reads_it(tmp_path, quoting):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["text", "label"])
    for index in (True, False):
        frame.to_csv(tmp_path / "a.tsv", sep="\t", index=index, quoting=quoting)
        again = pandas.read_csv(tmp_path / "a.tsv", sep="\t", dtype=str)
        assert read(tmp_path / "a.tsv") == list(zip(again.text, again.label, strict=True)) == ROWS


@pytest.mark.parametrize("header", ["text,label,text", "note,text,Note,label", "text,label,label"])
@pytest.mark.parametrize("task", ["classify", "regress", "multilabel", "embed"])
def test_two_columns_of_one_name_are_refused_by_name(tmp_path, task, header):
    names = header.split(",")
    (tmp_path / "a.csv").write_text(header + "\n" + ",".join("1" for _ in names) + "\n")
    options = ColumnOptions("text", None, "label")
    twice = next(name for name in names if header.lower().count(name.lower()) == 2)
    for columns in (ColumnOptions(), options):
        with pytest.raises(ValueError) as refused:
            records_of(task_of(task), tmp_path / "a.csv", columns=columns)
        said = str(refused.value)
        assert "a.csv, line 1" in said and "\n" not in said
        assert task == "embed" or repr(twice) in said


def test_columns_without_a_name_may_be_several(tmp_path):
    (tmp_path / "a.csv").write_text(",,text,label\n0,0,goal,1\n1,1,rain,0\n")
    assert read(tmp_path / "a.csv") == [("goal", "1"), ("rain", "0")]


@pytest.mark.full
def test_a_frame_with_two_columns_of_one_name_is_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["a", "b", 1]], columns=["text", "text", "label"])
    with raises(ValueError, "2", "'text'"):
        records_of(CLASSIFY, frame, "train")


def test_whole_numbers_with_a_point_are_the_labels_without_it(tmp_path):
    """As rows in memory have them; a model that knows them with a point keeps them."""
    path = tmp_path / "a.tsv"
    path.write_text("a\t1.0\nb\t0.0\nc\t2\nd\t10.0\n")
    in_memory = CLASSIFY.read([("a", 1.0), ("b", 0.0), ("c", 2), ("d", 10.0)], "train")
    assert read(path) == [record[:2] for record in in_memory]
    assert read(path, known_labels=("1.0", "0.0", "2", "10.0"))[0] == ("a", "1.0")
    path.write_text("a\t1.0\nb\t0.5\nc\t2.0\n")  # versions, or half stars
    assert [label for _, label in read(path)] == ["1.0", "0.5", "2.0"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "a good film;3,5\na bad film;1,0\n"),
        ("a.csv", "a good film,3,5\na bad film,1,0\n"),
        ("a.tsv", "a good film\t3,5\na bad film\t1,0\n"),
        ("a.tsv", "a good film\t1_000\na bad film\t1\n"),
    ],
)
def test_numbers_with_a_comma_are_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with raises(ValueError, f"{name}, line 1") as refused:
        records_of(task_of("regress"), tmp_path / name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "a cat,a dog,3,5\na,b,1,0\n"), ("a.tsv", "a cat\ta dog\t3,5\na\tb\t1,0\n")],
)
def test_scores_with_a_comma_are_no_texts(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with raises(ValueError, f"{name}, line 1", "comma"):
        records_of(task_of("embed"), tmp_path / name)
    (tmp_path / name).write_text(f"{content}alone\n")
    with raises(ValueError, f"{name}, line "):
        records_of(task_of("embed"), tmp_path / name)


def test_labels_that_differ_in_case_are_warned_of(messages):
    CLASSIFY.labels(CLASSIFY.read([("a", "Good"), ("b", "good"), ("c", "bad")] * 3, "train"))
    check_logged(messages, "'Good'", "'good'")


def test_a_data_set_with_a_length_alone_ends():
    """As torch's Dataset: Python's own iteration would go on for ever."""
    torch = pytest.importorskip("torch")

    class Endless:
        def __getitem__(self, number):
            return {"text": f"text {number % 4}", "label": torch.tensor(number % 2)}

    class Rows(Endless, torch.utils.data.Dataset):
        def __len__(self):
            return 5

    assert [record.label for record in CLASSIFY.read(Rows(), "train")] == list("01010")
    subset = torch.utils.data.Subset(Rows(), [1, 3])
    assert [record.label for record in CLASSIFY.read(subset, "train")] == ["1", "1"]
    with raises(ValueError, "train", "Endless", "__len__"):
        CLASSIFY.read(Endless(), "train")


SAY = "".join(f"say {n}\t{n % 2}\n" for n in range(24))


def test_a_quote_that_opens_and_one_that_closes_join_no_lines(tmp_path):
    """The line in between has no tab: an error, with its number, not one text of three lines."""
    path = tmp_path / "a.tsv"
    path.write_text(SAY + '"open\t1\nmid 1\nclose"\t0\n')
    with raises(ValueError, "a.tsv", "line 26"):
        read(path)


def test_a_cell_of_several_lines_with_a_tab_is_read_in_a_quoted_table(tmp_path):
    rows = [("one\ttab\nand two\nlines", "1"), ('a "new" film', "0"), ("rain", "1")]
    path = write(tmp_path / "a.tsv", rows, delimiter="\t")
    assert read(path) == rows


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("task", ["classify", "regress", "multilabel", "embed"])
def test_a_first_column_that_numbers_the_rows_is_no_text(tmp_path, task, start):
    """As pandas' to_csv(header=False) writes its index."""
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{n + start},some text {n},{n % 2}\n" for n in range(12)))
    with raises(ValueError, "a.csv", "line 1", "1") as refused:
        records_of(task_of(task), path)
    assert "\n" not in str(refused.value)


def test_the_columns_beside_row_numbers_are_read_by_their_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{n},some text {n},{n % 2}\n" for n in range(12)))
    options = {"text": "2", "label": "3", "no_header": True}
    assert read(path, **options) == [(f"some text {n}", str(n % 2)) for n in range(12)]


def test_a_score_is_the_number_to_predict(tmp_path):
    path = tmp_path / "a.csv"
    for header in ("text,label,score", "text,score,label"):
        values = {"text": "some", "label": "1", "score": "2.5"}
        path.write_text(f"{header}\n" + ",".join(values[name] for name in header.split(",")) + "\n")
        regress = task_of("regress")
        assert [record.label for record in records_of(regress, path)] == [2.5]
        named = ColumnOptions(label="label")
        assert [record.label for record in records_of(regress, path, columns=named)] == [1.0]


@pytest.mark.parametrize("names", [["1", "2", "3"], ["0.5", "1", "1.5"]])
def test_class_names_that_are_numbers_are_the_numbers_to_predict(names, messages):
    class Stars(list):
        """Rows with the features that a `datasets.Dataset` has."""

    rows = Stars({"text": f"text {n}", "label": n} for n in range(3))
    rows.features = {"label": type("ClassLabel", (), {"names": names})}
    found = [record.label for record in records_of(task_of("regress"), rows)]
    assert found == [float(name) for name in names]
    check_logged(messages, "names of the classes")
    rows.features = {"label": type("ClassLabel", (), {"names": ["bad", "fair", "good"]})}
    assert [record.label for record in records_of(task_of("regress"), rows)] == [0.0, 1.0, 2.0]
