"""What the first line of a file is: a header, an example, or refused because it may be both."""

import pytest
from helpers.errors import check_logged, check_named, raises

from kbert.data.labelled.columns import ColumnOptions
from kbert.tasks.finetuning.data_summary import describe_records, summarize_records
from kbert.tasks.finetuning.task import records_of, task_of

LINES = {  # of examples, by the task and the number of their columns
    ("classify", 2): [("a fine film", "good"), ("it drags", "bad"), ("what a bore", "bad")],
    ("classify", 3): [("a film", "a book", "good"), ("a cat", "a dog", "bad"), ("a", "b", "bad")],
    ("classify", 4): [("7", "a film", "x", "good"), ("8", "a cat", "y", "bad")],
    ("regress", 2): [("a fine film", "4.5"), ("it drags", "1"), ("what a bore", "0")],
    ("multilabel", 2): [("a fine film", "good,new"), ("it drags", "bad"), ("what a bore", "bad")],
    ("multilabel", 3): [("a film", "a book", "good"), ("a cat", "a dog", "bad"), ("a", "b", "bad")],
    ("embed", 2): [("a cat", "a dog"), ("a film", "a book"), ("the sun", "the moon")],
    ("embed", 3): [("a cat", "a dog", "0.5"), ("a film", "a book", "0.7"), ("a", "b", "0.1")],
}
NUMBERS = {("embed", 2): [("a cat", "1"), ("a film", "2"), ("the sun", "1")]}

HEADERS = [  # task, first line; known labels, if any
    ("classify", "text label"),
    ("classify", "Label Text"),
    ("classify", "comment positive_label label"),  # a column that nobody knows, and all needed ones
    ("classify", " text annotator label"),  # pandas' index
    ("classify", "text class label"),  # two names of labels, one of them "label"
    ("classify", "text label", ["bad", "good"]),
    ("regress", "text score"),
    ("multilabel", "text labels"),
    ("embed", "query answer"),
    ("embed", "sentence1 sentence2 score"),
]
EXAMPLES = [
    ("classify", "dull good"),
    ("classify", "body verdict"),  # of names that nobody knows: a label `verdict` is logged
    ("classify", "body verdict", ["bad", "good"]),
    ("classify", "review neg", ["neg", "pos"]),  # a label of the model or of the training data
    ("classify", "comment positive", ["negative", "positive"]),
    ("classify", "text pair good", ["bad", "good"]),
    ("classify", "dull label", ["label", "other"]),
    ("regress", "review 3.5"),  # a number can only be a label
    ("regress", "score -1e3"),
    ("multilabel", "comment toxic,threat", ["toxic", "insult"]),
    ("embed", "front back"),
    ("embed", "review 3"),
]
EITHER = [
    ("classify", "text verdict"),
    ("classify", "verdict text"),
    ("classify", "comment positive"),
    ("classify", "review neg"),
    ("classify", "review neg", ["bad", "good"]),  # of other labels
    ("classify", "review 1"),
    ("classify", "dull label"),  # a class that is called "label", or a text's column
    ("classify", "text label", ["label", "other"]),
    ("classify", "label sentence2"),  # known names alone, but no text's
    ("classify", "text class target"),  # two labels: which one?
    ("classify", "id comment verdict"),
    ("regress", "text amount"),
    ("multilabel", "comment toxic"),
    ("multilabel", "comment_text toxic threat"),  # columns of 0 and 1
    ("embed", "query reply"),
    ("embed", "question1 question2 0.5"),
]


@pytest.fixture
def write(tmp_path):
    """A function that writes a first line and examples below it, and returns the file and these."""

    def write(task: str, line: str):
        cells = line.split(" ")
        columns = task, len(cells)
        rows = NUMBERS[columns] if cells[-1].isdecimal() and columns in NUMBERS else LINES[columns]
        path = tmp_path / "some.tsv"
        path.write_text("".join("\t".join(row) + "\n" for row in [cells, *rows]))
        return path, rows

    return write


def read(task: str, path, known_labels=(), **options) -> list:
    columns = ColumnOptions(**options, known_labels=known_labels)
    return records_of(task_of(task), path, columns=columns)


@pytest.mark.parametrize("case", HEADERS, ids=str)
def test_line_that_names_the_needed_columns_is_a_header(write, messages, case):
    task, line, *known = case
    path, rows = write(task, line)
    assert len(read(task, path, *known)) == len(rows)
    check_logged(messages, f"{path}, line 1", "header")


@pytest.mark.parametrize("case", EXAMPLES, ids=str)
def test_other_line_is_an_example(write, messages, case):
    task, line, *known = case
    path, rows = write(task, line)
    records = read(task, path, *known)
    assert len(records) == len(rows) + 1
    first = records[0].texts[0] if task == "embed" else records[0].text
    assert (first, records.has_header) == (line.split(" ")[0], False)
    assert not [text for text in messages if "line 1: read" in text]


@pytest.mark.parametrize("case", EITHER, ids=str)
def test_line_that_may_be_both_is_refused_and_each_option_decides(write, case):
    task, line, *known = case
    path, rows = write(task, line)
    with raises(ValueError, "line 1") as refused:
        read(task, path, *known)
    said = str(refused.value)
    assert said.startswith(f"{path}, line 1: ") and "\n" not in said
    assert "no_header=True" in said and "text_column=" in said and "label_column=" in said

    cells = line.split(" ")
    named = {"text": cells[0], "label": cells[-1]}
    assert len(read(task, path, *known, **named)) == len(rows)
    if task != "regress":  # whose first line has no number
        numbered = {"text": "1", "label": str(len(cells))}
        records = read(task, path, *known, **numbered, no_header=True)
        assert len(records) == len(rows) + 1


@pytest.mark.parametrize("line", ["body mood", "what verdict"])
def test_first_line_that_is_no_example_may_be_a_header(write, line):
    path, rows = write("regress", line)
    with raises(ValueError, "line 1", "text_column", "label_column") as refused:
        read("regress", path)
    assert "\n" not in str(refused.value)
    text, label = line.split(" ")
    assert len(read("regress", path, text=text, label=label)) == len(rows)


WORDS = [("Ada", "B-PER"), ("met", "O"), ("Bob", "B-PER")]


@pytest.mark.parametrize(
    ("line", "known", "expected"),
    [
        ("token ner", [], "header"),
        ("Word LABEL", [], "header"),
        ("Zed X", [], "example"),
        ("token O", [], "example"),  # a tag can only be a label
        ("form B-PER", [], "example"),
        ("label NN", ["NN", "VB"], "example"),
        ("label NN", [], "either"),
        ("word verdict", [], "either"),
        ("label word", [], "either"),  # known names, but a word's stands for labels
    ],
)
def test_first_line_of_words(tmp_path, line, known, expected):
    path = tmp_path / "a.conll"
    path.write_text("\n".join([line, *map(" ".join, WORDS)]) + "\n")
    if expected == "either":
        with raises(ValueError, "line 1", "no_header=True", "text_column"):
            read("tag", path, known)
        (sentence,) = read("tag", path, known, no_header=True)
    else:
        (sentence,) = read("tag", path, known)
    first = "Ada" if expected == "header" else line.split()[0]
    assert sentence.words[0] == first and sentence.words[-1] == "Bob"


@pytest.mark.parametrize("classes", [2, 13, 3000])
def test_log_shows_the_label_of_a_header_that_was_read_as_an_example(tmp_path, messages, classes):
    """Its label is alone among others, however many there are."""
    lines = "".join(f"a text {n}\tlabel {n % classes}\n" for n in range(6 * classes))
    path = tmp_path / "a.tsv"
    path.write_text("body\tverdict\n" + lines)
    task = task_of("classify")
    records = records_of(task, path)
    said = describe_records("train", summarize_records(task, records), task.labels(records))
    assert "verdict" in said and "no header" in said and len(said) < 400
    (warning,) = messages
    check_named(warning, f"{path}, line 1", "'verdict'", "text_column='body'")

    named = ColumnOptions("body", None, "verdict")
    records = records_of(task, path, columns=named)
    said = describe_records("train", summarize_records(task, records), task.labels(records))
    assert "verdict (label)" in said and "no header" not in said and "of one" not in said


def test_first_line_is_not_taken_for_a_header_without_a_sign(tmp_path, messages):
    """The user has said that it is none; another label is as rare; there are few lines."""
    many = [f"a text {n}\tlabel {n % 2}" for n in range(20)]
    path = tmp_path / "a.tsv"
    for lines, options in (
        (["a text\trare", *many], {"no_header": True}),
        (["a text\trare", *many, "a text\tother"], {}),
        (["a text\tlabel 0", *many], {}),
        (["a text\trare", *many[:5]], {}),
    ):
        path.write_text("\n".join(lines) + "\n")
        for task in ("classify", "multilabel"):
            records_of(task_of(task), path, columns=ColumnOptions(**options))
        assert not [text for text in messages if "header" in text], lines
