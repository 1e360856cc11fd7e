"""A question's answer, as a span of a context."""

from dataclasses import dataclass
from typing import NamedTuple

from kbert import names
from kbert.bert import Bert
from kbert.config import require_positive
from kbert.patience import progress_bar
from kbert.tasks.checks import (
    listed_pairs,
    longest,
    require_head,
    require_tokenizer,
    require_two_segments,
)
from kbert.tasks.numbers import softmax
from kbert.tasks.running import BATCH_SIZE, function_of, outputs_of, run_rows
from kbert.tasks.spans import best_span
from kbert.tasks.windows import windows


@dataclass(frozen=True)
class Answer:
    """A span of a context.

    Attributes:
        text: context[start:end].
        score: P(start) · P(end), each over the context's tokens in the span's window.
        start, end: where it stands in the context, in characters.
    """

    text: str
    score: float
    start: int
    end: int


class _Window(NamedTuple):
    pair: int  # which question
    question: int  # its tokens
    offsets: list[tuple[int, int]]  # of the context's tokens in the window


def answer(
    bert: Bert,
    question,
    context,
    *,
    stride: int = 128,
    max_answer_tokens: int = 30,
    batch_size: int = BATCH_SIZE,
    progress: bool = True,
) -> Answer | list[Answer]:
    """The span of a context that answers a question best (the paper, section 4.2).

    Args:
        bert: from `kbert.load`, with the head "qa".
        question: a str, or a list of them.
        context: where the answer stands, the same.
        stride: a context that is too long is read in windows; so many tokens of each are shared
            with the one before (at most half a window). The span with the largest sum of the two
            logits wins, over all windows, as in Google's run_squad.py.
        max_answer_tokens: the longest span.
        batch_size, progress: as for `kbert.embed`.

    Returns:
        An `Answer` for two str; a list of them for lists.

    Raises:
        ValueError: a question that leaves no room for the context, a context without a token;
            a model with another head or without weights in it; what no text is.
    """
    require_tokenizer(bert, "answer")
    questions, contexts, one = listed_pairs(question, context, "question", "context")
    require_positive("stride", stride)
    require_positive("max_answer_tokens", max_answer_tokens)
    require_head(bert, "answer", "qa", [names.SPAN])
    require_two_segments(bert, "answer")
    rows, found = _rows(bert, questions, contexts, stride)
    function = function_of(
        bert, (names.SPAN_START, names.SPAN_END), outputs_of(names.SPAN_START, names.SPAN_END)
    )
    best: dict[int, tuple[float, Answer]] = {}
    with progress_bar(len(rows), " texts", progress) as bar:
        for place, (start, end) in run_rows(bert, function, rows, batch_size):
            window = found[place]
            first = window.question + 2  # after [CLS] question [SEP]
            tokens = slice(first, first + len(window.offsets))
            logit, begin, last = best_span(start[tokens], end[tokens], max_answer_tokens)
            if window.pair not in best or logit > best[window.pair][0]:
                score = float(softmax(start[tokens])[begin] * softmax(end[tokens])[last])
                at = window.offsets[begin][0], window.offsets[last][1]
                text = contexts[window.pair][slice(*at)]
                best[window.pair] = logit, Answer(text, score, *at)
            bar.update()
    answers = [best[pair][1] for pair in range(len(questions))]
    return answers[0] if one else answers


def _rows(bert: Bert, questions, contexts, stride: int):
    """[CLS] question [SEP] window [SEP], for every window of every context."""
    tokenizer, limit = bert.tokenizer, longest(bert)
    plain = {"add_special_tokens": False}
    asked = tokenizer.encode_batch(questions, **plain).encodings
    read = tokenizer.encode_batch(contexts, **plain).encodings
    rows, found = [], []
    for pair, (question, context) in enumerate(zip(asked, read, strict=True)):
        width = limit - len(question) - 3
        if width < 1:
            raise ValueError(
                f"question must leave room for the context in {limit} tokens, got one of "
                f"{len(question)}: {questions[pair][:60]!r}"
            )
        if not len(context):
            raise ValueError(f"context must have a token, got {contexts[pair][:60]!r}")
        for start, end in windows(len(context), width, min(stride, width // 2)):
            first = [tokenizer.cls_id, *question.ids, tokenizer.sep_id]
            second = [*context.ids[start:end], tokenizer.sep_id]
            rows.append((first + second, [0] * len(first) + [1] * len(second)))
            found.append(_Window(pair, len(question), context.offsets[start:end]))
    return rows, found
