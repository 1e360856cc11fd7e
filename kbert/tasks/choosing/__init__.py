"""Multiple choice: SWAG's layout read, trained and evaluated; `choose` is in `inference`."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kbert.data.labelled import in_memory
from kbert.data.labelled.columns import LABELS, NO_OPTIONS, ColumnOptions
from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import CLASSIFIER
from kbert.tasks.encoding import encode_in_portions
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores
from kbert.tasks.tables import check_width, read_lines, read_objects, warn_of_ignored

_PROMPTS, _STARTS = ("prompt", "sent1"), ("start", "sent2")
_LISTS = ("choices", "endings")
_NUMBERED = re.compile(r"(?:choice|ending)_?(\d+)")
_EXPECTED = (
    "expected the columns prompt, choice0, choice1, … and label, or SWAG's sent1, sent2, ending0, "
    "ending1, … and label"
)


class Question(NamedTuple):
    """A prompt and its choices.

    Attributes:
        prompt: the first text.
        choices: the second texts, two or more.
        label: the index of the right choice, from 0.
        start: how each second text begins, before the choice; may be empty.
        location: file and line, for errors.
    """

    prompt: str
    choices: tuple[str, ...]
    label: int
    start: str = ""
    location: str = "a record"

    @property
    def texts(self) -> tuple[str, ...]:
        """The prompt, and the second text of each choice."""
        return self.prompt, *join_start(self.start, self.choices)


class _Layout(NamedTuple):
    """Indices of the columns; `choices` is one column of lists, or one per choice."""

    prompt: int
    start: int | None
    choices: tuple[int, ...]
    label: int

    def __contains__(self, column: object) -> bool:
        """Return whether a column is read."""
        return column in (self.prompt, self.start, *self.choices, self.label)


def join_start(start: str, choices: Iterable[str]) -> list[str]:
    """Return the second text of each choice."""
    return [f"{start} {choice}".strip() for choice in choices]


def read_choices(path: str | os.PathLike, options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Return the questions of a file, UTF-8.

    `.json`, `.jsonl`: one object per line, {"prompt": …, "choices": […], "label": …}, or SWAG's
    names. Else columns between commas (.csv) or tabs, with a header: prompt, choice0, choice1, …
    and label, or SWAG's sent1, sent2, ending0, ending1, … and label. Other columns are ignored.
    The label is the index of the right choice, from 0. A question's last choices may be empty.

    Raises:
        OSError: the file cannot be read.
        ValueError: not UTF-8, no question, no such columns, fewer than two choices, a label that
            is not the index of one; with the line's number.
    """
    path = Path(path)
    questions = _make_questions(read_objects(path) or _read_table(path, options), options)
    if not questions:
        raise ValueError(f"{path}: {_EXPECTED}, got nothing")
    return questions


def take_choices(data, name: str, options: ColumnOptions = NO_OPTIONS) -> list[Question]:
    """Return the questions of rows in memory: each a `Question`, or a dict as in `read_choices`.

    Args:
        data: what `kbert.data.labelled.in_memory.iterate_records` takes.
        name: the argument's name, for errors.
        options: the columns of the prompt (text), the start (text_pair) and the label.

    Raises:
        ValueError: a row that is neither, with its location.
    """
    return _make_questions(in_memory.iterate_records(data, name), options)


def _read_table(path: Path, options: ColumnOptions) -> Iterator[tuple[str, dict]]:
    """Yield (file and line, row) of a table; its first line is a header."""
    lines = read_lines(path, _EXPECTED)
    if not lines:
        return
    location, header = lines[0]
    if options.no_header:
        raise ValueError(f"{location}: {_EXPECTED}: leave no_header out")
    columns = _find_columns(header, location, options)
    warn_of_ignored(header, columns, location)
    for location, cells in lines[1:]:
        check_width(cells, header, location)
        yield location, {header[n]: cell for n, cell in enumerate(cells) if n in columns}


def _find_columns(header: Sequence[str], location: str, options: ColumnOptions) -> _Layout:
    names = [str(name).strip().lower() for name in header]
    listed = ", ".join(map(str, header))[:80]
    numbered = {int(m[1]): n for n, name in enumerate(names) if (m := _NUMBERED.fullmatch(name))}

    def find(known: Sequence[str], wanted: str | None) -> int | None:
        known = known if wanted is None else (wanted.strip().lower(),)
        column = next((names.index(name) for name in known if name in names), None)
        if wanted is not None and column is None:
            raise ValueError(f"{location}: there is no column {wanted!r}, only {listed}")
        return column

    prompt, label = find(_PROMPTS, options.text), find(LABELS, options.label)
    choices = [numbered[n] for n in sorted(numbered)]
    if (lists := find(_LISTS, None)) is not None:
        choices = [lists]
    if prompt is None or label is None or not choices:
        raise ValueError(f"{location}: {_EXPECTED}, got {listed}")
    return _Layout(prompt, find(_STARTS, options.text_pair), tuple(choices), label)


def _make_questions(
    examples: Iterable[tuple[str, object]], options: ColumnOptions
) -> list[Question]:
    questions: list[Question] = []
    layouts: dict[tuple, _Layout] = {}
    for location, row in examples:
        if isinstance(row, Question):
            _check_label(str(row.label), row.choices, location)
            questions.append(row)
            continue
        if not isinstance(row, dict):
            raise ValueError(
                f"{location}: expected a dict with the keys prompt, choices and label, got "
                f"{row!r:.60}"
            )
        names = tuple(row)
        if names not in layouts:
            layouts[names] = _find_columns(names, location, options)
            warn_of_ignored(names, layouts[names], location)
        questions.append(_make_question(list(row.values()), names, layouts[names], location))
    return questions


def _make_question(cells: list, names: Sequence, layout: _Layout, location: str) -> Question:
    choices = [cells[column] for column in layout.choices]
    if isinstance(choices[0], list):
        choices = choices[0]
    while choices and choices[-1] in (None, ""):  # a question with fewer than the others
        choices = choices[:-1]
    label = in_memory.label_of(cells[layout.label], str(names[layout.label]), location)
    _check_label(label, choices, location)
    prompt = in_memory.text_of(cells[layout.prompt], str(names[layout.prompt]), location)
    choices = [
        in_memory.text_of(choice, f"choice {n}", location) for n, choice in enumerate(choices)
    ]
    start = "" if layout.start is None else str(cells[layout.start] or "").strip()
    return Question(prompt, tuple(choices), int(label), start, location)


def _check_label(label: str, choices: Sequence, location: str):
    if len(choices) < 2:
        raise ValueError(f"{location}: expected two choices or more, got {len(choices)}")
    if not (label.isascii() and label.isdecimal() and int(label) < len(choices)):
        raise ValueError(
            f"{location}: label must be the number of a choice, 0 … {len(choices) - 1}, got "
            f"{label!r}"
        )


class Choosing(Task):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "choice", "choice", "accuracy"
    title, takes_teacher = "multiple choice", False

    read = staticmethod(read_choices)
    take = staticmethod(take_choices)

    def encode(self, records, tokenizer, labels, *, max_length: int) -> Examples:
        """Encode each choice as a pair of texts, the prompt and the choice."""
        prompts = [record.prompt for record in records for _ in record.choices]
        texts = [text for record in records for text in record.texts[1:]]
        ids, segments = encode_in_portions(prompts, texts, tokenizer, max_length)
        numbers = [record.label for record in records]
        counts = [len(record.choices) for record in records]
        return Examples(ids, segments, {CLASSIFIER: numbers}, counts=counts)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """Return the accuracy of the choices with the highest numbers."""
        from kbert.tasks import metrics

        gold = np.array(examples.labels[CLASSIFIER])
        predicted = np.array([int(logits.argmax()) for logits in outputs[CLASSIFIER]])
        return Scores((gold, predicted), lambda *both: {"accuracy": metrics.accuracy(*both)})


TASK = Choosing()
