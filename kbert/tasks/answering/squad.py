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
        answers: (text, offset in the context); none: the context does not say.
        location: file and id, for errors.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...]
    location: str = "a record"


class Window(NamedTuple):
    """An example's source: its token `first + i` is the context's characters `offsets[i]`."""

    record: int
    first: int
    offsets: list[tuple[int, int]]


def read_squad(path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Read the questions of a SQuAD 1.1 or 2.0 file; without columns, `options` must name none.

    Raises:
        OSError: the file cannot be read.
        ValueError: not JSON, not SQuAD's shape, an answer that is not at its offset, a question
            without an answer that is not impossible, no question; with the line or the id.
    """
    if options.names or options.no_header:
        raise ValueError(
            f"{path}: a SQuAD file has no columns and no header: leave out text_column, "
            "text_pair_column, label_column and no_header"
        )
    articles = js.read(Path(path), what=_FORMAT, largest=LARGEST_FILE)
    questions = _read_articles(_get_list(articles, "data", str(path)), str(path))
    if not questions:
        raise ValueError(f"{path}: expected questions, got none")
    return questions


def take_questions(data, name: str, options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Return the questions of rows in memory.

    A row is a `Question`; a dict as `datasets` has SQuAD, {"question", "context", "answers":
    {"text": […], "answer_start": […]}}, with no answer where the context does not say, "id" may be
    missing; or one of SQuAD's articles. The dict of a whole SQuAD file is taken too.

    Args:
        data: what `kbert.data.labelled.in_memory.iterate_records` takes.
        name: the argument's name, for errors.
        options: the columns of the question (text), the context (text_pair) and the answers
            (label), if they have other names.

    Raises:
        ValueError: a row that is none of these, with its location.
    """
    renamed = {options.text: "question", options.text_pair: "context", options.label: "answers"}
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        return _read_articles(data["data"], name)
    questions = []
    for location, row in in_memory.iterate_records(data, name):
        if isinstance(row, Question):
            questions.append(row)
        elif isinstance(row, dict) and "paragraphs" in row:
            questions += _read_articles([row], name)
        elif isinstance(row, dict):
            row = {renamed.get(key, key): value for key, value in row.items()}
            context = _get_field(row, "context", str, location)
            questions.append(_read_question(_convert_row(row, location), context, location))
        else:
            raise ValueError(
                f"{location}: expected a dict with the keys question, context and answers, got "
                f"{row!r:.60}"
            )
    return questions


def _convert_row(row: dict, location: str) -> dict:
    """Convert a row of `datasets` to a question of SQuAD's files."""
    answers = row.get("answers")
    if isinstance(answers, dict):
        texts, starts = (
            column if isinstance(column, list) else [column]
            for column in (answers.get("text"), answers.get("answer_start"))
        )
        if len(texts) != len(starts):
            raise ValueError(
                f"{location}: {len(texts)} answers but {len(starts)} answer_start: "
                "give each text its start"
            )
        pairs = zip(texts, starts, strict=True)
        answers = [{"text": text, "answer_start": start} for text, start in pairs]
    return {"id": location, "is_impossible": not answers} | row | {"answers": answers}


def _read_articles(articles: list, where: str) -> list[Question]:
    questions = []
    for article in articles:
        for number, paragraph in enumerate(_get_list(article, "paragraphs", where), 1):
            location = f"{where}, {str(article.get('title', 'article'))[:40]}, paragraph {number}"
            context = _get_field(paragraph, "context", str, location)
            for entry in _get_list(paragraph, "qas", location):
                name = _get_field(entry, "id", (str, int), location)
                questions.append(_read_question(entry, context, f"{where}, question {name}"))
    return questions


def _read_question(entry, context: str, location: str) -> Question:
    name = str(_get_field(entry, "id", (str, int), location))
    question = _get_field(entry, "question", str, location)
    answers = []
    for answer in _get_list(entry, "answers", location):
        text = _get_field(answer, "text", str, location)
        start = _get_field(answer, "answer_start", int, location)
        passage = context[max(start, 0) : max(start, 0) + len(text)]
        if not text or start < 0 or passage != text:
            raise ValueError(
                f"{location}: expected the answer {text[:40]!r} at character {start} of the "
                f"context, got {passage[:40]!r}"
            )
        answers.append((text, start))
    impossible = entry.get("is_impossible", False)
    if impossible and answers:
        raise ValueError(
            f"{location}: expected no answers, as is_impossible is true, got {len(answers)}"
        )
    if not answers and not impossible:
        raise ValueError(f"{location}: expected an answer, got none: add one or is_impossible")
    return Question(name, question, context, tuple(answers), location)


def _get_field(entry, name: str, kind, location: str):
    """Return a dict's text or number; a ValueError if it has none."""
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        names = {list: "a list, as in SQuAD", int: "a whole number"}
        problem = "but there is none" if value is None else f"got {value!r:.60}"
        raise ValueError(f'{location}: "{name}" must be {names.get(kind, "a text")}, {problem}')
    return value


def _get_list(entry, name: str, location: str) -> list:
    return _get_field(entry, name, list, location)


def encode_squad(
    records: Sequence[Question], tokenizer, max_length: int, *, stride: int = STRIDE
) -> Examples:
    """Encode [CLS] question [SEP] window [SEP] for each window of each context.

    The notes are `Window`s. The labels are the tokens where the first answer begins and ends: both
    0, [CLS]'s, in a window without the whole answer and if there is no answer; IGNORED if the
    tokenizer drops the whole answer. Questions of more than LONGEST_QUESTION tokens are truncated.
    A warning counts either.

    Raises:
        ValueError: a context without a token; a `max_length` that leaves no space for it.
    """
    plain = {"add_special_tokens": False}
    questions = tokenizer.encode_batch([record.question for record in records], **plain).encodings
    texts = list(dict.fromkeys(record.context for record in records))
    contexts = tokenizer.encode_batch(texts, **plain).encodings
    contexts = dict(zip(texts, contexts, strict=True))
    ids, segments, starts, ends, notes = [], [], [], [], []
    dropped = 0
    for number, (record, question) in enumerate(zip(records, questions, strict=True)):
        first = [tokenizer.cls_id, *question.ids[:LONGEST_QUESTION], *tokenizer.between_ids]
        context = contexts[record.context]
        span = _find_tokens(record.answers, context.offsets)
        no_token = bool(record.answers) and span is None
        dropped += no_token
        width = max_length - len(first) - 1
        if not len(context):
            raise ValueError(f"{record.location}: the context must have a token, got none")
        if width < 1:
            raise ValueError(
                f"{record.location}: the question must leave room for a token of the context, but "
                f"it is {1 - width} tokens too long: cut it, or take a greater max_length"
            )
        for start, end in windows(len(context), width, min(stride, width // 2)):
            begin = last = IGNORED if no_token else 0
            if span is not None and start <= span[0] and span[1] < end:
                begin, last = (len(first) + n - start for n in span)
            ids.append([*first, *context.ids[start:end], tokenizer.sep_id])
            second = [tokenizer.second_segment] * (end - start + 1)
            segments.append([0] * len(first) + second)
            starts.append(begin)
            ends.append(last)
            notes.append(Window(number, len(first), context.offsets[start:end]))
    if truncated := sum(len(question) > LONGEST_QUESTION for question in questions):
        _logger.warning(
            "%d of %d questions were cut to %d tokens", truncated, len(questions), LONGEST_QUESTION
        )
    if dropped:
        _logger.warning("%d of %d answers contain no token and are left out", dropped, len(records))
    return Examples(ids, segments, {SPAN_START: starts, SPAN_END: ends}, notes)


def _find_tokens(answers, offsets: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the first and the last token of a context with characters of the first answer."""
    if not answers:
        return None
    text, start = answers[0]
    inside = [n for n, (a, b) in enumerate(offsets) if a < start + len(text) and b > start]
    return (inside[0], inside[-1]) if inside else None


class Span(NamedTuple):
    """An answer: its text, its offsets in the context, and the sum of the two logits.

    Attributes:
        odds: the sum of the logits at [CLS] − `logit`: how much better no answer fits.
        example: index of the example with the span.
        tokens: its first and last token there.
        null_example: index of the example with the sum at [CLS].
    """

    text: str
    start: int
    end: int
    logit: float
    odds: float
    example: int
    tokens: tuple[int, int]
    null_example: int


def find_best_answers(
    records: Sequence[Question],
    notes: Iterable[Window],
    starts,
    ends,
    longest: int = LONGEST_ANSWER,
) -> list[Span]:
    """Return the span of each record with the largest sum of logits over all its windows.

    No answer has the smallest of the windows' sums at [CLS], as in Google's run_squad.py.

    Args:
        records: the questions.
        notes: windows of the examples.
        starts, ends: float (length,) logits of each example.
        longest: maximum number of tokens in a span.
    """
    best: dict[int, Span] = {}
    null: dict[int, tuple[float, int]] = {}
    for example, (window, start, end) in enumerate(zip(notes, starts, ends, strict=True)):
        tokens = slice(window.first, window.first + len(window.offsets))
        logit, first, last = find_best_span(start[tokens], end[tokens], longest)
        number, nothing = window.record, (float(start[0] + end[0]), example)
        null[number] = min(nothing, null.get(number, nothing))
        if number not in best or logit > best[number].logit:
            a, b = window.offsets[first][0], window.offsets[last][1]
            ends_at = window.first + first, window.first + last
            text = records[number].context[a:b]
            best[number] = Span(text, a, b, logit, 0.0, example, ends_at, 0)
    return [
        best[number]._replace(
            odds=null[number][0] - best[number].logit, null_example=null[number][1]
        )
        for number in range(len(records))
    ]


def find_best_span(start: np.ndarray, end: np.ndarray, longest: int) -> tuple[float, int, int]:
    """Return the largest sum of logits, float (C,) each, and the first and last token there.

    A span has at most `longest` tokens.
    """
    sums = start[:, None] + end[None, :]  # (C, C)
    ordered = np.triu(np.ones(sums.shape, bool))
    sums = np.where(ordered & ~np.triu(ordered, longest), sums, -np.inf)
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    return float(sums[first, last]), int(first), int(last)
