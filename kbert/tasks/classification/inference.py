"""Text classification, regression and next-sentence prediction, for texts and pairs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Unpack, overload

import numpy as np

from kbert.checkpoints.bert import Bert, label_names
from kbert.checkpoints.checkpoint import choose_activation
from kbert.graph import names
from kbert.io import printable
from kbert.io.wording import name_call
from kbert.tasks.common.running import (
    BATCH_SIZE,
    InferenceOptions,
    compute_logits,
    list_texts,
    sigmoid,
    softmax,
)


@dataclass(frozen=True)
class Label:
    """A label of a text, with its probability.

    Attributes:
        label: the checkpoint's name of the label, else LABEL_0, LABEL_1, …
        probability: the model's probability of the label.
    """

    label: str
    probability: float


@dataclass(frozen=True)
class Value:
    """An output of a regression.

    Attributes:
        label: the checkpoint's name of the output, else LABEL_0, LABEL_1, …
        value: the predicted number.
    """

    label: str
    value: float


@overload
def next_sentence(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert, a: str, b: str, **options: Unpack[InferenceOptions]
) -> float: ...
@overload
def next_sentence(
    bert: Bert, a: Iterable[str], b: Iterable[str], **options: Unpack[InferenceOptions]
) -> np.ndarray: ...
@printable.escape_errors()
def next_sentence(
    bert: Bert,
    a: str | Iterable[str],
    b: str | Iterable[str],
    *,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> float | np.ndarray:
    """Predict the probability that one text follows another (the paper, section 3.1, task 2).

    Args:
        bert: from `kbert.load`, with the head "pretraining".
        a: the first text, a str or a list of them.
        b: the second text, a str or a list of them.
        batch_size, precision, progress: as for `kbert.embed`.

    Returns:
        P(b is next after a), output 0 of the head: a float for two str, float32 (N,) for lists.

    Raises:
        ValueError: lists of different lengths; a model with another head or a newly initialized
            one.
    """
    texts, pairs, is_single = list_texts(bert, "next_sentence", a, b, "a", "b", optional=False)
    if not bert.config.family.next_sentence:
        raise ValueError(
            "next_sentence needs a model that was trained on next sentences, a BERT, got "
            f"{bert.config.family.title}"
        )
    options = InferenceOptions(batch_size=batch_size, precision=precision, progress=progress)
    logits = compute_logits(bert, "next_sentence", "pretraining", names.NSP, texts, pairs, options)
    probabilities = softmax(logits)[:, 0]
    return float(probabilities[0]) if is_single else probabilities


@overload
def classify(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert,
    texts: str,
    pairs: str | None = None,
    *,
    multi_label: bool | None = ...,
    **options: Unpack[InferenceOptions],
) -> list[Label]: ...
@overload
def classify(
    bert: Bert,
    texts: Iterable[str],
    pairs: Iterable[str] | None = None,
    *,
    multi_label: bool | None = ...,
    **options: Unpack[InferenceOptions],
) -> list[list[Label]]: ...
@printable.escape_errors()
def classify(
    bert: Bert,
    texts: str | Iterable[str],
    pairs: str | Iterable[str] | None = None,
    *,
    multi_label: bool | None = None,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> list[Label] | list[list[Label]]:
    """Classify texts, or pairs of texts: return their labels with probabilities.

    Args:
        bert: from `kbert.load`, with the head "classifier".
        texts: a str, or a list of them.
        pairs: the second texts, a str or a list of them.
        multi_label: True: an independent probability per label (sigmoid); False: one label per text
            (softmax); None: the checkpoint's `problem_type`, as in transformers. A model with a
            single label uses sigmoid.
        batch_size, precision, progress: as for `kbert.embed`.

    Returns:
        For one str, every `Label`, the most likely first; for a list, a list of those. A model
        whose `problem_type` is "regression" predicts numbers: the result has a `Value` per output
        instead, the largest first. See `regress`, too.

    Raises:
        ValueError: a model with another head or a newly initialized one; something that is not
            text.
    """
    texts, pairs, is_single = list_texts(bert, "classify", texts, pairs)
    options = InferenceOptions(batch_size=batch_size, precision=precision, progress=progress)
    logits = compute_logits(bert, "classify", "classifier", names.CLASSIFIER, texts, pairs, options)

    count = logits.shape[1]
    labels = label_names(bert, count)
    problem_type = bert.problem_type
    if multi_label is not None:
        problem_type = "multi_label_classification" if multi_label else None
    function, result = _ACTIVATIONS[choose_activation(problem_type, count)]

    results = []
    for row in function(logits):
        order = np.argsort(-row, kind="stable")
        ranked = [result(labels[number], float(row[number])) for number in order]
        results.append(ranked)
    # `Value` is not in the annotation: programs that classify would have to rule it out
    return results[0] if is_single else results


def _keep(logits: np.ndarray) -> np.ndarray:
    """Return the outputs of a regression, which are numbers already."""
    return logits


_ACTIVATIONS: dict[str, tuple[Callable, Callable]] = {  # and what a result is
    "linear": (_keep, Value),
    "sigmoid": (sigmoid, Label),
    "softmax": (softmax, Label),
}


@overload
def regress(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert, texts: str, pairs: str | None = None, **options: Unpack[InferenceOptions]
) -> float: ...  # an array if the model has several outputs
@overload
def regress(
    bert: Bert,
    texts: Iterable[str],
    pairs: Iterable[str] | None = None,
    **options: Unpack[InferenceOptions],
) -> np.ndarray: ...
@printable.escape_errors()
def regress(
    bert: Bert,
    texts: str | Iterable[str],
    pairs: str | Iterable[str] | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> float | np.ndarray:
    """Predict a number for each text, or pair of texts, such as their similarity.

    Args:
        bert: from `kbert.load`, with the head "classifier": one output, or several of a checkpoint
            whose `problem_type` is "regression".
        texts: a str, or a list of them.
        pairs: the second texts, a str or a list of them.
        batch_size, precision, progress: as for `kbert.embed`.

    Returns:
        The unchanged output: a float for one str, float32 (N,) for a list. Of a model with several
        outputs float32 (outputs,) and (N, outputs), in the order of `bert.labels`.

    Raises:
        ValueError: a model with another head or a newly initialized one; a classifier with several
            outputs; something that is not text.
    """
    texts, pairs, is_single = list_texts(bert, "regress", texts, pairs)
    options = InferenceOptions(batch_size=batch_size, precision=precision, progress=progress)
    logits = compute_logits(bert, "regress", "classifier", names.CLASSIFIER, texts, pairs, options)

    num_outputs = logits.shape[1]
    if num_outputs != 1 and bert.problem_type != "regression":
        raise ValueError(
            "regress needs a model with one output or with problem_type regression, got "
            f"{num_outputs} outputs and {bert.problem_type}: for labels use "
            f"{name_call('classify')}"
        )
    numbers = logits[:, 0] if num_outputs == 1 else logits
    return _first(numbers) if is_single else numbers


def _first(numbers: np.ndarray) -> float | np.ndarray:
    """Return the numbers of the only text; a single one as a float."""
    return float(numbers[0]) if numbers.ndim == 1 else numbers[0]
