"""Sentences with a label for every word: CoNLL files, CoNLL-U, JSON lines, rows in memory."""

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from kbert.data.labelled.columns import ColumnOptions
from kbert.data.labelled.in_memory import LabelledRecords, label_of, text_of
from kbert.data.labelled.table_format import Columns, TableFormat, TableLayout, TableRow
from kbert.data.labelled.table_reading import begins_with_header, check_width
from kbert.data.labelled.text_lines import read_numbered_lines
from kbert.io.wording import data_of, name_setting
from kbert.tasks.tagging.layout import CONLLU_COLUMNS, Layout, Line, find_layout

WORDS = ("words", "tokens")  # what people call the two columns of rows
LABELS = ("labels", "tags", "ner_tags", "pos_tags", "upos", "label")
_WORD_NAMES = {*WORDS, "word", "token", "form"}  # in the header of a file of a word per line
_LABEL_NAMES = {*LABELS, "tag", "ner", "ner_tag", "pos", "pos_tag"}
_ENTITY = re.compile(r"O|[BIESLU]-.+")
_FEW = 10  # labels: so few prove nothing
_COMMENT = re.compile(r"# (\S+ =( |$)|new(doc|par)\b)[^\t]*")  # of Universal Dependencies


class Sentence(NamedTuple):
    """A sentence: its words, and the label and the file and line of each word."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    locations: tuple[str, ...]


def find_columns(names: Sequence, location: str, options: ColumnOptions) -> Columns:
    """Return the columns of rows: a list of words, and one of labels."""
    words = _find_column(names, WORDS, location, options.text)
    labels = _find_column(names, LABELS, location, options.label)
    return Columns((words,), labels)


def _find_column(columns: Sequence, names: Sequence[str], location: str, chosen: str | None) -> int:
    """Return the column that the user named, else a known one; the first name has precedence."""
    if chosen is not None:
        names = [chosen]
    known = [name for name in names if name in columns]
    is_clear = len(known) == 1 or names[0] in columns
    if is_clear:
        return columns.index(known[0])

    listed = ", ".join(str(column) for column in columns)
    choice = f": it may be one of {', '.join(known)}" if known else ""
    raise ValueError(f'{location}: expected a list "{names[0]}", got {listed[:60]}{choice}')


def name_cells(row) -> tuple[Sequence, Sequence] | None:
    """Return the names and the cells of a tuple in memory: (words, labels)."""
    if isinstance(row, list) and len(row) == 2:
        return ("words", "labels"), row
    return None


def make_sentence(row: TableRow) -> Sentence:
    """Return the sentence of a row of two lists."""
    layout, location = row.layout, row.location
    (word_column,) = layout.columns.texts
    label_column = cast(int, layout.columns.label)
    words, labels = _read_list(row, word_column), _read_list(row, label_column)
    if len(words) != len(labels):
        raise ValueError(
            f"{location}: {len(words)} words but {len(labels)} labels: give each word one"
        )

    title, label_title = layout.titles[word_column], layout.titles[label_column]
    texts = tuple(text_of(word, title, location) for word in words)
    names = tuple(label_of(label, label_title, location, layout.class_names) for label in labels)
    return Sentence(texts, names, (location,) * len(words))


def _read_list(row: TableRow, column: int) -> list:
    values = row.cells[column]
    if not isinstance(values, list) or not values:
        title = row.layout.titles[column]
        raise ValueError(f'{row.location}: "{title}" must be a list of texts, got {values!r:.60}')
    return values


def _say_how_to_name() -> str:
    return f"name the columns: {name_setting('text_column')}, {name_setting('label_column')}"


def check_labels_repeat(
    records: LabelledRecords, layout: TableLayout, options: ColumnOptions
) -> None:
    """Refuse labels that are more than the words, or most of which occur once."""
    if not layout.names or options.names or options.known_labels or records.labels:
        return

    words, labels = [], []
    for sentence in records:
        words += sentence.words
        labels += sentence.labels
    different = len({*labels})
    repeat = 2 * different <= len(labels) and different <= len({*words})
    if different <= _FEW or repeat:
        return
    raise ValueError(
        f"{data_of(records[0].locations[0])}: the labels must repeat, got {different:,} "
        f"different ones of {len(words):,} words. If words and labels are swapped, or in other "
        f"columns, {_say_how_to_name()}"
    )


def read_conll(path: Path, options: ColumnOptions) -> Iterator[TableRow]:
    """Yield the sentences of a CoNLL file, without its header; an error has the line's number.

    CoNLL has one word per line, in the first column, with its label in the last (tabs, or else
    spaces, between), and a blank line between sentences; -DOCSTART- lines and comments, "# key =
    …", are ignored. Of `.conllu` FORM and UPOS are read, and every line with # and the numbers n-m
    and n.m ignored. The options name the columns, or number them.
    """
    lines = list(_read_lines(path))
    layout = find_layout(path, lines, options)
    words = list(_read_words(lines, layout))
    _refuse_texts(words)
    begins_with_names = bool(words) and _has_header(words[0], options)
    if begins_with_names:
        words = words[1:]

    word_column, label_column = layout.name()
    names = options.text or word_column, options.label or label_column
    table_layout = TableLayout(names, Columns((0,), 1), begins_with_names)
    for _, group in itertools.groupby(words, key=lambda word: word.sentence):
        _, texts, labels, locations = zip(*group, strict=True)
        sentence = Sentence(texts, labels, locations)
        yield TableRow(locations[0], table_layout, record=sentence)


def _refuse_texts(words: Sequence["_Word"]) -> None:
    """Raise a ValueError where most of what should be words are texts of several words."""
    texts = [word for word in words if " " in word.text]
    if 2 * len(texts) > len(words):
        raise ValueError(
            f"{texts[0].location}: the task tag expects a word and its label on each line, got a "
            f"text, {texts[0].text!r:.60}: take the task classify for a label per text, or give "
            '{"words": […], "labels": […]} on each line of a .jsonl file'
        )


def _has_header(first: "_Word", options: ColumnOptions) -> bool:
    """Return whether the first line is a header; the numbers of columns do not say."""
    line = first.location, (first.text, first.label)
    named = [name for name in options.names if not name.isdecimal()]
    text = named[0] if named else None
    options = dataclasses.replace(options, text=text, label=None)
    return begins_with_header(line, _LINE_FORMAT, options)


def _find_columns_of_lines(names: Sequence[str], location: str, options: ColumnOptions) -> Columns:
    """Return the columns of a line of a word and its label, if it is a header of these."""
    word, label = [name.lower() for name in names]
    if word not in _WORD_NAMES or label not in _LABEL_NAMES:
        raise ValueError(f"{location}: expected the columns words and labels, got {word}, {label}")
    return Columns((0,), 1)


def _number_columns_of_lines(lines: Sequence) -> Columns:
    """Return the columns of lines of a word and its label."""
    return Columns((0,), 1)


def is_tag(cell: str, known_labels: Collection[str]) -> bool:
    """Return whether a cell is a tag of entities, or a known label."""
    return cell in known_labels or _ENTITY.fullmatch(cell) is not None


class _Word(NamedTuple):
    sentence: int
    text: str
    label: str
    location: str


def _read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of words of a CoNLL file; `sentence` is other after each blank line."""
    sentence = 0
    for number, line in read_numbered_lines(path):
        if line.startswith("-DOCSTART-") or _COMMENT.fullmatch(line):
            continue
        if line.strip():
            cells = line.split("\t") if "\t" in line else line.split()
            yield Line(sentence, cells, f"{path}, line {number}")
        else:
            sentence += 1


def _read_words(lines: Iterable[Line], layout: Layout) -> Iterator[_Word]:
    """Yield the words of a file's lines."""
    names: list[str] = []
    for sentence, cells, location in lines:
        if layout.universal and not cells[0].isdecimal():  # 3-4: two words as one; 8.1: left out
            continue
        names = names or cells
        if layout.universal and len(cells) != CONLLU_COLUMNS:
            raise ValueError(f"{location}: expected {CONLLU_COLUMNS} columns, got {len(cells)}")

        columns = [column for column in (layout.word, layout.label) if column < len(cells)]
        pair = [cells[column].strip() for column in columns]
        is_complete = len(cells) >= 2 and len(pair) == 2 and all(pair)
        if not is_complete:
            text = " ".join(cells)[:60]
            raise ValueError(f"{location}: expected a word and, last, its label, got {text!r}")

        word, label = pair
        yield _Word(sentence, word, label, location)
        check_width(cells, names, location)  # the last one may be no label


SENTENCES = TableFormat(
    record=Sentence,
    expected="expected sentences of labelled words",
    expected_row="expected (words, labels) or a dict with the keys words and labels",
    find_columns=find_columns,
    number_columns=_number_columns_of_lines,
    name_cells=name_cells,
    make_record=make_sentence,
    names=frozenset({*_WORD_NAMES, *_LABEL_NAMES}),
    is_label=is_tag,
    finish=check_labels_repeat,
    divide_text=read_conll,
    say_how_to_name=_say_how_to_name,
)
_LINE_FORMAT = dataclasses.replace(SENTENCES, find_columns=_find_columns_of_lines)
