"""What a run's page shows of a model's predictions for the dev data; the tasks fill it in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MOST_EXAMPLES = 20  # the worst ones, on a page
MOST_LABELS = 20  # of a confusion matrix
MOST_POINTS = 400  # of numbers and predictions, in a picture


class Baseline(NamedTuple):
    """A metric of a model that does not read the text.

    Attributes:
        metric: its name, as in an evaluation.
        value: its value on the dev data.
        text: what that model predicts, in words.
    """

    metric: str
    value: float
    text: str


class TextPiece(NamedTuple):
    """A piece of an example's text.

    Attributes:
        text: the piece.
        mark: what is wrong there; "": nothing.
    """

    text: str
    mark: str = ""


class AnswerProb(NamedTuple):
    """A label or another answer.

    Attributes:
        text: the answer.
        prob: the model's probability of it; None: it has none.
    """

    text: str
    prob: float | None = None


class PredictedExample(NamedTuple):
    """An example of the dev data, and what was predicted for it.

    Attributes:
        location: file and line.
        texts: the example's texts, each in pieces.
        gold, predicted: the answers of the data, and those of the model.
        error: the number that the examples are sorted by, the largest first.
        is_wrong: whether the prediction is not that of the data.
    """

    location: str
    texts: tuple[tuple[TextPiece, ...], ...]
    gold: tuple[AnswerProb, ...]
    predicted: tuple[AnswerProb, ...]
    error: float
    is_wrong: bool = True


class LabelScores(NamedTuple):
    """Metrics of a label.

    Attributes:
        label: the label.
        precision, recall, f1: the metrics, from 0 to 1.
        support: how many examples of the data have the label.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Predictions:
    """The predictions for all dev examples, as a page shows them.

    Attributes:
        count: the number of examples.
        what: what the examples are, such as "examples".
        labels, matrix: the confusion matrix; a row per label of the data, a column per prediction.
        label_scores: metrics of each label, or of each type of entity.
        scored: what `label_scores` are of, in words.
        points: numbers of the data and predicted ones.
        axes: what these numbers are.
        examples: the examples that were predicted worst.
        error: what their error is.
        note: what else a reader should know.
    """

    count: int
    what: str = "examples"
    labels: Sequence[str] = ()
    matrix: Sequence[Sequence[int]] = ()
    label_scores: Sequence[LabelScores] = ()
    scored: str = "label"
    points: Sequence[tuple[float, float]] = ()
    axes: tuple[str, str] = ("dev data", "predicted")
    examples: Sequence[PredictedExample] = ()
    error: str = "loss"
    note: str = ""


def score_labels(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> list:
    """Return the `LabelScores` of each label's counts: correct, in the data, predicted."""
    scores = []
    for label, (correct, gold, predicted) in zip(labels, counts, strict=True):
        precision = correct / predicted if predicted else 0.0
        recall = correct / gold if gold else 0.0
        f1 = 2 * correct / (gold + predicted) if gold + predicted else 0.0
        scores.append(LabelScores(label, precision, recall, f1, gold))
    return scores
