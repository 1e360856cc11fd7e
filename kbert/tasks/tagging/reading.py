"""Sentences with a label for every word: CoNLL files, CoNLL-U, JSON lines, rows in memory."""

import dataclasses
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kbert.data.labelled.columns import ColumnOptions, Columns
from kbert.data.labelled.data_warnings import warn_of_missing_labels
from kbert.data.labelled.header import is_header
from kbert.data.labelled.in_memory import LabelledRecords, label_of, text_of
from kbert.data.labelled.length_buckets import IGNORED, Examples
from kbert.data.labelled.text_lines import read_numbered_lines
from kbert.graph.names import TOKEN_CLASSIFIER
from kbert.io.wording import data_of
from kbert.tasks.record_reader import RecordReader, check_width
from kbert.tasks.tagging.windows import join_spans, split_windows

_logger = logging.getLogger("kbert")
_CONLLU_COLUMNS = 10  # ID FORM LEMMA UPOS …
_WORDS = ("words", "tokens")  # what people call the two columns of rows
_LABELS = ("labels", "tags", "ner_tags", "pos_tags", "upos", "label")
_NAMES = {*_WORDS, *_LABELS, "word", "token", "form", "tag", "ner", "ner_tag", "pos", "pos_tag"}
_MANY = 100  # words, among which a first label that never occurs again is a reason for doubt
_ENTITY = re.compile(r"O|[BIESLU]-.+")
_COMMENT = re.compile(r"# (\S+ =( |$)|new(doc|par)\b)[^\t]*")  # of Universal Dependencies


class Sentence(NamedTuple):
    """A sentence: its words, and the label and the file and line of each word."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    locations: tuple[str, ...]


class TaggedWords(NamedTuple):
    """An example's source: `words[i]` of a record has its label at token `tokens[i]`."""

    record: int
    words: tuple[int, ...]
    tokens: tuple[int, ...]


class TagReader(RecordReader):
    """Reads sentences: CoNLL, or rows of two lists, words (tokens) and labels (tags, ner_tags, …).

    CoNLL has one word per line, in the first column, with its label in the last (tabs, or else
    spaces, between), and a blank line between sentences; -DOCSTART- lines and comments, "# key =
    …", are ignored. Of `.conllu` FORM and UPOS are read, and every line with # and the numbers n-m
    and n.m ignored. The options name the columns, or number those of CoNLL. Tuples in memory are
    (words, labels).
    """

    record = Sentence
    expected = "expected sentences of labelled words"
    expected_row = "expected (words, labels) or a dict with the keys words and labels"

    def read_lines(self, path: Path, options: ColumnOptions) -> LabelledRecords:
        return LabelledRecords(_drop_header(list(_read_conll(path, options)), options))

    def find_columns(self, names: Sequence, location: str, options: ColumnOptions) -> Columns:
        words = _find_column(names, _WORDS, location, options.text)
        return Columns((words,), _find_column(names, _LABELS, location, options.label))

    def name_cells(self, row, location: str) -> tuple[Sequence, list]:
        if isinstance(row, list) and len(row) == 2:
            return ("words", "labels"), row
        return super().name_cells(row, location)

    def make_record(
        self, cells, names, columns: Columns, location: str, class_names=None
    ) -> Sentence:
        lists = []
        for n in (*columns.texts, columns.label):
            if not isinstance(cells[n], list) or not cells[n]:
                raise ValueError(
                    f'{location}: "{names[n]}" must be a list of texts, got {cells[n]!r:.60}'
                )
            lists.append((cells[n], names[n]))
        (words, word_column), (labels, label_column) = lists
        if len(words) != len(labels):
            raise ValueError(
                f"{location}: {len(words)} words but {len(labels)} labels: give each word one"
            )
        return Sentence(
            tuple(text_of(word, word_column, location) for word in words),
            tuple(label_of(label, label_column, location, class_names) for label in labels),
            (location,) * len(words),
        )


_READER = TagReader()
read_tagged, take_tagged = _READER.read, _READER.take


def _find_column(
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


def _read_conll(path: Path, options: ColumnOptions) -> Iterator[Sentence]:
    sentence: list[tuple[str, str, str]] = []
    universal = path.suffix == ".conllu"
    names: list[str] = []
    word, label = (1, 3) if universal else (0, -1)
    for number, line in read_numbered_lines(path):
        location = f"{path}, line {number}"
        if line.startswith("-DOCSTART-") or _COMMENT.fullmatch(line):
            continue
        if universal and line.startswith("#"):
            continue
        if line.strip():
            cells = line.split("\t") if "\t" in line else line.split()
            if universal and not cells[0].isdecimal():  # 3-4: two words as one; 8.1: left out
                continue
            if not names:
                names = cells
                if options.text is not None:
                    word = _index(options.text, cells, location)
                if options.label is not None:
                    label = _index(options.label, cells, location)
            sentence.append((*_select_cells(cells, word, label, universal, location), location))
            check_width(cells, names, location)  # the last one may be no label
        elif sentence:
            yield Sentence(*zip(*sentence, strict=True))
            sentence = []
    if sentence:
        yield Sentence(*zip(*sentence, strict=True))


def _index(name: str, cells: list[str], location: str) -> int:
    """Return the index of a column that was named, or numbered from 1 on."""
    names = {str(n): n - 1 for n in range(1, len(cells) + 1)}
    names |= {cell.strip().lower(): n for n, cell in enumerate(cells)}
    if name.strip().lower() not in names:
        raise ValueError(
            f"{location}: there is no column {name!r}, only {', '.join(cells)[:60]}: give one of "
            f"these, or a column's number, 1 … {len(cells)}"
        )
    return names[name.strip().lower()]


def _drop_header(sentences: list[Sentence], options: ColumnOptions) -> list[Sentence]:
    """Return the sentences of a CoNLL file without its header.

    Raises:
        ValueError: a text and its label on each line; a first line that may be a header or not.
    """
    tokens = [token for sentence in sentences for token in zip(*sentence, strict=True)]
    texts = [(location, text) for text, _, location in tokens if " " in text]
    if 2 * len(texts) > len(tokens):
        location, text = texts[0]
        raise ValueError(
            f"{location}: the task tag expects a word and its label on each line, got a text, "
            f"{text!r:.60}: take the task classify for a label per text, or give "
            '{"words": […], "labels": […]} on each line of a .jsonl file'
        )
    lines = [(location, [word, label]) for word, label, location in tokens]
    named = [name for name in options.names if not name.isdecimal()]
    options = dataclasses.replace(options, text=named[0] if named else None, label=None)
    if not lines or not is_header(lines, options, _merge_entities, names=_NAMES, few=_MANY):
        return sentences
    _logger.warning("%s: read as a header: %s", lines[0][0], ", ".join(lines[0][1]))
    first = Sentence(*(column[1:] for column in sentences[0]))
    return [first, *sentences[1:]] if first.words else sentences[1:]


def _merge_entities(label: str) -> tuple[str, ...]:
    """Return one label for all entities, to tell a header from a word."""
    return ("an entity's",) if _ENTITY.fullmatch(label) else (label,)


def _select_cells(
    cells: list[str], word: int, label: int, universal: bool, location: str
) -> tuple[str, str]:
    if universal and len(cells) != _CONLLU_COLUMNS:
        raise ValueError(f"{location}: expected {_CONLLU_COLUMNS} columns, got {len(cells)}")
    pair = [cells[column] for column in (word, label) if column < len(cells)]
    if len(cells) < 2 or len(pair) < 2 or not all(cell.strip() for cell in pair):
        text = " ".join(cells)[:60]
        raise ValueError(f"{location}: expected a word and, last, its label, got {text!r}")
    return pair[0].strip(), pair[1].strip()


def list_tags(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Return the labels of the training data, sorted, or as a `datasets.ClassLabel` has them.

    Raises:
        ValueError: fewer than two labels.
    """
    every = [label for sentence in sentences for label in sentence.labels]
    labels = sorted(set(every))
    if len(labels) < 2:
        location = sentences[0].locations[0]
        raise ValueError(
            f"{data_of(location)} must have two labels or more, got only {labels[0]!r}"
        )
    warn_of_missing_labels(every, "words")
    class_names = getattr(sentences, "labels", None) or ()
    return tuple(class_names) if set(labels) <= set(class_names) else tuple(labels)


def check_tags(sentences: Sequence[Sentence], labels: Sequence[str]) -> None:
    """Raise a ValueError, with file and line, for a label that is not among `labels`."""
    known = set(labels)
    for sentence in sentences:
        for label, location in zip(sentence.labels, sentence.locations, strict=True):
            if label not in known:
                first = ", ".join(labels[:12]) + (" …" if len(labels) > 12 else "")
                raise ValueError(f"{location}: label must be one of {first}, got {label!r}")


def encode_tagged(
    sentences: Sequence[Sentence], tokenizer, labels: Sequence[str], max_length: int
) -> Examples:
    """Encode sentences for a tagger: the label is at each word's first token, else IGNORED.

    A sentence that is too long becomes several windows that overlap by half; see `split_windows`.
    The notes are `TaggedWords`.

    Raises:
        ValueError: a label that is not among `labels`; a `max_length` below 3.
    """
    if max_length < 3:
        raise ValueError(f"max_length must be at least 3 ([CLS], a token, [SEP]), got {max_length}")
    check_tags(sentences, labels)
    numbers = {label: number for number, label in enumerate(labels)}
    texts = [" ".join(sentence.words) for sentence in sentences]
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False).encodings
    ids, targets, notes = [], [], []
    for record, (sentence, encoding) in enumerate(zip(sentences, encodings, strict=True)):
        for window in split_windows(tokenizer, encoding, join_spans(sentence.words), max_length):
            target = [IGNORED] * len(window.ids)
            for word, token in zip(window.words, window.tokens, strict=True):
                target[token] = numbers[sentence.labels[word]]
            ids.append(window.ids)
            targets.append(target)
            notes.append(TaggedWords(record, window.words, window.tokens))
    segments = [[0] * len(tokens) for tokens in ids]
    return Examples(ids, segments, {TOKEN_CLASSIFIER: targets}, notes)
