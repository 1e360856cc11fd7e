"""An answer as a span of a context, SQuAD 1.1 and 2.0: windows, best spans, metrics."""

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kbert.data.labelled.length_buckets import IGNORED, Examples
from kbert.data.padding import windows
from kbert.graph.names import SPAN_END, SPAN_START
from kbert.io.wording import data_of
from kbert.tasks import metrics
from kbert.tasks.answering.predictions import describe_answers
from kbert.tasks.answering.squad import Question, read_questions
from kbert.tasks.finetuning.task import Task
from kbert.tasks.intervals import Scores
from kbert.training.run.predictions import Baseline, Predictions

_logger = logging.getLogger("kbert")
LONGEST_ANSWER = 30  # tokens, as Google's run_squad.py
_LONGEST_QUESTION = 64  # tokens before a window, as Google's run_squad.py
STRIDE = 128  # tokens of a window that are in the one before, at most half of it


class ContextWindow(NamedTuple):
    """An example's source: its token `first + i` is the context's characters `offsets[i]`."""

    record: int
    first: int
    offsets: list[tuple[int, int]]


def encode_squad(
    records: Sequence[Question], tokenizer, max_length: int, stride: int = STRIDE
) -> Examples:
    """Encode [CLS] question [SEP] window [SEP] for each window of each context.

    The notes are `ContextWindow`s. The labels are the tokens where the first answer begins and
    ends: both 0, [CLS]'s, in a window without the whole answer and if there is no answer; IGNORED
    if the tokenizer drops the whole answer. Questions of more than _LONGEST_QUESTION tokens are
    truncated. A warning counts either.
    """
    plain = {"add_special_tokens": False}
    questions = tokenizer.encode_batch([record.question for record in records], **plain).encodings
    texts = list(dict.fromkeys(record.context for record in records))
    encodings = tokenizer.encode_batch(texts, **plain).encodings
    contexts = dict(zip(texts, encodings, strict=True))
    examples, dropped = [], 0
    for number, (record, question) in enumerate(zip(records, questions, strict=True)):
        first = [tokenizer.cls_id, *question.ids[:_LONGEST_QUESTION], *tokenizer.between_ids]
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
            ids = [*first, *context.ids[start:end], tokenizer.sep_id]
            segments = [0] * len(first) + [tokenizer.second_segment] * (end - start + 1)
            note = ContextWindow(number, len(first), context.offsets[start:end])
            examples.append((ids, segments, begin, last, note))
    if truncated := sum(len(question) > _LONGEST_QUESTION for question in questions):
        _logger.warning(
            "%s: %d of %d questions were cut to %d tokens",
            *(data_of(records[0].location), truncated, len(questions), _LONGEST_QUESTION),
        )
    if dropped:
        _logger.warning(
            "%s: %d of %d answers contain no token and are left out",
            *(data_of(records[0].location), dropped, len(records)),
        )
    all_ids, all_segments, starts, ends, notes = map(list, zip(*examples, strict=True))
    return Examples(all_ids, all_segments, {SPAN_START: starts, SPAN_END: ends}, notes)


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
    notes: Iterable[ContextWindow],
    starts,
    ends,
    longest: int = LONGEST_ANSWER,
) -> list[Span]:
    """Return the span of each record with the largest sum of logits over all its windows.

    No answer has the smallest of the windows' sums at [CLS], as in Google's run_squad.py. `starts`
    and `ends` are logits, float (length,), of each example; a span has at most `longest` tokens.
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


class Answering(Task):
    """See `kbert.tasks.finetuning.task.Task`."""

    name, head, score = "qa", "qa", "f1"
    title = "question answering"

    read = staticmethod(read_questions)

    def count_labels(self, records: Sequence[Question]) -> dict[str, int]:
        return {"without_an_answer": sum(not record.answers for record in records)}

    def encode(self, records, tokenizer, labels, *, max_length: int) -> Examples:
        return encode_squad(records, tokenizer, max_length)

    def scores(self, records, examples: Examples, outputs, labels) -> Scores:
        """exact_match and f1, SQuAD's; where a question has no answer, SQuAD 2.0's metrics too."""
        logits = outputs[SPAN_START], outputs[SPAN_END]
        spans = find_best_answers(records, examples.notes, *logits)
        answers = [[text for text, _ in record.answers] for record in records]
        odds = None if all(answers) else [span.odds for span in spans]
        compared = metrics.compare_answers(answers, [span.text for span in spans], odds)
        return Scores(compared, metrics.compute_squad)

    def pair_predictions(self, records, examples, outputs, labels) -> tuple[list, list]:
        """Return each question's right answers, and the predicted one; "": no answer.

        None is predicted where it fits better than the best span, if some questions have none.
        """
        logits = outputs[SPAN_START], outputs[SPAN_END]
        spans = find_best_answers(records, examples.notes, *logits)
        answers = [[text for text, _ in record.answers] for record in records]
        return answers, _choose_texts(records, spans)

    def find_baseline(self, train, dev: Sequence[Question]) -> Baseline | None:
        """Return that of no answer at all, if some questions have none."""
        without = sum(not record.answers for record in dev)
        if not without:
            return None
        return Baseline("f1", without / len(dev), "never an answer")

    def describe_predictions(self, records, examples, outputs, labels) -> Predictions:
        logits = outputs[SPAN_START], outputs[SPAN_END]
        spans = find_best_answers(records, examples.notes, *logits)
        return describe_answers(records, spans, _choose_texts(records, spans), *logits)


def _choose_texts(records: Sequence[Question], spans: Sequence[Span]) -> list[str]:
    """Return the predicted answers; "" where no answer fits better, if some questions have none."""
    always = all(record.answers for record in records)
    return [span.text if always or span.odds <= 0 else "" for span in spans]


TASK = Answering()
