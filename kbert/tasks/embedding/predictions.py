"""Similarities of the dev data's texts, for a run's page: the scores, and the nearest texts."""

from collections.abc import Sequence

import numpy as np

from kbert.data.labelled.text_columns import TextColumns
from kbert.tasks.finetuning.dev_predictions import pick_points, pick_worst
from kbert.training.run.predictions import AnswerProb, PredictedExample, Predictions, TextPiece

_MOST_RECORDS = 1000  # whose nearest texts are looked for: a second evaluation would take long


def describe_similarities(
    kind: str, records: Sequence, examples: TextColumns, unit: np.ndarray
) -> Predictions | None:
    """Describe the embeddings, float (texts, H) of length 1, of records of a kind."""
    if kind == "scored pairs":
        return _describe_scores(records, examples, unit)
    if kind in ("pairs", "triplets"):
        return _describe_nearest(records, examples.columns, unit)
    return None


def _describe_scores(records: Sequence, examples: TextColumns, unit: np.ndarray) -> Predictions:
    """Compare the scores of pairs with the cosines, by their ranks: Spearman's correlation."""
    first, second = examples.columns.T
    scores, cosines = np.asarray(examples.scores), np.sum(unit[first] * unit[second], 1)
    ranks = [_rank(values) for values in (scores, cosines)]
    errors = np.abs(ranks[0] - ranks[1])
    worst = []
    for number in pick_worst(errors):
        record = records[number]
        gold, answer = (
            (AnswerProb(f"{values[number]:.3g} (above {rank[number]:.0%} of the pairs)"),)
            for values, rank in zip((scores, cosines), ranks, strict=True)
        )
        texts = tuple((TextPiece(text),) for text in record.texts)
        worst.append(PredictedExample(record.location, texts, gold, answer, float(errors[number])))
    return Predictions(
        len(scores),
        "pairs",
        points=pick_points(scores, cosines),
        axes=("score in the data", "cosine"),
        examples=worst,
        error="difference of ranks, 0 to 1",
        note="The model's answer is the cosine of a pair.",
    )


def _rank(values: np.ndarray) -> np.ndarray:
    """Return the share of the values that are smaller than each, equal ones counted half."""
    ordered = np.sort(values)
    below, up_to = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return (below + up_to - 1) / 2 / max(1, len(values) - 1)


def _describe_nearest(
    records: Sequence, columns: np.ndarray, unit: np.ndarray
) -> Predictions | None:
    """Compare the cosine of each first text and its partner with that of the nearest other text."""
    texts: dict[int, str] = {}  # one text for each number
    for record, numbers in zip(records, columns.tolist(), strict=True):
        texts |= dict(zip(numbers, record.texts, strict=False))
    partners: dict[int, set[int]] = {}
    for query, partner in columns[:, :2].tolist():
        partners.setdefault(query, set()).add(partner)

    some = columns[:_MOST_RECORDS]
    corpus = np.unique(some[:, 1:])
    cosines = unit[some[:, 0]] @ unit[corpus].T
    right = np.sum(unit[some[:, 0]] * unit[some[:, 1]], 1)
    for row, query in enumerate(some[:, 0].tolist()):
        cosines[row, np.isin(corpus, [query, *partners[query]])] = -np.inf
    nearest = cosines.max(1)
    if not np.isfinite(nearest).any():  # there is no other text
        return None

    margins = nearest - right
    worst = []
    for number in pick_worst(margins):
        record, other = records[number], int(corpus[cosines[number].argmax()])
        gold = (AnswerProb(f"{right[number]:.3f} {record.texts[1]}"),)
        predicted = (AnswerProb(f"{nearest[number]:.3f} {texts[other]}"),)
        error, is_wrong = float(margins[number]), bool(margins[number] >= 0)
        question = ((TextPiece(record.texts[0]),),)
        worst.append(PredictedExample(record.location, question, gold, predicted, error, is_wrong))
    note = "A number is a text's cosine with the first one; the model's answer is the nearest text."
    if len(columns) > _MOST_RECORDS:
        note += f" Of the first {_MOST_RECORDS:,} records."
    return Predictions(
        len(columns),
        "records",
        examples=worst,
        error="how much nearer the wrong text is",
        note=note,
    )
