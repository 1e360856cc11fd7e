"""Metrics of classes, of entities as in seqeval, of answers as in SQuAD.

All metrics are from 0 to 1, correlations from −1; SQuAD itself prints them times 100. An argument
`counts`, int (N,), is the number of texts that each entry stands for; None: one each.
"""

import itertools
import logging
import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

_logger = logging.getLogger("kbert")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(gold: np.ndarray, predicted: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Return the fraction of correct predictions; both int (N,)."""
    if not len(gold):
        return 0.0
    is_correct = np.equal(gold, predicted)
    return float(np.average(is_correct, weights=counts))


def f1(
    gold: np.ndarray, predicted: np.ndarray, positive: int = 1, counts: np.ndarray | None = None
) -> float:
    """Return F1 of one class, 2·TP / (2·TP + FP + FN); 0 if it is neither there nor predicted."""
    weights = np.ones(len(gold), int) if counts is None else counts
    is_gold = np.equal(gold, positive)
    is_predicted = np.equal(predicted, positive)
    true_positives = weights[is_gold & is_predicted].sum()
    total = weights[is_gold].sum() + weights[is_predicted].sum()
    return float(2 * true_positives / total) if total else 0.0


def macro_f1(gold: np.ndarray, predicted: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Return the mean F1 of the classes that are there or predicted, as scikit-learn's."""
    correct, of_gold, of_predicted = _count_classes(gold, predicted, counts)
    total = of_gold + of_predicted
    occurs = total > 0
    if not occurs.any():
        return 0.0
    f1_of_classes = 2 * correct[occurs] / total[occurs]
    return float(np.mean(f1_of_classes))


def matthews(gold: np.ndarray, predicted: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Return Matthews' correlation for any number of classes (Gorodkin 2004); 0: no variance."""
    correct, of_gold, of_predicted = _count_classes(gold, predicted, counts)
    total = of_gold.sum()
    covariance = total * correct.sum() - of_gold @ of_predicted
    gold_variance = total**2 - of_gold @ of_gold
    predicted_variance = total**2 - of_predicted @ of_predicted
    variances = gold_variance * predicted_variance
    return float(covariance / np.sqrt(variances)) if variances > 0 else 0.0


def _count_classes(gold, predicted, counts: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Count the texts of each class: correct ones, those in `gold`, those in `predicted`."""
    both = np.concatenate([gold, predicted])
    classes, numbers = np.unique(both, return_inverse=True)
    gold, predicted = np.split(numbers, 2)
    weights = np.ones(len(gold))
    if counts is not None:
        weights = counts.astype(np.float64)
    correct_weights = weights * (gold == predicted)

    num_classes = len(classes)
    correct = np.bincount(gold, correct_weights, num_classes)
    of_gold = np.bincount(gold, weights, num_classes)
    of_predicted = np.bincount(predicted, weights, num_classes)
    return correct, of_gold, of_predicted


def warn_of_constant(**columns: np.ndarray) -> None:
    """Report that a correlation is undefined if all numbers of a column are equal."""
    for name, numbers in columns.items():
        if np.ptp(numbers) == 0:
            _logger.warning(
                "all %d %s are %g: the correlation is undefined, 0 is returned",
                len(numbers),
                name,
                numbers[0],
            )


def pearson(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the correlation of numbers, (N,) each; 0 if one is constant: undefined."""
    gold = np.asarray(gold, np.float64)
    predicted = np.asarray(predicted, np.float64)
    gold = gold - gold.mean()
    predicted = predicted - predicted.mean()

    covariance = (gold * predicted).sum()
    variances = (gold**2).sum() * (predicted**2).sum()
    scale = np.sqrt(variances)
    return float(covariance / scale) if scale > 0 else 0.0


def spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the correlation of the numbers' ranks; equal numbers have their mean rank."""
    return pearson(_rank(gold), _rank(predicted))


def _rank(numbers: np.ndarray) -> np.ndarray:
    _, indices, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)
    mean_ranks = last_ranks - (counts - 1) / 2
    return mean_ranks[indices]


def micro_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return F1 of all labels of all texts together; both bool (N, labels)."""
    return f1(gold.ravel(), predicted.ravel(), True)


def mean_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean F1 of the labels; a label that neither occurs nor is predicted has 0."""
    scores = []
    for gold_column, predicted_column in zip(gold.T, predicted.T, strict=True):
        scores.append(f1(gold_column, predicted_column, True))
    return float(np.mean(scores))


def average_precision(gold: np.ndarray, scores: np.ndarray) -> float:
    """Return the sum of the precision at each threshold times the recall that it adds.

    It is 0 without a positive entry. `gold` is bool (N,), `scores` float (N,); equal scores share a
    threshold, as scikit-learn's.
    """
    if not gold.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    changes = np.diff(scores[order]) != 0
    last = np.flatnonzero(np.append(changes, True))  # of each threshold

    correct = np.cumsum(gold[order])[last]
    added = np.diff(correct, prepend=0)
    recall = added / gold.sum()
    return float(np.sum(recall * correct / (last + 1)))


def mean_average_precision(gold: np.ndarray, scores: np.ndarray) -> float:
    """Return the mean over the labels; bool and float (N, labels)."""
    columns = zip(gold.T, scores.T, strict=True)
    return float(np.mean([average_precision(*pair) for pair in columns]))


def entities(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return (type, first word, last word) of each entity of a sentence, as seqeval's default mode.

    The labels are O or a tag of BIOES, "-" and a type, which may be empty: see
    `kbert.tasks.tagging.schemes`. This is conlleval's rule, lenient to the tags: an I or E
    continues the entity before it if that has its type and has not ended with E or S; else it
    begins a new one.
    """
    results = set()
    begin = 0
    inside = [(label[0], label[2:]) for label in labels]
    tags = [("O", ""), *inside, ("O", "")]
    for index, (before, tag) in enumerate(itertools.pairwise(tags)):
        may_continue = before[0] in "BI" and tag[0] in "IE"
        if may_continue and before[1] == tag[1]:
            continue
        if before[0] != "O":
            results.add((before[1], begin, index - 1))
        begin = index
    return results


def count_entities(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> np.ndarray:
    """Count the entities of each sentence: int (N, 3), correct, expected and predicted ones."""
    counts = []
    for expected, answer in zip(gold, predicted, strict=True):
        if len(expected) != len(answer):
            raise ValueError(f"expected {len(expected)} labels for a sentence, got {len(answer)}")
        expected_entities = entities(expected)
        predicted_entities = entities(answer)
        correct = expected_entities & predicted_entities
        counts.append((len(correct), len(expected_entities), len(predicted_entities)))
    return np.array(counts)


def entity_scores(counts: np.ndarray) -> dict[str, float]:
    """Return precision, recall and f1 of `count_entities`' entities, seqeval's micro average."""
    correct, expected, predicted = counts.sum(0).tolist()
    precision = correct / predicted if predicted else 0.0
    recall = correct / expected if expected else 0.0
    f1 = _compute_f1(correct, expected, predicted)
    return {"precision": precision, "recall": recall, "f1": f1}


def normalize_answer(text: str) -> str:
    """Normalize as SQuAD does: lowercase, no ASCII punctuation, no articles, single spaces."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def answer_scores(answers: Sequence[str], predicted: str) -> tuple[float, float]:
    """Return exact match and F1 of words, the best over the correct answers, as SQuAD 2.0's.

    "" stands for no answer, as does an empty list of answers.
    """
    known = [answer for answer in answers if normalize_answer(answer)] or [""]
    exact = max(normalize_answer(answer) == normalize_answer(predicted) for answer in known)
    return float(exact), max(_compare_tokens(answer, predicted) for answer in known)


def compare_answers(
    answers: Sequence[Sequence[str]], predicted: Sequence[str], odds: Sequence[float] | None = None
) -> tuple[np.ndarray, ...]:
    """Compare one predicted answer to each question with its correct ones; none: no answer.

    `odds` are those of no answer against the predicted one (Google's null_odds.json): above 0 there
    is no answer. None: SQuAD 1.1, each question has one. Returns exact match and F1, (N, 2). With
    `odds` also the odds, whether there is an answer, and whether the predicted one has a text.
    """
    pairs = zip(answers, predicted, strict=True)
    scores = np.array([answer_scores(*pair) for pair in pairs])
    if odds is None:
        return (scores,)
    has_answer = np.array([bool(texts) for texts in answers])
    has_text = np.array([bool(text) for text in predicted])
    return scores, np.asarray(odds), has_answer, has_text


def compute_squad(
    raw: np.ndarray,
    odds: np.ndarray | None = None,
    has_answer: np.ndarray | None = None,
    has_text: np.ndarray | None = None,
) -> dict[str, float]:
    """Compute exact_match and f1 of `compare_answers`' arrays.

    With odds also those of the questions with an answer, HasAns_…, and of the others, NoAns_…, if
    there are any; and best_exact and best_f1, with the best_…_thresh of the odds that reaches them,
    as SQuAD 2.0's evaluation finds it (0.0 if no answer at all is best).
    """
    if odds is None or has_answer is None or has_text is None:
        return _average_scores(raw, "exact_match", "f1")

    predicts_none = odds[:, None] > 0
    scores = np.where(predicts_none, ~has_answer[:, None], raw)
    metrics = _average_scores(scores, "exact_match", "f1")
    if has_answer.any():
        metrics |= _average_scores(scores[has_answer], "HasAns_exact", "HasAns_f1")
    if not has_answer.all():
        metrics |= _average_scores(scores[~has_answer], "NoAns_exact", "NoAns_f1")
    for column, name in enumerate(("best_exact", "best_f1")):
        best, threshold = _find_threshold(raw[:, column], odds, has_answer, has_text)
        metrics |= {name: best, f"{name}_thresh": threshold}
    return metrics


def _average_scores(scores: np.ndarray, *names: str) -> dict[str, float]:
    """Return the mean of each column, by its name."""
    means = scores.mean(0).tolist()
    return dict(zip(names, means, strict=True))


def _find_threshold(
    scores: np.ndarray, odds: np.ndarray, has_answer: np.ndarray, has_text: np.ndarray
) -> tuple[float, float]:
    """Return the best mean score, and the odds above which there is no answer then."""
    order = np.argsort(odds, kind="stable")
    # the score of a question with its answer − its score without
    gain = np.where(has_answer, scores, -has_text.astype(float))
    without_answers = (~has_answer).sum()
    changes = np.concatenate([[without_answers], gain[order]])
    totals = np.cumsum(changes)
    best = int(totals.argmax())  # the first of equals
    threshold = odds[order[best - 1]] if best else 0.0
    return float(totals[best] / len(gain)), float(threshold)


def _compare_tokens(answer: str, predicted: str) -> float:
    a = normalize_answer(answer).split()
    b = normalize_answer(predicted).split()
    if not a or not b:
        return float(a == b)
    common = Counter(a) & Counter(b)
    return _compute_f1(common.total(), len(a), len(b))


def _compute_f1(correct: int, expected: int, predicted: int) -> float:
    return 2 * correct / (expected + predicted) if expected + predicted else 0.0
