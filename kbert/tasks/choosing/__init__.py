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
from kbert.tasks import metrics
from kbert.tasks.encoding import encode_in_portions
from kbert.tasks.finetuning.dev_predictions import log_softmax, name_classes, pick_worst
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores
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
    matches = [_CHOICE.fullmatch(role) for role in roles]
    numbers = sorted((int(found[1]), n) for n, found in enumerate(matches) if found)
    prompt, start, label, lists = (
        next((roles.index(name) for name in known if name in roles), None)
        for known in (
            _PROMPTS if options.text is None else ("text",),
            _STARTS if options.text_pair is None else ("pair",),
            LABELS,
            _LISTS,
        )
    )
    choices = tuple(n for _, n in numbers) if lists is None else (lists,)
    if prompt is None or label is None or not choices:
        listed = ", ".join(map(str, names))[:80]
        raise ValueError(f"{location}: {_EXPECTED}, got {listed}")
    if lists is None and [number for number, _ in numbers] != [*range(len(numbers))]:
        found = ", ".join(str(names[n]) for n in choices)
        raise ValueError(f"{location}: choices must be numbered 0, 1, …, each once, got {found}")
    texts = (prompt,) if start is None else (prompt, start)
    return Columns(texts, label, choices=choices)


def name_cells(row) -> None:
    """Return None: a question is a dict."""


def make_question(row: TableRow) -> Question:
    """Return the question of a row; its last choices may be empty."""
    columns, titles, location = row.layout.columns, row.layout.titles, row.location
    choices = [row.cells[column] for column in columns.choices]
    if isinstance(choices[0], list):
        choices = choices[0]
    while choices and (choices[-1] is None or not str(choices[-1]).strip()):  # fewer choices
        choices = choices[:-1]

    column = cast(int, columns.label)
    label = label_of(row.cells[column], titles[column], location)
    _check_label(label, choices, location)

    first, *second = columns.texts
    prompt = text_of(row.cells[first], titles[first], location)
    choices = [text_of(choice, f"choice {n}", location) for n, choice in enumerate(choices)]
    starts = [
        text_of(row.cells[n], titles[n], location) for n in second if row.cells[n] not in (None, "")
    ]
    return Question(prompt, tuple(choices), int(label), "".join(starts), location)


def check_question(record: Question, first: Question, location: str) -> None:
    """Raise a ValueError for a question in memory that is none."""
    texts = (record.prompt, record.start, *record.choices)
    if not all(isinstance(text, str) for text in texts) or isinstance(record.label, str):
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
        return {
            name: {str(number): counts[number] for number in sorted(counts)}
            for name, counts in (("choices", numbers), ("right_choice", right))
        }

    def encode(self, records, tokenizer, labels, *, max_length: int) -> Examples:
        """Encode each choice as a pair of texts, the prompt and the choice."""
        prompts = [record.prompt for record in records for _ in record.choices]
        texts = [text for record in records for text in record.texts[1:]]
        source = data_of(records[0].location)
        ids, segments = encode_in_portions(prompts, texts, tokenizer, max_length, source)
        numbers = [record.label for record in records]
        counts = [len(record.choices) for record in records]
        return Examples(ids, segments, {CLASSIFIER: numbers}, counts=counts)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """Return the accuracy of the choices with the highest numbers."""
        gold = np.array(examples.labels[CLASSIFIER])
        predicted = np.array([int(logits.argmax()) for logits in outputs[CLASSIFIER]])
        return Scores((gold, predicted), lambda *both: {"accuracy": metrics.accuracy(*both)})

    def find_baseline(self, train, dev: Sequence[Question]) -> Baseline:
        """Return that of chance."""
        chance = sum(1 / len(record.choices) for record in dev) / len(dev)
        return Baseline("accuracy", chance, "a choice by chance")

    def describe_predictions(self, records, examples: Examples, outputs, labels) -> Predictions:
        log_probs = [log_softmax(logits) for logits in outputs[CLASSIFIER]]
        losses = np.array(
            [-row[record.label] for record, row in zip(records, log_probs, strict=True)]
        )
        worst = []
        for number in pick_worst(losses):
            record, probs = records[number], np.exp(log_probs[number])
            numbers = record.label, int(probs.argmax())
            gold, answer = (name_classes(probs, choice, record.choices) for choice in numbers)
            prompt = ((TextPiece(f"{record.prompt} {record.start}".strip()),),)
            is_wrong = numbers[0] != numbers[1]
            loss = float(losses[number])
            worst.append(PredictedExample(record.location, prompt, gold, answer, loss, is_wrong))
        return Predictions(len(records), "questions", examples=worst)


def _check_label(label: str, choices: Sequence, location: str):
    if len(choices) < 2:
        raise ValueError(f"{location}: expected two choices or more, got {len(choices)}")
    if not (re.fullmatch(r"[0-9]{1,9}", label) and int(label) < len(choices)):
        raise ValueError(
            f"{location}: label must be the number of a choice, 0 … {len(choices) - 1}, got "
            f"{label!r}"
        )


TASK = Choosing()
