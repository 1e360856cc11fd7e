"""Sentences with a label for every word: CoNLL files, CoNLL-U, JSON lines, rows in memory."""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kbert.data.labelled.columns import ColumnOptions
from kbert.data.labelled.text_lines import Row, read_numbered_lines
from kbert.tasks.table_task import check_width
from kbert.tasks.tagging.layout import CONLLU_COLUMNS, Layout, Line, find_layout

WORDS = ("words", "tokens")  # what people call the two columns of rows
LABELS = ("labels", "tags", "ner_tags", "pos_tags", "upos", "label")
_COMMENT = re.compile(r"# (\S+ =( |$)|new(doc|par)\b)[^\t]*")  # of Universal Dependencies


class Sentence(NamedTuple):
    """A sentence: its words, and the label and the file and line of each word."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    locations: tuple[str, ...]


def find_column(
    columns: Sequence, names: Sequence[str], location: str, own_name: str | None
) -> int:
    """Return the column that the user named, else a known one; the first name has precedence."""
    names = names if own_name is None else [own_name]
    known = [name for name in names if name in columns]
    if not known or (len(known) > 1 and names[0] not in columns):
        raise ValueError(
            f'{location}: expected a list "{names[0]}", got {", ".join(map(str, columns))[:60]}'
            + (f": it may be one of {', '.join(known)}" if known else "")
        )
    return columns.index(known[0])


def read_conll(
    path: Path,
    options: ColumnOptions,
    find_header: Callable[[Sequence[Row], ColumnOptions], bool],
) -> tuple[list[Sentence], Layout]:
    """Return the sentences of a CoNLL file, without its header, and the columns that were read.

    An error has the line's number.
    """
    lines = list(_read_lines(path))
    layout = find_layout(path, lines, options)
    words = list(_read_words(lines, layout))
    texts = [word for word in words if " " in word.text]
    if 2 * len(texts) > len(words):
        raise ValueError(
            f"{texts[0].location}: the task tag expects a word and its label on each line, got a "
            f"text, {texts[0].text!r:.60}: take the task classify for a label per text, or give "
            '{"words": […], "labels": […]} on each line of a .jsonl file'
        )
    pairs = [(word.location, [word.text, word.label]) for word in words]
    named = [name for name in options.names if not name.isdecimal()]
    options = dataclasses.replace(options, text=named[0] if named else None, label=None)
    if words and find_header(pairs, options):
        words = words[1:]
    groups = itertools.groupby(words, key=lambda word: word.sentence)
    return [Sentence(*list(zip(*group, strict=True))[1:]) for _, group in groups], layout


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
        if len(cells) < 2 or len(pair) < 2 or not all(pair):
            text = " ".join(cells)[:60]
            raise ValueError(f"{location}: expected a word and, last, its label, got {text!r}")
        yield _Word(sentence, pair[0], pair[1], location)
        check_width(cells, names, location)  # the last one may be no label
