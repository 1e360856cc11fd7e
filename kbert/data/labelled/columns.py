"""Detection of the columns of texts and labels, by their usual names."""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbert.data.labelled.text_lines import has_json_lines
from kbert.io import printable
from kbert.io.wording import data_of, first_few, is_command_running, name_setting, write_settings

LABELS = ("label", "labels", "gold_label", "class", "target", "category")
TEXTS = ("text", "sentence", "review", "content", "comment", "comment_text", "tweet")
# These are read if there is no column of the names above.
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
_TEXT_NAMES = {*TEXTS, *MORE_TEXTS, *itertools.chain.from_iterable(PAIRS)}
NAMES = frozenset({*_TEXT_NAMES, *LABELS, *MORE_LABELS, *NUMBERS})  # of a header


def say_how_to_name() -> str:
    """Say how to name the columns of texts and labels, for errors."""
    names = [name_setting(name) for name in ("text_column", "text_pair_column", "label_column")]
    return f"name the columns: {', '.join(names)}, or rename them"


def say_how_to_name_labels() -> str:
    """Say how to name all columns, those of 0 and 1 too, for errors."""
    columns = write_settings(label_columns="A,B,…") if is_command_running() else "label_columns=[…]"
    return f"{say_how_to_name()}; columns of 0 and 1, one per label: {columns}"


@dataclass(frozen=True)
class ColumnOptions:
    """Names of the columns to read if kbert does not recognize them, and whether there is a header.

    Args:
        text, text_pair, label: names of columns; without a header their numbers, from 1 on, as a
            str or an int. None: the columns with recognized names.
        no_header: whether the first line of a file is an example, whatever it looks like.
        labels: names of columns of 0 and 1, one for each label, in place of one column of labels.
        known_labels: labels of the model or of the training data; a first line with one of them is
            no header.
        weight: name or number of the column of the examples' weights; None: there is none.
        multi_hot: whether the label cells of the training data are rows of 0 and 1; None: unknown.

    Raises:
        ValueError: text_pair without text; label beside labels; a name where a number is expected.
    """

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    no_header: bool = False
    known_labels: Collection[str] = ()
    labels: Sequence[str] = ()
    multi_hot: bool | None = None
    weight: str | None = None

    def __post_init__(self):
        for role in ("text", "text_pair", "label", "weight"):
            column = getattr(self, role)
            if type(column) is int:
                object.__setattr__(self, role, str(column))
        labels = [str(name) for name in self.labels or ()]
        object.__setattr__(self, "labels", tuple(labels))

        if self.labels and self.label is not None:
            raise ValueError(
                "label_column and label_columns cannot go together: leave one of them out"
            )
        if self.text_pair is not None and self.text is None:
            raise ValueError(
                "text_pair_column must go with text_column, got text_pair_column alone: name both"
            )
        self._check_names()

    def _check_names(self) -> None:
        """Raise a ValueError for a column that is named twice, or a name without a header."""
        lower = [name.strip().lower() for name in self.names]
        for name in self.names:
            if lower.count(name.strip().lower()) > 1:
                raise ValueError(f"both options name the column {name!r}: name different columns")
        if not self.no_header:
            return

        for name in self.names:
            if not name.isdecimal():
                raise ValueError(
                    "columns must be numbers from 1 on where no_header is given, such as "
                    f"{write_settings(text_column='1')}, got {name!r}"
                )

    @property
    def names(self) -> list[str]:
        """Columns that the user names."""
        names = (self.text, self.text_pair, self.label, *self.labels, self.weight)
        return [name for name in names if name is not None]

    def rename(self, header: Sequence[str], location: str) -> list[str]:
        """Name the user's columns text, pair, label and weight; hide the others of their kind.

        Raises:
            ValueError: a column that is not in the header.
        """
        roles = {"text": self.text, "pair": self.text_pair}
        roles |= {"label": self.label, "weight": self.weight}
        indices = {}
        for role, column in roles.items():
            if column is not None:
                indices[role] = self._find(column, header, location)

        hidden: set[str] = set()
        if self.text is not None:
            hidden |= _TEXT_NAMES
        if self.label is not None or self.labels:
            hidden |= {*LABELS, *MORE_LABELS}
        names = [str(name).strip().lower() for name in header]
        for index, name in enumerate(names):
            if name in hidden:
                names[index] = f"column {index + 1}"

        for role, index in indices.items():
            names[index] = role
        for index in self.find_labels(header, location):
            names[index] = f"column {index + 1}"
        return names

    def find_labels(self, header: Sequence[str], location: str) -> tuple[int, ...]:
        """Return the indices of the columns of 0 and 1; a ValueError if the header lacks one."""
        indices = []
        for name in self.labels:
            indices.append(self._find(name, header, location))
        return tuple(indices)

    def name_labels(self, header: Sequence, columns: Sequence[int]) -> list:
        """Return the header with the columns of 0 and 1 named as the user writes them."""
        names = list(header)
        for index, name in zip(columns, self.labels, strict=True):
            names[index] = name
        return names

    def _find(self, name: str, header: Sequence[str], location: str) -> int:
        """Return the index of a column; a ValueError if the header lacks it."""
        names = [str(column).strip().lower() for column in header]
        wanted = name.strip().lower()
        if wanted not in names:
            columns = [printable.cut(str(column), 30) for column in header]
            listed = first_few(columns, 6)
            hint = self._hint_of_numbers(name, names, location)
            raise ValueError(f"{location}: there is no column {name!r}, only {listed}{hint}")
        return names.index(wanted)

    def _hint_of_numbers(self, name: str, header: Sequence[str], location: str) -> str:
        """Say how to number the columns of a file without a header, if it looks like one."""
        if self.no_header:
            return ""
        if name.isdecimal():
            return f": give numbers with {write_settings(no_header=True)}"

        is_line = location != data_of(location) and not location.endswith("]")
        is_table = is_line and not has_json_lines(Path(data_of(location)))
        if is_table and NAMES.isdisjoint(header):
            columns = write_settings(text_column="1", label_column="2", no_header=True)
            return f". If this line is no header, give numbers, such as {columns}"
        return ""


NO_OPTIONS = ColumnOptions()
