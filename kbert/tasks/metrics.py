"""How good predictions are: of classes, of entities as in seqeval, of answers as in SQuAD.

All metrics are shares, from 0 to 1 (Matthews's from −1); SQuAD itself prints them times 100.
"""

import itertools
import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

_ENTITY_LABEL = re.compile(r"O|[BIES]-.+", re.DOTALL)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(gold: np.ndarray, predicted: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Return the share of predictions that are right; both int (N,).

    `counts`, int (N,), here and below says how many texts each entry stands for; None: one each.
    """
    return float(np.average(np.equal(gold, predicted), weights=counts)) if len(gold) else 0.0


def f1(
    gold: np.ndarray, predicted: np.ndarray, positive: int = 1, counts: np.ndarray | None = None
) -> float:
    """F1 of one class, 2·TP / (2·TP + FP + FN); 0 where it is neither there nor predicted."""
    number = np.ones(len(gold), int) if counts is None else counts
    gold, predicted = np.equal(gold, positive), np.equal(predicted, positive)
    there = number[gold].sum() + number[predicted].sum()
    return float(2 * number[gold & predicted].sum() / there) if there else 0.0


def macro_f1(gold: np.ndarray, predicted: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Return the mean F1 of the classes that are there or predicted, as scikit-learn's."""
    right, of_gold, of_predicted = _count_classes(gold, predicted, counts)
    there = of_gold + of_predicted
    return float(np.mean(2 * right[there > 0] / there[there > 0])) if there.any() else 0.0


def matthews(gold: np.ndarray, predicted: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Return Matthews' correlation for any number of classes (Gorodkin 2004); 0: no variance."""
    right, of_gold, of_predicted = _count_classes(gold, predicted, counts)
    total = of_gold.sum()
    cross, own_gold, own_predicted = (
        float(total * same - a @ b)
        for same, a, b in (
            (right.sum(), of_gold, of_predicted),
            (total, of_gold, of_gold),
            (total, of_predicted, of_predicted),
        )
    )
    scale = np.sqrt(own_gold * own_predicted)
    return cross / float(scale) if scale > 0 else 0.0


def _count_classes(gold, predicted, counts: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Count the texts of each class: those right, those that are of it, those predicted as it."""
    both = np.concatenate([gold, predicted])
    classes, places = np.unique(both, return_inverse=True)
    gold, predicted = np.split(places, 2)
    number = np.ones(len(gold)) if counts is None else counts.astype(np.float64)
    rows = ((gold, number * (gold == predicted)), (gold, number), (predicted, number))
    return tuple(np.bincount(which, weights, len(classes)) for which, weights in rows)


def pearson(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the correlation of two rows of numbers, (N,); 0 where one is constant: undefined."""
    gold, predicted = (np.asarray(row, np.float64) for row in (gold, predicted))
    gold, predicted = gold - gold.mean(), predicted - predicted.mean()
    scale = np.sqrt((gold**2).sum() * (predicted**2).sum())
    return float((gold * predicted).sum() / scale) if scale > 0 else 0.0


def spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the correlation of the ranks of two rows of numbers.

    Equal ones have their mean rank.
    """
    return pearson(_ranks(gold), _ranks(predicted))


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def micro_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """F1 of all labels of all texts together; both bool (N, labels)."""
    return f1(gold.ravel(), predicted.ravel(), True)


def mean_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean F1 of the labels; a label that neither occurs nor is predicted has 0."""
    return float(np.mean([f1(*columns, True) for columns in zip(gold.T, predicted.T, strict=True)]))


def average_precision(gold: np.ndarray, scores: np.ndarray) -> float:
    """Return the precisions at each threshold, by what each adds to recall; 0 where none is there.

    Args:
        gold: bool (N,).
        scores: float (N,), higher is likelier; equal ones share a threshold, as scikit-learn's.
    """
    if not gold.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of each threshold
    found = np.cumsum(gold[order])[last]
    return float(np.sum(np.diff(found, prepend=0) / gold.sum() * found / (last + 1)))


def mean_average_precision(gold: np.ndarray, scores: np.ndarray) -> float:
    """Return the mean over the labels; bool and float (N, labels)."""
    columns = zip(gold.T, scores.T, strict=True)
    return float(np.mean([average_precision(*pair) for pair in columns]))


def are_entity_labels(labels: Sequence[str]) -> bool:
    """Return whether all are O or B-, I-, E-, S- and a type (IOB1, IOB2, IOBES), and not all O."""
    return all(map(_ENTITY_LABEL.fullmatch, labels)) and set(labels) != {"O"}


def entities(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """(type, first word, last word) of each entity of one sentence, as seqeval's default mode.

    That is conlleval's rule, lenient to the prefix: an I- or E- goes on with the entity before it
    where that is of its type and has not ended with E- or S-; else it begins one of its own.
    """
    found, begin = set(), 0
    tags = [("O", ""), *((label[0], label[2:]) for label in labels), ("O", "")]
    for place, (before, tag) in enumerate(itertools.pairwise(tags)):
        if _goes_on(before, tag):
            continue
        if before[0] != "O":
            found.add((before[1], begin, place - 1))
        begin = place
    return found


def _goes_on(before: tuple[str, str], tag: tuple[str, str]) -> bool:
    return before[0] in "BI" and tag[0] in "IE" and before[1] == tag[1]


def count_entities(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> np.ndarray:
    """Count the entities of each sentence: int (N, 3), those right, expected and found."""
    counts = []
    for sentence, answer in zip(gold, predicted, strict=True):
        if len(sentence) != len(answer):
            raise ValueError(f"expected {len(sentence)} labels for a sentence, got {len(answer)}")
        a, b = entities(sentence), entities(answer)
        counts.append((len(a & b), len(a), len(b)))
    return np.array(counts)


def entity_scores(counts: np.ndarray) -> dict[str, float]:
    """precision, recall and f1 of whole entities over all sentences, seqeval's micro average.

    Args:
        counts: from `count_entities`.
    """
    right, expected, found = counts.sum(0).tolist()
    return {
        "precision": right / found if found else 0.0,
        "recall": right / expected if expected else 0.0,
        "f1": _f1(right, expected, found),
    }


def normalized_answer(text: str) -> str:
    """Normalize as SQuAD does: lowercase, no ASCII punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def answer_scores(answers: Sequence[str], predicted: str) -> tuple[float, float]:
    """(exact match, F1 of words) of a predicted answer: the best over the answers that are right.

    As SQuAD 2.0's evaluation. "" stands for no answer, as do no answers at all.
    """
    known = [answer for answer in answers if normalized_answer(answer)] or [""]
    exact = max(normalized_answer(answer) == normalized_answer(predicted) for answer in known)
    return float(exact), max(_word_f1(answer, predicted) for answer in known)


def compare_answers(
    answers: Sequence[Sequence[str]], predicted: Sequence[str], odds: Sequence[float] | None = None
) -> tuple[np.ndarray, ...]:
    """Compare predicted answers with the right ones.

    Args:
        answers: that are right, of each question; none: it has no answer.
        predicted: an answer to each.
        odds: of no answer against each predicted one (Google's null_odds.json): above 0, none is
            given. None: SQuAD 1.1, the predicted ones are given.

    Returns:
        Arrays of one entry per question: exact match and F1, (N, 2). With `odds` also these,
        whether there is an answer, and whether the predicted one has a text.
    """
    scores = np.array([answer_scores(*pair) for pair in zip(answers, predicted, strict=True)])
    if odds is None:
        return (scores,)
    there, given = (np.array([bool(one) for one in column]) for column in (answers, predicted))
    return scores, np.asarray(odds), there, given


def answer_figures(
    raw: np.ndarray,
    null: np.ndarray | None = None,
    there: np.ndarray | None = None,
    given: np.ndarray | None = None,
) -> dict[str, float]:
    """SQuAD's metrics over all questions.

    Args:
        raw, null, there, given: from `compare_answers`.

    Returns:
        exact_match and f1. With odds also those of the questions that have an answer, HasAns_…,
        and of the others, NoAns_…, where there are any; and best_exact and best_f1, with the
        best_…_thresh above which none should be given to reach them, as SQuAD 2.0's evaluation
        finds it (0.0 where giving none at all is best).
    """
    if null is None or there is None or given is None:
        return dict(zip(("exact_match", "f1"), map(float, raw.mean(0)), strict=True))
    scores = np.where(null[:, None] > 0, ~there[:, None], raw)
    figures = dict(zip(("exact_match", "f1"), scores.mean(0), strict=True))
    for name, which in (("HasAns", there), ("NoAns", ~there)):
        if which.any():
            names = (f"{name}_exact", f"{name}_f1")
            figures |= dict(zip(names, scores[which].mean(0), strict=True))
    for name, column in (("best_exact", raw[:, 0]), ("best_f1", raw[:, 1])):
        # what a question brings once its answer is given, to what none brings
        gain = np.where(there, column, -given.astype(float))
        figures[name], figures[f"{name}_thresh"] = _best_threshold(gain, null, int((~there).sum()))
    return {name: float(value) for name, value in figures.items()}


def _best_threshold(gain: np.ndarray, odds: np.ndarray, without: int) -> tuple[float, float]:
    """(mean score, threshold) where `without` and the gains of the least odds are most."""
    order = np.argsort(odds, kind="stable")
    totals = np.cumsum(np.concatenate([[without], gain[order]]))
    best = int(totals.argmax())  # the first of equals
    return totals[best] / len(gain), odds[order[best - 1]] if best else 0.0


def _word_f1(answer: str, predicted: str) -> float:
    a, b = normalized_answer(answer).split(), normalized_answer(predicted).split()
    if not a or not b:
        return float(a == b)
    return _f1((Counter(a) & Counter(b)).total(), len(a), len(b))


def _f1(right: int, expected: int, found: int) -> float:
    return 2 * right / (expected + found) if expected + found else 0.0
