"""The columns of words and labels in CoNLL files of other layouts than word first, label last."""

import pytest
from helpers.errors import check_logged, raises

from kbert.data.labelled.columns import ColumnOptions
from kbert.tasks.finetuning.task import task_of

TAGGING = task_of("tag")
WORDS, TAGS = ("In", "Paris", "Anna", "sat"), ("O", "B-LOC", "B-PER", "O")
REST = "\t".join("______")
UNIVERSAL = (
    f"# sent_id = 1\n1-2\tdon't\t_\t_\t{REST}\n1\tdo\tdo\tAUX\t{REST}\n"
    f"2\tn't\tnot\tPART\t{REST}\n2.1\tx\tx\tX\t{REST}\n\n"
)


def write(tmp_path, text: str, name: str = "a.conll"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def write_columns(tmp_path, *columns, header: str = ""):
    """Write the same sentence three times."""
    sentence = "".join("\t".join(cells) + "\n" for cells in zip(*columns, strict=True))
    return write(tmp_path, header + "\n".join([sentence] * 3))


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("header", ["", "\tword\tlabel\n", "id\ttoken\tner\n"])
def test_words_are_beside_a_column_that_counts_them(tmp_path, messages, start, header):
    """As in WikiNEuRal, MultiNERD and GermEval 2014."""
    numbers = [str(number) for number in range(start, start + 4)]
    records = TAGGING.read(write_columns(tmp_path, numbers, WORDS, TAGS, header=header))
    assert [record[:2] for record in records] == [(WORDS, TAGS)] * 3
    check_logged(messages, "column 2")
    assert records.columns == {"texts": ["2"], "label": "the last"}


def test_label_column_is_chosen_beside_numbered_words(tmp_path):
    """GermEval's outer names are its third column, the inner ones its fourth."""
    inner = ["O", "O", "O", "B-ORG"]
    data = write_columns(tmp_path, "1234", WORDS, TAGS, inner)
    assert TAGGING.read(data)[0].labels == tuple(inner)
    assert TAGGING.read(data, options=ColumnOptions(label="3"))[0][:2] == (WORDS, TAGS)
    assert TAGGING.read(data, options=ColumnOptions(text="1"))[0].words == ("1", "2", "3", "4")


@pytest.mark.parametrize("numbers", ["1024", "2345", "1134"])
def test_numbers_that_do_not_count_are_words(tmp_path, numbers):
    records = TAGGING.read(write_columns(tmp_path, numbers, ["CD"] * 4, TAGS))
    assert records[0].words == tuple(numbers)


def test_universal_file_of_another_name_is_refused_or_read_by_its_columns(tmp_path):
    data = write(tmp_path, UNIVERSAL * 3)
    with raises(ValueError, "label_column='4'") as refused:
        TAGGING.read(data)
    assert "\n" not in str(refused.value)
    expected = [sentence[:2] for sentence in TAGGING.read(write(tmp_path, UNIVERSAL, "a.conllu"))]
    for options in (ColumnOptions(label="4"), ColumnOptions("2", None, "4")):
        assert [sentence[:2] for sentence in TAGGING.read(data, options=options)] == expected * 3


@pytest.mark.parametrize("header", ["", "label\tword\n"])
def test_tags_before_words_are_read_as_tags(tmp_path, messages, header):
    """As in MIT's Movie and Restaurant corpora."""
    records = TAGGING.read(write_columns(tmp_path, TAGS, WORDS, header=header))
    assert [record[:2] for record in records] == [(WORDS, TAGS)] * 3
    check_logged(messages, "first column")
    assert TAGGING.labels(records) == ("B-LOC", "B-PER", "O")


def test_label_column_that_comes_first_is_not_the_words(tmp_path):
    data = write_columns(tmp_path, ["N", "V", "N", "V"], WORDS)
    assert TAGGING.read(data, options=ColumnOptions(label="1"))[0].words == WORDS


def test_labels_that_seem_to_be_words_are_refused(tmp_path):
    """Parts of speech first: 3 words for 55 labels, if the first column had the words."""
    data = write(
        tmp_path, "".join(f"DET\tthe{n}\nNOUN\tfilm{n}\nVERB\tsat{n % 7}\n\n" for n in range(24))
    )
    with raises(ValueError, "got 55") as refused:
        TAGGING.read(data, options=ColumnOptions(no_header=True))
    assert "\n" not in str(refused.value)
    named = ColumnOptions("2", None, "1")
    assert TAGGING.read(data, options=named)[0][:2] == (
        ("the0", "film0", "sat0"),
        ("DET", "NOUN", "VERB"),
    )
    rows = [([f"N{n % 2}", "V"], [f"word{n}", f"other{n}"]) for n in range(12)]
    with raises(ValueError, "got 24"):
        TAGGING.read(rows, "train")
