"""Question answering: the answer to a question as a span of a context."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from kbert.checkpoints.bert import Bert
from kbert.graph import names
from kbert.graph.config import require_positive
from kbert.io.progress import progress_bar
from kbert.tasks.answering.squad import (
    LONGEST_ANSWER,
    STRIDE,
    Question,
    Span,
    best_answers,
    encode_squad,
)
from kbert.tasks.checks import (
    listed_pairs,
    longest,
    require_head,
    require_tokenizer,
    require_two_segments,
)
from kbert.tasks.running import BATCH_SIZE, function_of, outputs_of, run_rows, softmax


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


@overload
def answer(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert,
    question: str,
    context: str,
    *,
    no_answer_threshold: float | None = ...,
    stride: int = ...,
    max_answer_tokens: int = ...,
    batch_size: int = ...,
    precision: str | None = ...,
    progress: bool = ...,
) -> Answer: ...
@overload
def answer(
    bert: Bert,
    question: Iterable[str],
    context: Iterable[str],
    *,
    no_answer_threshold: float | None = ...,
    stride: int = ...,
    max_answer_tokens: int = ...,
    batch_size: int = ...,
    precision: str | None = ...,
    progress: bool = ...,
) -> list[Answer]: ...
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
    require_tokenizer(bert, "answer")
    questions, contexts, one = listed_pairs(question, context, "question", "context")
    require_positive("stride", stride)
    require_positive("max_answer_tokens", max_answer_tokens)
    _check_threshold(no_answer_threshold)
    require_head(bert, "answer", "qa", [names.SPAN])
    require_two_segments(bert, "answer")
    records = [
        Question("", *texts, (), "answer" if one else f"answer, question[{place}]")
        for place, texts in enumerate(zip(questions, contexts, strict=True))
    ]
    examples = encode_squad(records, bert.tokenizer, longest(bert), stride=stride)
    starts, ends = _logits(bert, examples, batch_size, precision, progress)
    spans = best_answers(records, examples.notes, starts, ends, max_answer_tokens)
    answers = [_answer(span, examples, starts, ends, no_answer_threshold) for span in spans]
    return answers[0] if one else answers


def _check_threshold(threshold) -> None:
    number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    if threshold is not None and (not number or math.isnan(threshold)):
        raise ValueError(f"no_answer_threshold must be a number or None, got {threshold!r}")


def _logits(
    bert: Bert, examples, batch_size: int, precision: str | None, progress: bool
) -> tuple[list, list]:
    """Return the start logits and the end logits of each window's tokens."""
    outputs = (names.SPAN_START, names.SPAN_END)
    function = function_of(bert, outputs, outputs_of(*outputs), precision)
    rows = list(zip(examples.ids, examples.segment_ids, strict=True))
    starts: list = [None] * len(rows)
    ends: list = [None] * len(rows)
    with progress_bar(len(rows), " texts", progress) as bar:
        for place, (start, end) in run_rows(bert, function, rows, batch_size):
            length = len(rows[place][0])
            starts[place], ends[place] = start[:length], end[:length]
            bar.update()
    return starts, ends


def _answer(span: Span, examples, starts, ends, threshold: float | None) -> Answer:
    none = threshold is not None and span.odds > threshold
    example = span.null_example if none else span.example
    window = examples.notes[example]
    tokens = list(range(window.first, window.first + len(window.offsets)))
    tokens = tokens if threshold is None else [0, *tokens]
    score = _share(starts[example], tokens, 0 if none else span.tokens[0])
    score *= _share(ends[example], tokens, 0 if none else span.tokens[1])
    if none:
        return Answer("", score, 0, 0, span.odds)
    return Answer(span.text, score, span.start, span.end, span.odds)


def _share(logits, tokens: Sequence[int], token: int) -> float:
    return float(softmax(logits[tokens])[tokens.index(token)])
