"""An answer as a span of a context, SQuAD 1.1 and 2.0: windows, best spans, metrics."""

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kbert.data.labelled.length_buckets import IGNORED, Examples
from kbert.data.padding import windows
from kbert.data.tokenization.encodings import Encoding
from kbert.graph.names import SPAN_END, SPAN_START
from kbert.io.wording import data_of
from kbert.tasks.answering.predictions import describe_answers
from kbert.tasks.answering.squad import Question, list_answers, read_questions
from kbert.tasks.common import metrics
from kbert.tasks.common.intervals import Scores
from kbert.tasks.finetuning.task import Task
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
    questions = _encode_plainly(tokenizer, [record.question for record in records])
    contexts = _encode_contexts(tokenizer, records)
    ids = []
    segments = []
    labels = []
    notes = []
    dropped = 0
    for number, (record, question) in enumerate(zip(records, questions, strict=True)):
        before = _begin_with_question(tokenizer, question)
        context = contexts[record.context]
        width = max_length - len(before) - 1  # without the last [SEP]
        _check_room(record, len(context), width)

        span = _find_tokens(record.answers, context.offsets)
        is_dropped = bool(record.answers) and span is None
        dropped += is_dropped
        overlap = min(stride, width // 2)
        for start, end in windows(len(context), width, overlap):
            label = (IGNORED, IGNORED)
            if not is_dropped:
                label = _label_window(span, start, end, len(before))
            labels.append(label)

            after = [*context.ids[start:end], tokenizer.sep_id]
            ids.append(before + after)
            segments.append(_number_segments(tokenizer, before, after))
            offsets = context.offsets[start:end]
            notes.append(ContextWindow(number, len(before), offsets))

    _warn_of_losses(records, questions, dropped)
    starts = [first for first, _ in labels]
    ends = [last for _, last in labels]
    return Examples(ids, segments, {SPAN_START: starts, SPAN_END: ends}, notes)


def _begin_with_question(tokenizer, question: Encoding) -> list[int]:
    """Return the tokens before a context: [CLS] question [SEP]."""
    question_ids = question.ids[:_LONGEST_QUESTION]
    return [tokenizer.cls_id, *question_ids, *tokenizer.between_ids]


def _number_segments(tokenizer, before: list[int], after: list[int]) -> list[int]:
    """Return the segments of the question's tokens, and of those after it."""
    second = tokenizer.second_segment
    return [0] * len(before) + [second] * len(after)


def _encode_plainly(tokenizer, texts: Sequence[str]) -> Sequence[Encoding]:
    """Encode texts without [CLS] and [SEP]."""
    return tokenizer.encode_batch(texts, add_special_tokens=False).encodings


def _encode_contexts(tokenizer, records: Sequence[Question]) -> dict[str, Encoding]:
    """Encode each different context once."""
    texts = list(dict.fromkeys(record.context for record in records))
    return dict(zip(texts, _encode_plainly(tokenizer, texts), strict=True))


def _check_room(record: Question, num_tokens: int, width: int) -> None:
    """Raise a ValueError for a context without tokens, and for one whose windows have no width."""
    if not num_tokens:
        raise ValueError(f"{record.location}: the context must have a token, got none")
    if width < 1:
        raise ValueError(
            f"{record.location}: the question must leave room for a token of the context, but "
            f"it is {1 - width} tokens too long: cut it, or take a greater max_length"
        )


def _warn_of_losses(
    records: Sequence[Question], questions: Sequence[Encoding], dropped: int
) -> None:
    """Log how many questions are truncated, and how many answers the tokenizer drops."""
    source = data_of(records[0].location)
    truncated = sum(len(question) > _LONGEST_QUESTION for question in questions)
    if truncated:
        _logger.warning(
            "%s: %d of %d questions were cut to %d tokens",
            source,
            truncated,
            len(questions),
            _LONGEST_QUESTION,
        )
    if dropped:
        _logger.warning(
            "%s: %d of %d answers contain no token and are left out", source, dropped, len(records)
        )


def _find_tokens(answers, offsets: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the first and the last token of a context with characters of the first answer."""
    if not answers:
        return None

    text, answer_start = answers[0]
    answer_end = answer_start + len(text)
    inside = []
    for token, (start, end) in enumerate(offsets):
        if start < answer_end and end > answer_start:
            inside.append(token)
    return (inside[0], inside[-1]) if inside else None


def _label_window(
    span: tuple[int, int] | None, start: int, end: int, first: int
) -> tuple[int, int]:
    """Return where a window has a context's tokens `span`: [CLS], 0, where it lacks some.

    The window has the context's tokens start … end − 1, from its own token `first` on.
    """
    if span is not None and start <= span[0] and span[1] < end:
        return first + span[0] - start, first + span[1] - start
    return 0, 0


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
    null: dict[int, tuple[float, int]] = {}  # the smallest sum at [CLS], and its example
    windows_with_logits = zip(notes, starts, ends, strict=True)
    for example, (window, start, end) in enumerate(windows_with_logits):
        number = window.record
        no_answer = float(start[0] + end[0]), example
        null[number] = min(no_answer, null.get(number, no_answer))

        context = records[number].context
        span = _find_window_span(context, example, window, start, end, longest)
        if number not in best or span.logit > best[number].logit:
            best[number] = span

    spans = []
    for number in range(len(records)):
        span = best[number]
        null_logit, null_example = null[number]
        odds = null_logit - span.logit
        spans.append(span._replace(odds=odds, null_example=null_example))
    return spans


def _find_window_span(
    context: str, example: int, window: ContextWindow, start, end, longest: int
) -> Span:
    """Return the best span of an example, by the logits of its tokens; the odds are unknown."""
    tokens = slice(window.first, window.first + len(window.offsets))
    logit, first, last = find_best_span(start[tokens], end[tokens], longest)
    text_start, _ = window.offsets[first]
    _, text_end = window.offsets[last]
    return Span(
        context[text_start:text_end],
        text_start,
        text_end,
        logit,
        odds=0.0,
        example=example,
        tokens=(window.first + first, window.first + last),
        null_example=0,
    )


def find_best_span(start: np.ndarray, end: np.ndarray, longest: int) -> tuple[float, int, int]:
    """Return the largest sum of logits, float (C,) each, and the first and last token there.

    A span has at most `longest` tokens.
    """
    sums = start[:, None] + end[None, :]  # (C, C)
    is_ordered = np.triu(np.ones(sums.shape, bool))
    is_too_long = np.triu(is_ordered, longest)
    is_span = is_ordered & ~is_too_long
    sums = np.where(is_span, sums, -np.inf)

    best = int(sums.argmax())
    first, last = np.unravel_index(best, sums.shape)
    logit = float(sums[first, last])
    return logit, int(first), int(last)


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
        answers = list_answers(records)
        odds = None
        if not all(answers):
            odds = [span.odds for span in spans]
        predicted = [span.text for span in spans]
        compared = metrics.compare_answers(answers, predicted, odds)
        return Scores(compared, metrics.compute_squad)

    def pair_predictions(self, records, examples, outputs, labels) -> tuple[list, list]:
        """Return each question's right answers, and the predicted one; "": no answer.

        None is predicted where it fits better than the best span, if some questions have none.
        """
        logits = outputs[SPAN_START], outputs[SPAN_END]
        spans = find_best_answers(records, examples.notes, *logits)
        return list_answers(records), _choose_texts(records, spans)

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
    texts = []
    for span in spans:
        has_answer = always or span.odds <= 0
        texts.append(span.text if has_answer else "")
    return texts


TASK = Answering()
