"""Predicted answers to the questions of the dev data, for a run's page."""

from collections.abc import Sequence

import numpy as np

from kbert.tasks.answering.squad import Question, list_answers
from kbert.tasks.common import metrics
from kbert.tasks.finetuning.dev_predictions import log_softmax, pick_worst
from kbert.training.run.predictions import AnswerProb, PredictedExample, Predictions, TextPiece

_AROUND = 120  # characters of the context around the right answer and the predicted one
NO_ANSWER = "no answer"


def describe_answers(
    records: Sequence[Question],
    spans: Sequence,
    predicted: Sequence[str],
    starts: Sequence[np.ndarray],
    ends: Sequence[np.ndarray],
) -> Predictions:
    """Describe answers; `spans` are the best ones, `predicted` their texts or "" for no answer."""
    answers = list_answers(records)
    f1 = np.zeros(len(records))
    probs = np.zeros(len(records))
    is_exact = []
    for number, (span, text) in enumerate(zip(spans, predicted, strict=True)):
        exact_match, f1[number] = metrics.answer_scores(answers[number], text)
        is_exact.append(bool(exact_match))
        probs[number] = _find_prob(span, starts, ends, bool(text))

    examples = []
    for number in pick_worst(1 - f1 + 1e-3 * probs):  # of equal F1, the most confident
        record = records[number]
        text = predicted[number]
        question = (TextPiece(record.question),)
        context = _cut_context(record, spans[number], text)
        gold = list(dict.fromkeys(answers[number])) or [NO_ANSWER]
        answer = AnswerProb(text or NO_ANSWER, float(probs[number]))
        example = PredictedExample(
            record.location,
            (question, context),
            tuple(AnswerProb(right) for right in gold[:3]),
            (answer,),
            float(1 - f1[number]),
            not is_exact[number],
        )
        examples.append(example)

    note = (
        "Of equal F1, the most confident answers come first. The predicted span is marked in the "
        "context; its probability is that of its start times that of its end."
    )
    return Predictions(len(records), "questions", examples=examples, error="1 − F1", note=note)


def _find_prob(span, starts, ends, has_answer: bool) -> float:
    """Return the probability of a span in its window, or of no answer in the window for it."""
    window = span.example if has_answer else span.null_example
    first, last = span.tokens if has_answer else (0, 0)
    start_log_probs = log_softmax(starts[window])
    end_log_probs = log_softmax(ends[window])
    log_prob = start_log_probs[first] + end_log_probs[last]
    return float(np.exp(log_prob))


def _cut_context(record: Question, span, predicted: str) -> tuple[TextPiece, ...]:
    """Return the context around the predicted span, or around the right one, in pieces."""
    context = record.context
    start = end = 0
    if predicted:
        start, end = span.start, span.end
    elif record.answers:
        start = end = record.answers[0][1]

    left = max(0, start - _AROUND)
    right = min(len(context), end + _AROUND)
    before = context[left:start]
    if left:
        before = "…" + before
    after = context[end:right]
    if right < len(context):
        after += "…"

    if start == end:
        return TextPiece(before), TextPiece(after)
    span = TextPiece(context[start:end], "predicted")
    return TextPiece(before), span, TextPiece(after)
