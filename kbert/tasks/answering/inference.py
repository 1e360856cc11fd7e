"""Question answering: the answer to a question as a span of a context."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack, overload

from kbert.checkpoints.bert import Bert
from kbert.graph import names
from kbert.graph.config import require_positive
from kbert.io import printable
from kbert.tasks.answering.squad import Question
from kbert.tasks.answering.training import (
    LONGEST_ANSWER,
    STRIDE,
    ContextWindow,
    Span,
    encode_squad,
    find_best_answers,
)
from kbert.tasks.common.checks import longest, require_head
from kbert.tasks.common.running import (
    BATCH_SIZE,
    InferenceOptions,
    Window,
    get_output_function,
    list_texts,
    run_windows,
    softmax,
)


@dataclass(frozen=True)
class Answer:
    """The answer to a question: a span of the context, or no answer.

    Attributes:
        text: context[start:end]; "" for no answer.
        score: P(start) · P(end), each a softmax over the context's tokens in the span's window, and
            over [CLS] too if no answer is possible. For no answer: the same product at [CLS], in
            the window with the smallest logits there.
        start, end: the span's character offsets in the context; both 0 for no answer.
        odds: how much better no answer fits than the best span: the smallest sum over the windows
            of the two logits at [CLS], minus the span's sum.
    """

    text: str
    score: float
    start: int
    end: int
    odds: float


class AnswerOptions(InferenceOptions, total=False):
    """Keyword arguments of `answer`."""

    no_answer_threshold: float | None
    stride: int
    max_answer_tokens: int


@overload
def answer(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert, question: str, context: str, **options: Unpack[AnswerOptions]
) -> Answer: ...
@overload
def answer(
    bert: Bert, question: Iterable[str], context: Iterable[str], **options: Unpack[AnswerOptions]
) -> list[Answer]: ...
@printable.escape_errors()
def answer(
    bert: Bert,
    question: str | Iterable[str],
    context: str | Iterable[str],
    *,
    no_answer_threshold: float | None = None,
    stride: int = STRIDE,
    max_answer_tokens: int = LONGEST_ANSWER,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> Answer | list[Answer]:
    """Answer a question with the best span of a context (the paper, section 4.2).

    Questions are truncated, contexts split into windows and spans chosen as in training and
    `kbert.evaluate`.

    Args:
        bert: from `kbert.load`, with the head "qa".
        question: a str, or a list of them; truncated to 64 tokens, with a warning.
        context: the text with the answer, a str or a list of them.
        no_answer_threshold: the `Answer.odds` above which the answer is "no answer" (Google's
            null_score_diff_threshold). Use it for a model trained on questions without an answer,
            such as SQuAD 2.0's. At 0 both fit equally; `kbert.evaluate` reports the best value as
            best_f1_thresh. None: every question has its answer in the context.
        stride: number of tokens that a window shares with the previous one, at most half a window,
            if the context is too long for one. The span with the largest sum of the two logits
            wins, over all windows, as in Google's run_squad.py.
        max_answer_tokens: maximum number of tokens in a span.
        batch_size, precision, progress: as for `kbert.embed`.

    Returns:
        An `Answer` for two str; a list of them for lists.

    Raises:
        ValueError: a question that leaves no space for the context; a context without a token; a
            model with another head or a newly initialized one; something that is not text.
    """
    questions, contexts, is_single = list_texts(
        bert, "answer", question, context, "question", "context", optional=False
    )
    require_positive("stride", stride)
    require_positive("max_answer_tokens", max_answer_tokens)
    _check_threshold(no_answer_threshold)
    require_head(bert, "answer", "qa", [names.SPAN])
    records = _make_records(questions, contexts, is_single)

    def encode(part: slice) -> list[list[Window]]:
        return _encode_records(bert, records[part], stride)

    function = get_output_function(bert, [names.SPAN_START, names.SPAN_END], precision)
    answers: list = [None] * len(records)
    for index, windows, outputs in run_windows(
        bert, "answer", function, [questions, contexts], encode, batch_size, progress
    ):
        notes = [window.note._replace(record=0) for window in windows]
        starts, ends = zip(*outputs, strict=True)
        (span,) = find_best_answers([records[index]], notes, starts, ends, max_answer_tokens)
        answers[index] = _make_answer(span, notes, outputs, no_answer_threshold)
    return answers[0] if is_single else answers


def _encode_records(bert: Bert, records: list[Question], stride: int) -> list[list[Window]]:
    """Return the windows of each record."""
    examples = encode_squad(records, bert.tokenizer, longest(bert), stride=stride)
    windows: list[list[Window]] = [[] for _ in records]
    columns = zip(examples.ids, examples.segment_ids, examples.notes, strict=True)
    for ids, segment_ids, note in columns:
        window = Window(ids, segment_ids, note)
        windows[note.record].append(window)
    return windows


def _make_records(questions: list[str], contexts: list[str], is_single: bool) -> list[Question]:
    records = []
    for n, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        location = "answer" if is_single else f"answer, question[{n}]"
        records.append(Question("", question, context, (), location))
    return records


def _check_threshold(threshold) -> None:
    """Raise a ValueError for a no_answer_threshold that is neither a number nor None."""
    if threshold is None:
        return
    is_number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    if not is_number or math.isnan(threshold):
        raise ValueError(f"no_answer_threshold must be a number or None, got {threshold!r}")


def _make_answer(
    span: Span, notes: list[ContextWindow], outputs: list, threshold: float | None
) -> Answer:
    """Return the span, or no answer above the threshold, with its probability."""
    has_answer = threshold is None or span.odds <= threshold
    if has_answer:
        example = span.example
        first, last = span.tokens
    else:
        example = span.null_example
        first = last = 0  # [CLS]

    window = notes[example]
    end = window.first + len(window.offsets)
    tokens = list(range(window.first, end))
    if threshold is not None:
        tokens = [0, *tokens]  # [CLS] too

    start_logits, end_logits = outputs[example]
    start_probs = softmax(start_logits[tokens])
    end_probs = softmax(end_logits[tokens])
    start_prob = float(start_probs[tokens.index(first)])
    end_prob = float(end_probs[tokens.index(last)])
    score = start_prob * end_prob
    if not has_answer:
        return Answer("", score, 0, 0, span.odds)
    return Answer(span.text, score, span.start, span.end, span.odds)
