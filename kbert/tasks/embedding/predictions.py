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
    scores = np.asarray(examples.scores)
    cosines = np.sum(unit[first] * unit[second], 1)
    score_ranks, cosine_ranks = _rank(scores), _rank(cosines)
    errors = np.abs(score_ranks - cosine_ranks)

    worst = []
    for number in pick_worst(errors):
        record = records[number]
        example = PredictedExample(
            record.location,
            tuple((TextPiece(text),) for text in record.texts),
            (_say_rank(scores[number], score_ranks[number]),),
            (_say_rank(cosines[number], cosine_ranks[number]),),
            float(errors[number]),
        )
        worst.append(example)

    return Predictions(
        len(scores),
        "pairs",
        points=pick_points(scores, cosines),
        axes=("score in the data", "cosine"),
        examples=worst,
        error="difference of ranks, 0 to 1",
        note="The model's answer is the cosine of a pair.",
    )


def _say_rank(value: float, rank: float) -> AnswerProb:
    return AnswerProb(f"{value:.3g} (above {rank:.0%} of the pairs)")


def _rank(values: np.ndarray) -> np.ndarray:
    """Return the share of the values that are smaller than each, equal ones counted half."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, "left")
    up_to = np.searchsorted(ordered, values, "right")
    smaller = (below + up_to - 1) / 2
    return smaller / max(1, len(values) - 1)


def _describe_nearest(
    records: Sequence, columns: np.ndarray, unit: np.ndarray
) -> Predictions | None:
    """Compare the cosine of each first text and its partner with that of the nearest other text."""
    texts = _number_texts(records, columns)
    some = columns[:_MOST_RECORDS]
    queries, partners = some[:, 0], some[:, 1]
    corpus = np.unique(some[:, 1:])
    cosines = _compare_with_others(columns, queries, corpus, unit)
    nearest = cosines.max(1)
    if not np.isfinite(nearest).any():  # there is no other text
        return None

    right = np.sum(unit[queries] * unit[partners], 1)
    margins = nearest - right
    worst = []
    for number in pick_worst(margins):
        record = records[number]
        nearest_text = texts[int(corpus[cosines[number].argmax()])]
        example = PredictedExample(
            record.location,
            ((TextPiece(record.texts[0]),),),
            (AnswerProb(f"{right[number]:.3f} {record.texts[1]}"),),
            (AnswerProb(f"{nearest[number]:.3f} {nearest_text}"),),
            float(margins[number]),
            bool(margins[number] >= 0),
        )
        worst.append(example)

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


def _number_texts(records: Sequence, columns: np.ndarray) -> dict[int, str]:
    """Return the text of each number in `columns`, int (records, texts)."""
    texts: dict[int, str] = {}
    for record, numbers in zip(records, columns.tolist(), strict=True):
        texts |= dict(zip(numbers, record.texts, strict=False))
    return texts


def _compare_with_others(
    columns: np.ndarray, queries: np.ndarray, corpus: np.ndarray, unit: np.ndarray
) -> np.ndarray:
    """Return the cosines (queries, corpus); −inf for a query itself and for its partners."""
    partners: dict[int, set[int]] = {}
    for query, partner in columns[:, :2].tolist():
        partners.setdefault(query, set()).add(partner)

    cosines = unit[queries] @ unit[corpus].T
    for row, query in enumerate(queries.tolist()):
        excluded = [query, *partners[query]]
        cosines[row, np.isin(corpus, excluded)] = -np.inf
    return cosines
