"""Warnings about labelled data that are valid but probably not as intended."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence

from kbert.io.wording import data_of

_logger = logging.getLogger("kbert")
_NO_VALUE = {"nan", "<na>"}  # as pandas writes it
_NO_LABEL = _NO_VALUE | {
    "",
    "-",
    "-1",
    "-100",
    "none",
    "null",
    "na",
    "n/a",
    "nil",
    "?",
    "unknown",
}
_FEW = 0.1  # share of labels up to which such a one is reported
_FEWEST = 10  # examples; in fewer a share means nothing
_INPUTS = ("text", "pair", "words", "texts", "question", "context")  # of every task's records


def list_labels(labels: Sequence[str], location: str, what: str = "records") -> set[str]:
    """Return the different labels of training data; raise a ValueError if there are not two."""
    warn_of_missing_labels(labels, what)
    different = set(labels)
    _warn_of_case(different)
    if len(different) < 2:
        raise ValueError(
            f"{data_of(location)} must have two labels or more, got only {labels[0]!r}"
        )
    return different


def _warn_of_case(labels: set[str]) -> None:
    """Warn of labels that differ in upper and lower case only."""
    by_lower: dict[str, list[str]] = {}
    for label in sorted(labels):
        by_lower.setdefault(label.lower(), []).append(label)

    for names in by_lower.values():
        if len(names) == 1:
            continue
        label = names[0].strip().lower()
        if label not in _NO_LABEL:
            _logger.warning(
                "train: the labels %s differ in upper and lower case only, and are trained as "
                "different classes",
                " and ".join(repr(name) for name in names),
            )


def warn_of_missing_labels(labels: Iterable[str], what: str = "records") -> None:
    """Warn of labels that look like a marker for "no label" and are rare, or mean nothing else."""
    counts = Counter(labels)
    total = counts.total()
    for label in sorted(counts):
        lower = label.strip().lower()
        if lower not in _NO_LABEL:
            continue
        if counts[label] <= _FEW * total or lower in _NO_VALUE:
            _logger.warning(
                "train: the label %r of %s of %s %s looks like a marker for 'no label', and is "
                "trained as a class: leave them out unless it is one",
                label,
                f"{counts[label]:,}",
                f"{total:,}",
                what,
            )


def warn_of_records(train: Sequence, dev: Sequence | None) -> None:
    """Warn of training records that repeat others, and of dev records that repeat those."""
    inputs = [_inputs_of(record) for record in train]
    different = set(inputs)
    repeated = len(inputs) - len(different)
    if len(inputs) >= _FEWEST and 2 * repeated > len(inputs):
        _logger.warning(
            "train: %s of %s records repeat the text of another", f"{repeated:,}", f"{len(train):,}"
        )

    known = sum(_inputs_of(record) in different for record in dev or ())
    if dev and len(dev) >= _FEWEST and known > _FEW * len(dev):
        _logger.warning(
            "dev: %s of %s records have a text of the training data: their metrics do not show how "
            "the model does on new texts",
            f"{known:,}",
            f"{len(dev):,}",
        )


def _inputs_of(record) -> tuple:
    return tuple(getattr(record, name, None) for name in _INPUTS)
