"""Predictions of words' labels for the dev data, for a run's page."""

import itertools
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
    losses, probs = _measure_sentences(records, examples, logits, labels)
    expected = [record.labels for record in records]
    counts = count_confusions(
        _number_labels(expected, labels), _number_labels(predicted, labels), labels
    )
    scheme = find_scheme(labels)
    if scheme is not None:
        counts |= count_entity_types(scheme.read(expected), scheme.read(predicted))

    worst = [
        _make_example(records, number, predicted[number], probs, losses[number])
        for number in pick_worst(losses)
    ]
    note = "A wrong word has its label in the data → the predicted one, and its probability."
    if "matrix" in counts:
        note = f"The confusion matrix counts words. {note}"
    return Predictions(len(records), "sentences", examples=worst, note=note, **counts)


def _measure_sentences(
    records: Sequence[Sentence],
    examples: Examples,
    logits: Sequence[np.ndarray],
    labels: Sequence[str],
) -> tuple[np.ndarray, dict[tuple[int, int], float]]:
    """Return each sentence's loss, and wrong labels' probabilities by sentence and word."""
    numbers = {label: number for number, label in enumerate(labels)}
    losses = np.zeros(len(records))
    probs: dict[tuple[int, int], float] = {}
    for window, values in zip(examples.notes, logits, strict=True):
        sentence_labels = records[window.record].labels
        gold_numbers = [numbers[sentence_labels[word]] for word in window.words]
        gold = np.array(gold_numbers, int)
        log_probs = log_softmax(values[list(window.tokens)])
        gold_log_probs = log_probs[np.arange(len(gold)), gold]
        losses[window.record] -= gold_log_probs.sum()

        is_wrong = log_probs.argmax(-1) != gold
        for index in np.flatnonzero(is_wrong):
            word = window.record, window.words[index]
            largest = log_probs[index].max()
            probs[word] = float(np.exp(largest))
    return losses, probs


def _number_labels(sentences: Sequence[Sequence[str]], labels: Sequence[str]) -> np.ndarray:
    """Return the numbers of the labels of all words, int (words,)."""
    numbers = {label: number for number, label in enumerate(labels)}
    all_labels = itertools.chain.from_iterable(sentences)
    return np.array([numbers[label] for label in all_labels])


def _make_example(
    records: Sequence[Sentence],
    number: int,
    predicted: Sequence[str],
    probs: dict[tuple[int, int], float],
    loss: float,
) -> PredictedExample:
    """Return a sentence whose wrong words are marked; a long one begins at the first of them."""
    record = records[number]
    wrong = [word for word, label in enumerate(record.labels) if label != predicted[word]]
    first = max(0, min(wrong, default=0) - _AROUND)
    last = max(wrong, default=2 * _AROUND) + _AROUND + 1
    last = min(len(record.words), last, first + _LONGEST)

    pieces = []
    if first:
        pieces.append(TextPiece("… "))
    for word in range(first, last):
        prob = probs.get((number, word))
        mark = _mark_word(record.labels[word], predicted[word], prob)
        pieces += [TextPiece(record.words[word], mark), TextPiece(" ")]
    if last < len(record.words):
        pieces.append(TextPiece("…"))

    return PredictedExample(
        record.locations[0],
        (tuple(pieces),),
        (),
        (AnswerProb(f"{len(wrong)} of {len(record.words)} words wrong"),),
        float(loss),
        bool(wrong),
    )


def _mark_word(gold: str, predicted: str, prob: float | None) -> str:
    """Return what is written at a word: "" if its label is right."""
    if gold == predicted:
        return ""
    mark = f"{gold} → {predicted}"
    return mark if prob is None else f"{mark} {prob:.0%}"
