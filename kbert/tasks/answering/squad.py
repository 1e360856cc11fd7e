"""Questions with a context and the answers in it: SQuAD's files, and rows in memory."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import NO_OPTIONS, ColumnOptions
from kbert.data.labelled.parquet_file import is_parquet, read_parquet
from kbert.io import bounds
from kbert.io import json_schema as js
from kbert.io.text_bytes import read_text

_FORMAT = 'JSON in SQuAD\'s format, {"data": [{"paragraphs": [{"context": …, "qas": […]}]}]}'
_LARGEST_FILE = 2**30  # bytes; SQuAD 2.0 has 42 million


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


def read_questions(data, name: str = "data", options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Return the questions of a file, SQuAD's JSON or Parquet, or of rows in memory."""
    if not isinstance(data, (str, os.PathLike)):
        return take_questions(data, name, options)
    if is_parquet(data):
        return take_questions(read_parquet(data), str(data), options)
    return read_squad(data, options)


def list_answers(records: Iterable[Question]) -> list[list[str]]:
    """Return the texts of each question's right answers."""
    answers = []
    for record in records:
        answers.append([text for text, _ in record.answers])
    return answers


def read_squad(path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Read the questions of a SQuAD 1.1 or 2.0 file; without columns, `options` must name none.

    A ValueError has the line or the question's id.
    """
    if options.names or options.no_header:
        raise ValueError(
            f"{path}: a SQuAD file has no columns and no header: leave out text_column, "
            "text_pair_column, label_column and no_header"
        )
    bounds.check_size(path, _LARGEST_FILE)
    name = str(path)
    data = js.parse(read_text(path), js.ANYTHING, name, _FORMAT)
    articles = _get_field(data, "data", list, name)
    questions = _read_articles(articles, name)
    if not questions:
        raise ValueError(f"{path}: expected questions, got none")
    return questions


def take_questions(data, name: str, options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Return the questions of rows in memory.

    A row is a `Question`; a dict as `datasets` has SQuAD, {"question", "context", "answers":
    {"text": […], "answer_start": […]}}, with no answer where the context does not say, "id" may be
    missing; or one of SQuAD's articles. The dict of a whole SQuAD file is taken too. The options
    name the columns of the question (text), the context (text_pair) and the answers (label).
    """
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        return _read_articles(data["data"], name)

    renamed = {options.text: "question", options.text_pair: "context", options.label: "answers"}
    questions = []
    for location, row in in_memory.iterate_records(data, name):
        if isinstance(row, Question):
            questions.append(row)
        elif isinstance(row, dict) and "paragraphs" in row:
            questions += _read_articles([row], name)
        elif isinstance(row, dict):
            row = {renamed.get(key, key): value for key, value in row.items()}
            context = _get_field(row, "context", str, location)
            converted = _convert_row(row, location)
            questions.append(_read_question(converted, context, location))
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
        answers = _convert_answers(answers, location)
    return {"id": location, "is_impossible": not answers} | row | {"answers": answers}


def _convert_answers(answers: dict, location: str) -> list[dict]:
    """Convert the answers of `datasets`, a dict of two lists, to a list of dicts."""
    texts = _make_list(answers.get("text"))
    starts = _make_list(answers.get("answer_start"))
    if len(texts) != len(starts):
        raise ValueError(
            f"{location}: {len(texts)} answers but {len(starts)} answer_start: "
            "give each text its start"
        )
    pairs = zip(texts, starts, strict=True)
    return [{"text": text, "answer_start": start} for text, start in pairs]


def _make_list(value) -> list:
    return value if isinstance(value, list) else [value]


def _read_articles(articles: list, where: str) -> list[Question]:
    questions = []
    for article in articles:
        for number, paragraph in enumerate(_get_field(article, "paragraphs", list, where), 1):
            title = str(article.get("title", "article"))[:40]
            location = f"{where}, {title}, paragraph {number}"
            context = _get_field(paragraph, "context", str, location)
            for entry in _get_field(paragraph, "qas", list, location):
                name = _get_field(entry, "id", (str, int), location)
                questions.append(_read_question(entry, context, f"{where}, question {name}"))
    return questions


def _read_question(entry, context: str, location: str) -> Question:
    name = str(_get_field(entry, "id", (str, int), location))
    question = _get_field(entry, "question", str, location)
    answers = [
        _read_answer(answer, context, location)
        for answer in _get_field(entry, "answers", list, location)
    ]

    is_impossible = entry.get("is_impossible", False)
    if is_impossible and answers:
        raise ValueError(
            f"{location}: expected no answers, as is_impossible is true, got {len(answers)}"
        )
    if not answers and not is_impossible:
        raise ValueError(f"{location}: expected an answer, got none: add one or is_impossible")
    return Question(name, question, context, tuple(answers), location)


def _read_answer(answer, context: str, location: str) -> tuple[str, int]:
    """Return an answer's text and its offset in the context, which must have it there."""
    text = _get_field(answer, "text", str, location)
    start = _get_field(answer, "answer_start", int, location)
    first = max(start, 0)
    passage = context[first : first + len(text)]
    if not text or start < 0 or passage != text:
        raise ValueError(
            f"{location}: expected the answer {text[:40]!r} at character {start} of the "
            f"context, got {passage[:40]!r}"
        )
    return text, start


def _get_field(entry, name: str, kind, location: str):
    """Return a dict's text or number; a ValueError if it has none."""
    value = entry.get(name) if isinstance(entry, dict) else None
    if isinstance(value, kind) and not isinstance(value, bool):
        return value

    kinds = {list: "a list, as in SQuAD", int: "a whole number"}
    expected = kinds.get(kind, "a text")
    problem = "but there is none" if value is None else f"got {value!r:.60}"
    raise ValueError(f'{location}: "{name}" must be {expected}, {problem}')
