"""Predictions of words' labels for the dev data, for a run's page."""

from collections.abc import Sequence

import numpy as np

from kbert.data.labelled.length_buckets import Examples
from kbert.tasks.finetuning.dev_predictions import (
    count_confusions,
    count_entity_types,
    log_softmax,
    pick_worst,
)
from kbert.tasks.tagging.reading import Sentence
from kbert.tasks.tagging.schemes import find_scheme
from kbert.training.run.predictions import AnswerProb, PredictedExample, Predictions, TextPiece

_AROUND = 12  # words before the first wrong one and after the last, of a long sentence
_LONGEST = 90  # words


def describe_tags(
    records: Sequence[Sentence],
    examples: Examples,
    logits: Sequence[np.ndarray],
    predicted: Sequence[Sequence[str]],
    labels: Sequence[str],
) -> Predictions:
    """Describe the labels of all words; `logits` are those of each window's tokens."""
    numbers = {label: number for number, label in enumerate(labels)}
    losses = np.zeros(len(records))
    probs: dict[tuple[int, int], float] = {}  # of the wrong labels, by sentence and word
    for window, values in zip(examples.notes, logits, strict=True):
        gold = np.array(
            [numbers[records[window.record].labels[word]] for word in window.words], int
        )
        log_probs = log_softmax(values[list(window.tokens)])
        losses[window.record] -= log_probs[np.arange(len(gold)), gold].sum()
        for index in np.flatnonzero(log_probs.argmax(-1) != gold):
            word = window.record, window.words[index]
            probs[word] = float(np.exp(log_probs[index].max()))

    expected = [list(record.labels) for record in records]
    numbers_of_words = [
        np.array([numbers[label] for sentence in sentences for label in sentence])
        for sentences in (expected, predicted)
    ]
    counts = count_confusions(numbers_of_words[0], numbers_of_words[1], labels)
    if scheme := find_scheme(labels):
        counts |= count_entity_types(
            *(
                [[scheme.tags[label] for label in sentence] for sentence in sentences]
                for sentences in (expected, predicted)
            )
        )
    worst = [
        _make_example(records, number, predicted[number], probs, losses[number])
        for number in pick_worst(losses)
    ]
    note = "The confusion matrix counts words. " if "matrix" in counts else ""
    note += "A wrong word has its label in the data → the predicted one, and its probability."
    return Predictions(len(records), "sentences", examples=worst, note=note, **counts)


def _make_example(
    records: Sequence[Sentence],
    number: int,
    predicted: Sequence[str],
    probs: dict[tuple[int, int], float],
    loss: float,
) -> PredictedExample:
    """Return a sentence whose wrong words are marked; a long one begins at the first of them."""
    record = records[number]
    wrong = [n for n, label in enumerate(record.labels) if label != predicted[n]]
    first = max(0, min(wrong, default=0) - _AROUND)
    last = max(wrong, default=2 * _AROUND) + _AROUND + 1
    last = min(len(record.words), last, first + _LONGEST)

    pieces = [TextPiece("… ")] if first else []
    for word in range(first, last):
        gold, label, mark = record.labels[word], predicted[word], ""
        if gold != label:
            prob = probs.get((number, word))
            mark = f"{gold} → {label}" + (f" {prob:.0%}" if prob is not None else "")
        pieces += [TextPiece(record.words[word], mark), TextPiece(" ")]
    if last < len(record.words):
        pieces.append(TextPiece("…"))

    count = f"{len(wrong)} of {len(record.words)} words wrong"
    location = record.locations[0]
    return PredictedExample(
        location, (tuple(pieces),), (), (AnswerProb(count),), float(loss), bool(wrong)
    )
