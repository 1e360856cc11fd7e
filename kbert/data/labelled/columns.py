"""Detection of the columns of texts and labels, by their usual names."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LABELS = ("label", "labels", "gold_label", "class", "target", "category")
TEXTS = ("text", "sentence", "review", "content", "comment", "tweet")
# These are read where there is no column of the names above.
MORE_LABELS = ("sentiment", "intent", "emotion", "topic", "score", "rating", "stars")
MORE_TEXTS = ("utterance", "phrase", "message", "headline", "post", "document")
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
_OF_TEXTS = {*TEXTS, *MORE_TEXTS, *(name for pair in PAIRS for name in pair)}
NAMES = frozenset({*_OF_TEXTS, *LABELS, *MORE_LABELS, *NUMBERS})  # that a header is known by
WAY_TO_NAME = (
    "name them with --text-column, --text-pair-column and --label-column (in Python text_column, "
    "text_pair_column and label_column), or rename them"
)


@dataclass(frozen=True)
class ColumnOptions:
    """Names of the columns to read if kbert does not recognize them, and whether there is a header.

    Args:
        text, text_pair, label: names of columns; without a header their numbers, from 1 on, as a
            str or an int. None: the columns with recognized names.
        no_header: whether the first line of a file is an example, whatever it looks like.
        known_labels: labels of the model or of the training data; a first line with one of them is
            no header.

    Raises:
        ValueError: a column of second texts without one of first texts; a name where a number is
            expected.
    """

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    no_header: bool = False
    known_labels: Collection[str] = ()

    def __post_init__(self):
        for role in ("text", "text_pair", "label"):
            if type(number := getattr(self, role)) is int:
                object.__setattr__(self, role, str(number))
        if self.text_pair is not None and self.text is None:
            raise ValueError(
                "text_pair_column must go with text_column, got text_pair_column alone: name both"
            )
        names = [name.strip().lower() for name in self.named]
        if twice := [name for name in self.named if names.count(name.strip().lower()) > 1]:
            raise ValueError(f"both options name the column {twice[0]!r}: name different columns")
        for name in self.named if self.no_header else ():
            if not name.isdecimal():
                raise ValueError(
                    "columns must be numbers from 1 on where no_header is given, such as "
                    f"text_column='1', got {name!r}"
                )

    @property
    def named(self) -> list[str]:
        """Columns that were named."""
        return [name for name in (self.text, self.text_pair, self.label) if name is not None]

    def rename(self, names: Sequence[str], place: str) -> list[str]:
        """Call the columns that were named text, pair and label; hide the others of their kind.

        Raises:
            ValueError: a column that is not among `names`.
        """
        words = [str(name).strip().lower() for name in names]
        roles = {"text": self.text, "pair": self.text_pair, "label": self.label}
        indices = {
            role: self._index(words, name, names, place)
            for role, name in roles.items()
            if name is not None
        }
        hidden = {*_OF_TEXTS} if self.text is not None else set()
        hidden |= {*LABELS, *MORE_LABELS} if self.label is not None else set()
        words = [f"column {n}" if word in hidden else word for n, word in enumerate(words, 1)]
        for role, index in indices.items():
            words[index] = role
        return words

    @staticmethod
    def _index(words: list[str], name: str, names: Sequence[str], place: str) -> int:
        if name.strip().lower() not in words:
            listed = ", ".join(map(str, names))
            hint = ": give numbers with --no-header (no_header=True)" if name.isdecimal() else ""
            raise ValueError(f"{place}: there is no column {name!r}, only {listed[:80]}{hint}")
        return words.index(name.strip().lower())


NO_OPTIONS = ColumnOptions()


class Columns(NamedTuple):
    """Indices of the columns of the text, of the second text if there is one, and of the label."""

    text: int
    pair: int | None
    label: int


def find_columns(names: Sequence[str], place: str, options: ColumnOptions = NO_OPTIONS) -> Columns:
    """Return the columns of the texts and the label, in any order; "text" and "label" go first.

    Raises:
        ValueError: no column of texts or of labels, or several candidates.
    """
    words = options.rename(names, place)
    texts: list[tuple[str, ...]] = [pair for pair in PAIRS if set(pair) <= set(words)]
    texts = texts or [(word,) for word in _found(words, TEXTS, MORE_TEXTS)]
    labels = _found(words, LABELS, MORE_LABELS)
    texts = [found for found in texts if "text" in found] or texts
    if "text" in words and "text" not in texts[0]:
        texts = [("text",)]
    labels = labels[:1] if "label" in labels else labels
    if len(texts) != 1 or len(labels) != 1 or len(set(words)) != len(words):
        listed = ", ".join(map(str, names))
        raise ValueError(
            f"{place}: expected a column text (or text and pair) and a column label, got "
            f"{listed[:80]}: {WAY_TO_NAME}"
        )
    first, *second = map(words.index, texts[0])
    return Columns(first, second[0] if second else None, words.index(labels[0]))


def _found(words: Sequence[str], usual: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the usual names among the words; where there is none, the other ones."""
    return [name for name in usual if name in words] or [name for name in other if name in words]


def left_out(names: Sequence[str], columns: Sequence[int | None]) -> list[str]:
    """Return the columns that nothing is read from, but for those that number the rows."""
    return [
        str(name)
        for place, name in enumerate(names)
        if place not in columns and str(name).strip().lower() not in NUMBERS
    ]
