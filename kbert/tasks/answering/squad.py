"""Questions with a context and the answers in it: SQuAD's files and rows, windows, best spans."""

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import NO_OPTIONS, ColumnOptions
from kbert.data.labelled.length_buckets import IGNORED, Examples
from kbert.data.padding import windows
from kbert.graph.names import SPAN_END, SPAN_START
from kbert.io import json_schema as js

_logger = logging.getLogger("kbert")
_FORMAT = 'JSON in SQuAD\'s format, {"data": [{"paragraphs": [{"context": …, "qas": […]}]}]}'
LARGEST_FILE = 2**30  # bytes; SQuAD 2.0 has 42 million
LONGEST_ANSWER = 30  # tokens, as Google's run_squad.py
LONGEST_QUESTION = 64  # tokens before a window, as Google's run_squad.py
STRIDE = 128  # tokens of a window that are in the one before, at most half of it


class Question(NamedTuple):
    """A question on a context.

    Attributes:
        id: the file's.
        question, context: texts.
        answers: (text, its first character in the context); none: the context does not say.
        place: file and id, for errors.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...]
    place: str = "a record"


class Window(NamedTuple):
    """An example's source: its token `first + i` is the context's characters `offsets[i]`."""

    record: int
    first: int
    offsets: list[tuple[int, int]]


def read_squad(path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Read the questions of a SQuAD 1.1 or 2.0 file; without columns, `options` must name none.

    Raises:
        OSError: it cannot be read.
        ValueError: not JSON, not SQuAD's shape, an answer that does not stand where it says, a
            question without an answer that is not impossible, none at all; with the line or the id.
    """
    path = Path(path)
    if options.named or options.no_header:
        raise ValueError(
            f"{path}: a SQuAD file has no columns and no header: leave out text_column, "
            "text_pair_column, label_column and no_header"
        )
    content = js.read(path, what=_FORMAT, largest=LARGEST_FILE)
    questions = _of_articles(_list(content, "data", str(path)), str(path))
    if not questions:
        raise ValueError(f"{path}: expected questions, got none")
    return questions


def given_questions(data, name: str, options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Return the questions of rows in memory.

    A row is a `Question`; a dict as `datasets` has SQuAD, {"question", "context", "answers":
    {"text": […], "answer_start": […]}}, with no answer where the context does not say, "id" may be
    missing; or one of SQuAD's articles. The dict of a whole SQuAD file is taken too.

    Args:
        data: what `kbert.data.labelled.in_memory.rows_of` takes.
        name: of the argument, for errors.
        options: the columns of the question (text), the context (text_pair) and the answers
            (label), where they have other names.

    Raises:
        ValueError: a row that is none of these, with its place.
    """
    others = {options.text: "question", options.text_pair: "context", options.label: "answers"}
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        return _of_articles(data["data"], name)
    questions = []
    for place, row in in_memory.rows_of(data, name):
        if isinstance(row, Question):
            questions.append(row)
        elif isinstance(row, dict) and "paragraphs" in row:
            questions += _of_articles([row], name)
        elif isinstance(row, dict):
            row = {others.get(key, key): value for key, value in row.items()}
            context = _field(row, "context", str, place)
            questions.append(_question(_as_entry(row, place), context, place))
        else:
            raise ValueError(
                f"{place}: expected a dict with the keys question, context and answers, got "
                f"{row!r:.60}"
            )
    return questions


def _as_entry(row: dict, place: str) -> dict:
    """Return a row as SQuAD's files have a question."""
    answers = row.get("answers")
    if isinstance(answers, dict):
        texts, starts = (
            found if isinstance(found, list) else [found]
            for found in (answers.get("text"), answers.get("answer_start"))
        )
        if len(texts) != len(starts):
            raise ValueError(
                f"{place}: {len(texts)} answers but {len(starts)} answer_start: "
                "give each text its start"
            )
        pairs = zip(texts, starts, strict=True)
        answers = [{"text": text, "answer_start": start} for text, start in pairs]
    rest = {"id": place, "is_impossible": not answers} | row
    return rest | {"answers": answers}


def _of_articles(articles: list, where: str) -> list[Question]:
    """Return the questions of SQuAD's articles; `where` is the file, for errors."""
    questions = []
    for article in articles:
        for number, paragraph in enumerate(_list(article, "paragraphs", where), 1):
            place = f"{where}, {str(article.get('title', 'article'))[:40]}, paragraph {number}"
            context = _field(paragraph, "context", str, place)
            for entry in _list(paragraph, "qas", place):
                name = _field(entry, "id", (str, int), place)
                questions.append(_question(entry, context, f"{where}, question {name}"))
    return questions


def _question(entry, context: str, place: str) -> Question:
    name = str(_field(entry, "id", (str, int), place))
    question = _field(entry, "question", str, place)
    answers = []
    for answer in _list(entry, "answers", place):
        text, start = _field(answer, "text", str, place), _field(answer, "answer_start", int, place)
        found = context[max(start, 0) : max(start, 0) + len(text)]
        if not text or start < 0 or found != text:
            raise ValueError(
                f"{place}: expected the answer {text[:40]!r} at character {start} of the context, "
                f"got {found[:40]!r}"
            )
        answers.append((text, start))
    impossible = entry.get("is_impossible", False)
    if impossible and answers:
        raise ValueError(
            f"{place}: expected no answers, as is_impossible is true, got {len(answers)}"
        )
    if not answers and not impossible:
        raise ValueError(f"{place}: expected an answer, got none: add one or is_impossible")
    return Question(name, question, context, tuple(answers), place)


def _field(entry, name: str, kind, place: str):
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = "a whole number" if kind is int else "a text"
        raise ValueError(f'{place}: "{name}" must be {expected}, {_got(value)}')
    return value


def _got(value) -> str:
    return "but there is none" if value is None else f"got {value!r:.60}"


def _list(entry, name: str, place: str) -> list:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, list):
        raise ValueError(f'{place}: "{name}" must be a list, as in SQuAD, {_got(value)}')
    return value


def encode_squad(
    records: Sequence[Question], tokenizer, max_length: int, *, stride: int = STRIDE
) -> Examples:
    """Return [CLS] question [SEP] window [SEP] for each window of each context.

    Notes are `Window`s.

    The labels are the tokens where the first answer begins and ends, by its characters; both are
    [CLS]'s, 0, in a window that does not hold all of it and where there is no answer; where the
    tokenizer drops the whole answer, they are IGNORED. Questions of more than LONGEST_QUESTION
    tokens are cut. A warning counts either.

    Raises:
        ValueError: a context without a token; a `max_length` that leaves it no room.
    """
    plain = {"add_special_tokens": False}
    asked = tokenizer.encode_batch([record.question for record in records], **plain).encodings
    contexts = list(dict.fromkeys(record.context for record in records))
    read = tokenizer.encode_batch(contexts, **plain).encodings
    read = dict(zip(contexts, read, strict=True))
    ids, segments, starts, ends, notes = [], [], [], [], []
    lost = 0
    for number, (record, question) in enumerate(zip(records, asked, strict=True)):
        first = [tokenizer.cls_id, *question.ids[:LONGEST_QUESTION], *tokenizer.between_ids]
        context = read[record.context]
        span = _span_of(record.answers, context.offsets)
        dropped = bool(record.answers) and span is None
        lost += dropped
        for start, end in _windows(record, len(context), max_length - len(first) - 1, stride):
            begin = last = IGNORED if dropped else 0
            if span is not None and start <= span[0] and span[1] < end:
                begin, last = (len(first) + n - start for n in span)
            ids.append([*first, *context.ids[start:end], tokenizer.sep_id])
            second = [tokenizer.second_segment] * (end - start + 1)
            segments.append([0] * len(first) + second)
            starts.append(begin)
            ends.append(last)
            notes.append(Window(number, len(first), context.offsets[start:end]))
    if cut := sum(len(question) > LONGEST_QUESTION for question in asked):
        _logger.warning(
            "%d of %d questions were cut to %d tokens", cut, len(asked), LONGEST_QUESTION
        )
    if lost:
        _logger.warning("%d of %d answers contain no token and are left out", lost, len(records))
    return Examples(ids, segments, {SPAN_START: starts, SPAN_END: ends}, notes)


def _windows(record: Question, tokens: int, width: int, stride: int) -> list[tuple[int, int]]:
    if not tokens:
        raise ValueError(f"{record.place}: the context must have a token, got none")
    if width < 1:
        raise ValueError(
            f"{record.place}: the question must leave room for a token of the context, but it is "
            f"{1 - width} tokens too long: cut it, or take a greater max_length"
        )
    return windows(tokens, width, min(stride, width // 2))


def _span_of(answers, offsets: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the first and the last of a context's tokens with characters of the first answer."""
    if not answers:
        return None
    text, start = answers[0]
    inside = [n for n, (a, b) in enumerate(offsets) if a < start + len(text) and b > start]
    return (inside[0], inside[-1]) if inside else None


class Span(NamedTuple):
    """An answer: its text, its position, and the sum of the two logits.

    Attributes:
        odds: of no answer against it: the sum of the logits at [CLS] less `logit`.
        example: which one the span is in.
        tokens: its first and last token there.
        null_example: the one whose sum at [CLS] it is.
    """

    text: str
    start: int
    end: int
    logit: float
    odds: float
    example: int
    tokens: tuple[int, int]
    null_example: int


def best_answers(
    records: Sequence[Question],
    notes: Iterable[Window],
    starts,
    ends,
    longest: int = LONGEST_ANSWER,
) -> list[Span]:
    """Return the span of each record with the largest sum of logits over all its windows.

    Args:
        records: the questions.
        notes: of the examples.
        starts, ends: float (length,) logits of each example. The least of the windows' sums at
            [CLS] is that of no answer, as in Google's run_squad.py.
        longest: tokens of a span at most.
    """
    best: dict[int, Span] = {}
    null: dict[int, tuple[float, int]] = {}
    for example, (window, start, end) in enumerate(zip(notes, starts, ends, strict=True)):
        tokens = slice(window.first, window.first + len(window.offsets))
        logit, first, last = best_span(start[tokens], end[tokens], longest)
        number, nothing = window.record, (float(start[0] + end[0]), example)
        null[number] = min(nothing, null.get(number, nothing))
        if number not in best or logit > best[number].logit:
            a, b = window.offsets[first][0], window.offsets[last][1]
            places = window.first + first, window.first + last
            text = records[number].context[a:b]
            best[number] = Span(text, a, b, logit, 0.0, example, places, 0)
    return [
        best[number]._replace(
            odds=null[number][0] - best[number].logit, null_example=null[number][1]
        )
        for number in range(len(records))
    ]


def best_span(start: np.ndarray, end: np.ndarray, longest: int) -> tuple[float, int, int]:
    """(sum of logits, first token, last token) of the span with the largest sum.

    Args:
        start, end: float (C,) logits of the tokens that a span may be made of.
        longest: tokens of a span at most.
    """
    sums = start[:, None] + end[None, :]  # (C, C)
    ordered = np.triu(np.ones(sums.shape, bool))
    sums = np.where(ordered & ~np.triu(ordered, longest), sums, -np.inf)
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    return float(sums[first, last]), int(first), int(last)
