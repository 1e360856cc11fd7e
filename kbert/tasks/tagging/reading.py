"""Sentences with a label for every word: CoNLL files, CoNLL-U, JSON lines, rows in memory."""

import dataclasses
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kbert.data.labelled import in_memory as given
from kbert.data.labelled.columns import NO_OPTIONS, ColumnOptions
from kbert.data.labelled.data_warnings import warn_of_missing_labels
from kbert.data.labelled.header import is_header
from kbert.data.labelled.length_buckets import IGNORED, Examples
from kbert.data.labelled.text_lines import numbered_lines, numbered_objects
from kbert.graph.names import TOKEN_CLASSIFIER
from kbert.io.wording import data_of
from kbert.tasks.tagging.words import spans_of_words, windows_of

_logger = logging.getLogger("kbert")
_CONLLU_COLUMNS = 10  # ID FORM LEMMA UPOS …
_WORDS = ("words", "tokens")  # what people call the two columns of rows
_LABELS = ("labels", "tags", "ner_tags", "pos_tags", "upos", "label")
_NAMES = {*_WORDS, *_LABELS, "word", "token", "form", "tag", "ner", "ner_tag", "pos", "pos_tag"}
_MANY = 100  # words, among which a first label that never occurs again is a reason for doubt
_ENTITY = re.compile(r"O|[BIESLU]-.+")
_COMMENT = re.compile(r"# (\S+ =( |$)|new(doc|par)\b)[^\t]*")  # of Universal Dependencies


class Sentence(NamedTuple):
    """A sentence with its labels.

    Attributes:
        words: as the file cuts them.
        labels: one a word.
        places: file and line of each word, for errors.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...]
    places: tuple[str, ...]


class TaggedWords(NamedTuple):
    """An example's source: `words[i]` of a record has its label at token `tokens[i]`."""

    record: int
    words: tuple[int, ...]
    tokens: tuple[int, ...]


def read_tagged(path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS) -> list[Sentence]:
    """Return the sentences of a file, UTF-8.

    `.json`, `.jsonl`: an object a line, {"words": […], "labels": […]}, with the names of
    `given_tagged`. Else CoNLL: a word a line,
    the word in the first column and its label in the last (tabs, or else spaces, between), a blank
    line between sentences; -DOCSTART- lines and comments, "# key = …", left out. `.conllu`: FORM
    and UPOS are taken, every line with # and the numbers n-m and n.m left out.

    Args:
        path: the file.
        options: which columns to read, by name, or CoNLL's by number; whether CoNLL's first line
            is a header (`is_header`).

    Raises:
        OSError: it cannot be read.
        ValueError: not UTF-8, nothing in it, a line without a label or with other columns than
            the first; with the line's number.
    """
    path = Path(path)
    if path.suffix in (".json", ".jsonl"):
        sentences = list(_json_sentences(path, options))
    else:
        sentences = _checked_words(list(_conll_sentences(path, options)), options)
    if not sentences:
        raise ValueError(f"{path}: expected sentences of labelled words, got none")
    return sentences


def _conll_sentences(path: Path, options: ColumnOptions) -> Iterator[Sentence]:
    rows: list[tuple[str, str, str]] = []
    universal, columns = path.suffix == ".conllu", 0
    word, label = (1, 3) if universal else (0, -1)
    for number, line in numbered_lines(path):
        place = f"{path}, line {number}"
        if line.startswith("-DOCSTART-") or _COMMENT.fullmatch(line):
            continue
        if universal and line.startswith("#"):
            continue
        if line.strip():
            cells = line.split("\t") if "\t" in line else line.split()
            if universal and not cells[0].isdecimal():  # 3-4: two words as one; 8.1: left out
                continue
            if not columns:
                columns = len(cells)
                word, label = (
                    default if name is None else _index(name, cells, place)
                    for name, default in ((options.text, word), (options.label, label))
                )
            rows.append((*_word_and_label(cells, word, label, universal, place), place))
            if len(cells) != columns:  # its last one may be no label
                raise ValueError(f"{place}: expected {columns} columns as before, got {len(cells)}")
        elif rows:
            yield Sentence(*zip(*rows, strict=True))
            rows = []
    if rows:
        yield Sentence(*zip(*rows, strict=True))


def _index(name: str, cells: list[str], place: str) -> int:
    """Return the index of a column that was named, or numbered from 1 on."""
    names = {str(n): n - 1 for n in range(1, len(cells) + 1)}
    names |= {cell.strip().lower(): n for n, cell in enumerate(cells)}
    if name.strip().lower() not in names:
        raise ValueError(
            f"{place}: there is no column {name!r}, only {', '.join(cells)[:60]}: give one of "
            f"these, or a column's number, 1 … {len(cells)}"
        )
    return names[name.strip().lower()]


def _checked_words(sentences: list[Sentence], options: ColumnOptions) -> list[Sentence]:
    """Return the sentences of a CoNLL file without its header.

    Raises:
        ValueError: a text and its label on each line; a first line that may be a header or not.
    """
    words = [word for sentence in sentences for word in zip(*sentence, strict=True)]
    texts = [(place, text) for text, _, place in words if " " in text]
    if 2 * len(texts) > len(words):
        place, text = texts[0]
        raise ValueError(
            f"{place}: the task tag expects a word and its label on each line, got a text, "
            f"{text!r:.60}: take the task classify for a label per text, or give "
            '{"words": […], "labels": […]} on each line of a .jsonl file'
        )
    rows = [(place, [word, label]) for word, label, place in words]
    named = [name for name in options.named if not name.isdecimal()]
    options = dataclasses.replace(options, text=named[0] if named else None, label=None)
    if not rows or not is_header(rows, options, _labels_in, names=_NAMES, few=_MANY):
        return sentences
    _logger.warning("%s: read as a header: %s", words[0][2], ", ".join(words[0][:2]))
    first = Sentence(*(values[1:] for values in sentences[0]))
    return [first, *sentences[1:]] if first.words else sentences[1:]


def _labels_in(label: str) -> tuple[str, ...]:
    """Return the kinds of a label; all entities are one, to tell a header from a word."""
    return ("an entity's",) if _ENTITY.fullmatch(label) else (label,)


def _word_and_label(
    cells: list[str], word: int, label: int, universal: bool, place: str
) -> tuple[str, str]:
    if universal and len(cells) != _CONLLU_COLUMNS:
        raise ValueError(f"{place}: expected {_CONLLU_COLUMNS} columns, got {len(cells)}")
    pair = [cells[column] for column in (word, label) if column < len(cells)]
    if len(cells) < 2 or len(pair) < 2 or not all(cell.strip() for cell in pair):
        text = " ".join(cells)[:60]
        raise ValueError(f"{place}: expected a word and, last, its label, got {text!r}")
    return pair[0].strip(), pair[1].strip()


def _json_sentences(path: Path, options: ColumnOptions) -> Iterator[Sentence]:
    for number, row in numbered_objects(path):
        yield _sentence(row, f"{path}, line {number}", options)


def given_tagged(data, name: str, options: ColumnOptions = NO_OPTIONS) -> given.LabelledRecords:
    """Return the sentences of rows in memory.

    A row is a `Sentence`; (words, labels); or a dict with them as words or tokens, and labels,
    tags, ner_tags, pos_tags or upos. Labels are texts or whole numbers; a list of
    `datasets.ClassLabel` gives its names.

    Args:
        data: what `kbert.data.labelled.in_memory.rows_of` takes.
        name: of the argument, for errors.
        options: which columns to read.

    Raises:
        ValueError: a row that is none of these, with its place.
    """
    sentences = given.LabelledRecords()
    features = getattr(data, "features", None) or {}
    known = {key: given.class_names(data, key) for key in features}
    for place, row in given.rows_of(data, name):
        if isinstance(row, list) and len(row) == 2:
            row = {"words": row[0], "labels": row[1]}
        if not isinstance(row, (Sentence, dict)):
            raise ValueError(
                f"{place}: expected (words, labels) or a dict with the keys words and labels, got "
                f"{row!r:.60}"
            )
        if isinstance(row, dict):
            sentences.labels = known.get(_column(row, _LABELS, place, options.label))
            row = _sentence(row, place, options, known)
        sentences.append(row)
    return sentences


def _sentence(
    row: Mapping, place: str, options: ColumnOptions, known: Mapping | None = None
) -> Sentence:
    """Return a row as a sentence; `known` has the names of a column's labels, by its own."""
    words = _column(row, _WORDS, place, options.text)
    labels = _column(row, _LABELS, place, options.label)
    for name in (words, labels):
        if not isinstance(row[name], list) or not row[name]:
            raise ValueError(f'{place}: "{name}" must be a list of texts, got {row[name]!r:.60}')
    if len(row[words]) != len(row[labels]):
        raise ValueError(
            f"{place}: {len(row[words])} words but {len(row[labels])} labels: give each word one"
        )
    classes = (known or {}).get(labels)
    return Sentence(
        tuple(given.text_of(word, words, place) for word in row[words]),
        tuple(given.label_of(label, labels, place, classes) for label in row[labels]),
        (place,) * len(row[words]),
    )


def _column(row: Mapping, names: Sequence[str], place: str, named: str | None) -> str:
    """Return the column that was named, else the one of some names that a row has.

    It is the first of the names where a row has that and others.
    """
    names = names if named is None else [named]
    found = [name for name in names if name in row]
    if not found or (len(found) > 1 and names[0] not in row):
        raise ValueError(
            f'{place}: expected a list "{names[0]}", got {", ".join(map(str, row))[:60]}'
            + (f": it may be one of {', '.join(found)}" if found else "")
        )
    return found[0]


def tags_of(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Return the labels of the training data, sorted, or as a `datasets.ClassLabel` has them.

    Raises:
        ValueError: fewer than two labels.
    """
    found = sorted({label for sentence in sentences for label in sentence.labels})
    if len(found) < 2:
        place = sentences[0].places[0]
        raise ValueError(f"{data_of(place)} must have two labels or more, got only {found[0]!r}")
    labels = (label for sentence in sentences for label in sentence.labels)
    warn_of_missing_labels(labels, "words")
    told = getattr(sentences, "labels", None) or ()
    return tuple(told) if set(found) <= set(told) else tuple(found)


def check_tags(sentences: Sequence[Sentence], labels: Sequence[str]) -> None:
    """Raise a ValueError, with file and line, for a label that is not among `labels`."""
    known = set(labels)
    for sentence in sentences:
        for label, place in zip(sentence.labels, sentence.places, strict=True):
            if label not in known:
                first = ", ".join(labels[:12]) + (" …" if len(labels) > 12 else "")
                raise ValueError(f"{place}: label must be one of {first}, got {label!r}")


def encode_tagged(
    sentences: Sequence[Sentence], tokenizer, labels: Sequence[str], max_length: int
) -> Examples:
    """Encode sentences for a tagger: the label is at each word's first piece, else IGNORED.

    A sentence that is too long becomes several windows, half of each in the one before; a word's
    label counts in the one where the word stands farthest from the ends. The notes are
    `TaggedWords`.

    Raises:
        ValueError: a label that is not among `labels`; a `max_length` below 3.
    """
    if max_length < 3:
        raise ValueError(f"max_length must be at least 3 ([CLS], a token, [SEP]), got {max_length}")
    check_tags(sentences, labels)
    numbers = {label: number for number, label in enumerate(labels)}
    texts = [" ".join(sentence.words) for sentence in sentences]
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False).encodings
    ids, given, notes = [], [], []
    for record, (sentence, encoding) in enumerate(zip(sentences, encodings, strict=True)):
        for window in windows_of(encoding, spans_of_words(sentence.words), max_length - 2):
            row = [IGNORED] * (window.end - window.start + 2)
            for word, token in zip(window.words, window.tokens, strict=True):
                row[token] = numbers[sentence.labels[word]]
            part = encoding.ids[window.start : window.end]
            ids.append([tokenizer.cls_id, *part, tokenizer.sep_id])
            given.append(row)
            notes.append(TaggedWords(record, window.words, window.tokens))
    segments = [[0] * len(row) for row in ids]
    return Examples(ids, segments, {TOKEN_CLASSIFIER: given}, notes)
