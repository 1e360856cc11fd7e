"""What a run learns, in words and for its settings.json: examples, labels, columns, the metric."""

from collections.abc import Mapping, Sequence
from typing import Any

from kbert.io import printable
from kbert.io.wording import first_few

_SHOWN = 12  # labels; a file has all
_SHOWN_LONE = 3
_FEWEST = 10  # predictions; that fewer are all one class means nothing
_TEXT_ROLES = ("text", "second text", *["further text"] * 100)


def summarize_records(task, records: Sequence) -> dict[str, Any]:
    """Return the facts of training or dev data, as JSON.

    These are the number of examples; "header", whether a file has one, unless its rows name their
    columns; "columns" by role, unless the data have none; "pairs", whether there are second texts,
    where the task has them; and those of `Task.count_labels`.
    """
    facts: dict[str, Any] = {"examples": len(records)}
    has_header = getattr(records, "has_header", None)
    if has_header is not None:
        facts["header"] = has_header
    columns = getattr(records, "columns", None)
    if columns:
        facts["columns"] = columns
    if hasattr(records[0], "pair"):
        facts["pairs"] = records[0].pair is not None

    counts = task.count_labels(records)
    labels = counts.get("labels")
    if labels:
        by_name = {label: labels[label] for label in sorted(labels)}
        counts = counts | {"labels": by_name}
    return facts | counts


def describe_records(name: str, facts: Mapping[str, Any], labels: Sequence[str] | None) -> str:
    """Describe data in one line; `labels` are the head's, in its order, or None."""
    texts = []
    for key, value in facts.items():
        if key == "examples":
            texts.append(f"{value:,} examples")
        elif key == "labels":
            texts.append(describe_labels(value, labels or tuple(value)))
        elif key == "numbers":
            texts.append(f"numbers from {value['lowest']:g} to {value['highest']:g}")
            texts.append(f"mean {value['mean']:.4g}")
        elif key not in ("header", "columns", "pairs"):
            texts.append(f"{key.replace('_', ' ')}: {_describe_value(value)}")
    line = f"{name}: {', '.join(texts)}"
    columns = _describe_columns(facts.get("columns", {}))
    if facts.get("header") is False:
        line += "; no header"
    return f"{line}; {columns}" if columns else line


def describe_labels(counts: Mapping[str, int], labels: Sequence[str]) -> str:
    """Return "2 labels: bad (3), good (57)".

    If there are many, it has the most frequent ones, and the first ones that have one example: one
    that is alone may be a header's, or mistyped.
    """
    named = [*labels, *(label for label in counts if label not in labels)]
    if len(named) > _SHOWN:
        named.sort(key=lambda label: -counts.get(label, 0))
    listed = [f"{printable.cut(label, 40)} ({counts.get(label, 0):,})" for label in named]
    text = f"{len(named):,} labels: {first_few(listed, _SHOWN)}"

    lone = [printable.cut(label, 40) for label in named[_SHOWN:] if counts.get(label) == 1]
    if lone:
        text += f"; of one example: {first_few(lone, _SHOWN_LONE)}"
    return text


def describe_one_class(
    gold: Sequence, predicted: Sequence, what: str, classes: str = "labels"
) -> str:
    """Return a sentence if all predictions are one class, and the right ones are not; else ""."""
    num_predicted = len(set(predicted))
    num_gold = len(set(gold))
    if len(predicted) < _FEWEST or num_predicted != 1 or num_gold < 2:
        return ""
    return (
        f"all {len(predicted):,} {what} are predicted as {predicted[0]!r}, though the data have "
        f"{num_gold:,} {classes}: the model has not learned to tell them apart. Train for more "
        "steps, or at a higher learning rate"
    )


def _describe_columns(columns: Mapping[str, Any]) -> str:
    """Return "columns: review (text), stars (label)", in brackets what they hold; else ""."""
    named = []
    for role, names in columns.items():
        if isinstance(names, str):
            named.append((names, role))
        elif role == "texts":
            named += zip(names, _TEXT_ROLES[: len(names)], strict=True)
        else:
            named += [(name, role) for name in names]

    listed = []
    for name, role in named:
        listed.append(name if name == role else f"{name} ({role})")
    return f"columns: {first_few(listed, 8)}" if listed else ""


def _describe_value(value) -> str:
    """Return a number, a text, a list or a few counts in words."""
    if isinstance(value, Mapping):
        return first_few([f"{name} ({count:,})" for name, count in value.items()], 6)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return first_few(value, 6)
    return f"{value:,}" if isinstance(value, int) else str(value)


def summarize_numbers(numbers: Sequence[float]) -> dict[str, float]:
    """Return the range and the mean of numbers to predict."""
    return {
        "lowest": float(min(numbers)),
        "highest": float(max(numbers)),
        "mean": float(sum(numbers) / len(numbers)),
    }
