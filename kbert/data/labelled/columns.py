"""Which column of labelled texts holds what, by the words that people call them."""

from collections.abc import Sequence
from typing import NamedTuple

LABELS = ("label", "labels", "gold_label", "class", "target", "category")
TEXTS = ("text", "sentence", "review", "content", "comment", "tweet")
PAIRS = (  # GLUE's, and the commonest
    ("text", "pair"),
    ("text", "text_pair"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text1", "text2"),
    ("text_a", "text_b"),
)
NUMBERS = ("", "id", "idx", "index", "guid")  # "": pandas' to_csv calls its index so
_OF_TEXTS = {*TEXTS, *(name for pair in PAIRS for name in pair)}


class Columns(NamedTuple):
    """The places of a text, of the second text where there is one, and of the label."""

    text: int
    pair: int | None
    label: int


def are_names(cells: Sequence[str]) -> bool:
    """Whether every one of some cells is a word for a column: a header's."""
    words = {cell.lower() for cell in cells}
    return words <= _OF_TEXTS | {*LABELS, *NUMBERS} and not words <= {*NUMBERS}


def has_label_name(cells: Sequence[str]) -> bool:
    """Whether one of some cells is a word for a column of labels."""
    return any(cell.lower() in LABELS for cell in cells)


def columns_of(names: Sequence[str], place: str) -> Columns:
    """Where the texts and the label stand, in whatever order; "text" and "label" go before others.

    Raises:
        ValueError: none or several columns of texts or of labels, so that one would have to guess.
    """
    words = [str(name).strip().lower() for name in names]
    texts: list[tuple[str, ...]] = [pair for pair in PAIRS if set(pair) <= set(words)]
    texts = texts or [(word,) for word in TEXTS if word in words]
    labels = [word for word in LABELS if word in words]
    texts = [found for found in texts if "text" in found] or texts
    if "text" in words and "text" not in texts[0]:
        texts = [("text",)]
    labels = labels[:1] if "label" in labels else labels
    if len(texts) != 1 or len(labels) != 1 or len(set(words)) != len(words):
        listed = ", ".join(map(str, names))
        raise ValueError(
            f"{place}: a column called text (or text and pair) and one called label expected, got "
            f"{listed[:80]}: rename them, or leave some out"
        )
    first, *second = map(words.index, texts[0])
    return Columns(first, second[0] if second else None, words.index(labels[0]))


def left_out(names: Sequence[str], columns: Columns) -> list[str]:
    """The columns that nothing is read from, but for those that number the rows."""
    return [
        str(name)
        for place, name in enumerate(names)
        if place not in columns and str(name).strip().lower() not in NUMBERS
    ]
