"""Multiple choice: SWAG's layout read, trained and evaluated; `choose` is in `inference`."""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from kbert.data.labelled.columns import LABELS, ColumnOptions
from kbert.data.labelled.in_memory import label_of, text_of
from kbert.data.labelled.length_buckets import Examples
from kbert.data.labelled.table_format import Columns, TableFormat, TableRow
from kbert.data.labelled.table_reading import read_table
from kbert.graph.names import CLASSIFIER
from kbert.io.wording import data_of
from kbert.tasks.common import metrics
from kbert.tasks.common.encoding import encode_in_portions
from kbert.tasks.common.intervals import Scores
from kbert.tasks.finetuning.dev_predictions import log_softmax, name_classes, pick_worst
from kbert.tasks.finetuning.task import Task
from kbert.training.run.predictions import Baseline, PredictedExample, Predictions, TextPiece

_PROMPTS, _STARTS = ("prompt", "sent1"), ("start", "sent2")
_LISTS = ("choices", "endings")
_CHOICE = re.compile(r"(?:choice|ending)_?(\d+)")
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


def join_start(start: str, choices: Iterable[str]) -> list[str]:
    """Return the second text of each choice."""
    return [f"{start} {choice}".strip() for choice in choices]


def find_columns(names: Sequence, location: str, options: ColumnOptions) -> Columns:
    """Return the columns of the prompt, the start if there is one, the choices and the label."""
    roles = options.rename(names, location)
    prompt = _find_first(roles, _PROMPTS if options.text is None else ["text"])
    start = _find_first(roles, _STARTS if options.text_pair is None else ["pair"])
    label = _find_first(roles, LABELS)
    choice_list = _find_first(roles, _LISTS)
    numbered = _number_choices(roles)
    choices = [column for _, column in numbered]
    if choice_list is not None:
        choices = [choice_list]

    if prompt is None or label is None or not choices:
        listed = ", ".join(str(name) for name in names)
        raise ValueError(f"{location}: {_EXPECTED}, got {listed[:80]}")
    numbers = [number for number, _ in numbered]
    if choice_list is None and numbers != list(range(len(numbers))):
        found = ", ".join(str(names[n]) for n in choices)
        raise ValueError(f"{location}: choices must be numbered 0, 1, …, each once, got {found}")

    texts = (prompt,) if start is None else (prompt, start)
    return Columns(texts, label, choices=tuple(choices))


def _find_first(roles: Sequence[str], known: Sequence[str]) -> int | None:
    """Return the column with the first of some names that there is."""
    for name in known:
        if name in roles:
            return roles.index(name)
    return None


def _number_choices(roles: Sequence[str]) -> list[tuple[int, int]]:
    """Return the number and the column of each choice with a column of its own, in order."""
    numbered = []
    for column, role in enumerate(roles):
        match = _CHOICE.fullmatch(role)
        if match:
            numbered.append((int(match[1]), column))
    return sorted(numbered)


def name_cells(row) -> None:
    """Return None: a question is a dict."""


def make_question(row: TableRow) -> Question:
    """Return the question of a row; its last choices may be empty."""
    columns = row.layout.columns
    titles = row.layout.titles
    location = row.location
    cells = _list_choices(row)

    column = cast(int, columns.label)
    label = label_of(row.cells[column], titles[column], location)
    _check_label(label, cells, location)

    prompt_column, *start_columns = columns.texts
    prompt = text_of(row.cells[prompt_column], titles[prompt_column], location)
    choices = []
    for number, cell in enumerate(cells):
        choices.append(text_of(cell, f"choice {number}", location))

    start = ""
    if start_columns:
        column = start_columns[0]
        cell = row.cells[column]
        if cell not in (None, ""):
            start = text_of(cell, titles[column], location)
    return Question(prompt, tuple(choices), int(label), start, location)


def _list_choices(row: TableRow) -> list:
    """Return the cells of the choices, without the empty ones at the end."""
    cells = [row.cells[column] for column in row.layout.columns.choices]
    if isinstance(cells[0], list):
        cells = cells[0]

    count = 0
    for number, cell in enumerate(cells, start=1):
        is_empty = cell is None or not str(cell).strip()
        if not is_empty:
            count = number
    return cells[:count]


def check_question(record: Question, first: Question, location: str) -> None:
    """Raise a ValueError for a question in memory that is none."""
    texts = (record.prompt, record.start, *record.choices)
    are_texts = all(isinstance(text, str) for text in texts)
    if not are_texts or isinstance(record.label, str):
        raise ValueError(
            f"{location}: a Question must have texts and the number of a choice, got {record!r:.80}"
        )
    _check_label(str(record.label), record.choices, location)


QUESTIONS = TableFormat(
    record=Question,
    expected=_EXPECTED,
    expected_row="expected a dict with the keys prompt, choices and label",
    find_columns=find_columns,
    number_columns=None,
    name_cells=name_cells,
    make_record=make_question,
    check_record=check_question,
)


class Choosing(Task):
    """Multiple choice: the columns are prompt, choice0, choice1, … and label, or SWAG's names.

    An object or a dict may have all choices as a list, "choices" or "endings". A table needs a
    header. The label is the index of the right choice, from 0. A question's last choices may be
    empty. The options name the columns of the prompt (text), the start (text_pair) and the label.
    """

    name, head, score = "choice", "choice", "accuracy"
    title, takes_teacher = "multiple choice", False
    read = staticmethod(functools.partial(read_table, QUESTIONS))

    def count_labels(self, records: Sequence[Question]) -> dict[str, Any]:
        """Count the questions by their number of choices, and by the number of the right one."""
        numbers = Counter(len(record.choices) for record in records)
        right = Counter(record.label for record in records)
        return {"choices": _sort_counts(numbers), "right_choice": _sort_counts(right)}

    def encode(self, records, tokenizer, labels, *, max_length: int) -> Examples:
        """Encode each choice as a pair of texts, the prompt and the choice."""
        prompts, texts = [], []
        for record in records:
            prompt, *second_texts = record.texts
            prompts += [prompt] * len(second_texts)
            texts += second_texts

        source = data_of(records[0].location)
        ids, segments = encode_in_portions(prompts, texts, tokenizer, max_length, source)
        numbers = [record.label for record in records]
        counts = [len(record.choices) for record in records]
        return Examples(ids, segments, {CLASSIFIER: numbers}, counts=counts)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """Return the accuracy of the choices with the highest numbers."""

        def compute(gold, predicted):
            return {"accuracy": metrics.accuracy(gold, predicted)}

        gold = np.array(examples.labels[CLASSIFIER])
        best = [int(logits.argmax()) for logits in outputs[CLASSIFIER]]
        predicted = np.array(best)
        return Scores((gold, predicted), compute)

    def find_baseline(self, train, dev: Sequence[Question]) -> Baseline:
        """Return that of chance."""
        chances = [1 / len(record.choices) for record in dev]
        chance = sum(chances) / len(dev)
        return Baseline("accuracy", chance, "a choice by chance")

    def describe_predictions(self, records, examples: Examples, outputs, labels) -> Predictions:
        log_probs = [log_softmax(logits) for logits in outputs[CLASSIFIER]]
        losses = np.zeros(len(records))
        for number, record in enumerate(records):
            losses[number] = -log_probs[number][record.label]

        worst = []
        for number in pick_worst(losses):
            record, probs = records[number], np.exp(log_probs[number])
            chosen = int(probs.argmax())
            example = PredictedExample(
                record.location,
                ((TextPiece(f"{record.prompt} {record.start}".strip()),),),
                name_classes(probs, record.label, record.choices),
                name_classes(probs, chosen, record.choices),
                float(losses[number]),
                chosen != record.label,
            )
            worst.append(example)
        return Predictions(len(records), "questions", examples=worst)


def _sort_counts(counts: Counter[int]) -> dict[str, int]:
    return {str(number): counts[number] for number in sorted(counts)}


def _check_label(label: str, choices: Sequence, location: str):
    if len(choices) < 2:
        raise ValueError(f"{location}: expected two choices or more, got {len(choices)}")
    is_number = re.fullmatch(r"[0-9]{1,9}", label)
    if not is_number or int(label) >= len(choices):
        raise ValueError(
            f"{location}: label must be the number of a choice, 0 … {len(choices) - 1}, got "
            f"{label!r}"
        )


TASK = Choosing()
