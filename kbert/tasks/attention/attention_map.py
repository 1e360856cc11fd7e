"""The attention probabilities of one text, and their picture or page."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import kbert
from kbert.data.tokenization.encodings import abbreviate_tokens
from kbert.graph import names
from kbert.graph.spec import GraphSpec
from kbert.io import printable
from kbert.io.atomic_write import atomic_file, check_new_file
from kbert.io.wording import check_choice
from kbert.tasks.attention import SPECIAL
from kbert.tasks.attention.head_statistics import (
    HeadStatistics,
    find_telling_head,
    head_statistics,
    index_of,
)
from kbert.tasks.common.pictures import PICTURES

PAGE, NUMBERS = ".html", ".npz"
ENDINGS = (*PICTURES, PAGE, NUMBERS)


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention probabilities of one text or pair. A notebook shows them as the page of `save`.

    Attributes:
        tokens: the S tokens, [CLS] and [SEP] included.
        weights: attention probabilities, float32 (layers, heads, S, S): how much each token (row)
            attends to each token (column); a row sums to 1.
        layers: numbers of the encoder blocks, from 1.
        heads: numbers of the attention heads, from 1.
        text: the text; a pair has " / " between its texts.
        special: indices of [CLS] and [SEP].
        segments: segment of each token: 0 for [CLS], the first text and its [SEP], 1 for the second
            text and its [SEP].
        truncated: whether the text was longer than the model can read.
        queries, keys: float32 (layers, heads, S, D), D = H/A; `weights` is the softmax of q·k/√D
            over the keys. None if they were not requested.
        spec: the graph of the model, which the page draws; None: unknown.
    """

    tokens: list[str]
    weights: np.ndarray
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    text: str = ""
    special: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()
    truncated: bool = False
    queries: np.ndarray | None = field(default=None, repr=False)
    keys: np.ndarray | None = field(default=None, repr=False)
    spec: GraphSpec | None = field(default=None, repr=False)

    def mean(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Return float32 (S, S) of one layer or head, counted from 1; None: the mean over all."""
        weights = self.weights
        if head is not None:
            weights = weights[:, [index_of(self.heads, head, "head")]]
        if layer is not None:
            weights = weights[[index_of(self.layers, layer, "layer")]]
        return weights.mean(axis=(0, 1))

    def between(
        self,
        token: int | str,
        other: int | str,
        *,
        layer: int | None = None,
        head: int | None = None,
    ) -> float:
        """Return how much `token` attends to `other`.

        A token is given by its index, or as text if it occurs once.
        """
        weights = self.mean(layer, head)
        position = self._index(token)
        other_position = self._index(other)
        return float(weights[position, other_position])

    def statistics(self) -> list[HeadStatistics]:
        """Return statistics of each head: entropy, distance, and the target of its attention.

        See `HeadStatistics` for their definitions. The rule for targets is that of Clark et al.
        2019.
        """
        return head_statistics(self.weights, self.layers, self.heads, self.special)

    def _index(self, token: int | str) -> int:
        if isinstance(token, str):
            return self._find(token)
        is_number = isinstance(token, (int, np.integer))
        if not is_number or not 0 <= token < len(self.tokens):
            raise ValueError(f"token must be a position 0 … {len(self.tokens) - 1}, got {token!r}")
        return int(token)

    def _find(self, token: str) -> int:
        """Return the index of a token that occurs once."""
        indices = [index for index, text in enumerate(self.tokens) if text == token]
        if len(indices) == 1:
            return indices[0]
        where = f"places {indices}: give the place" if indices else "none of them"
        raise ValueError(f"token must be one of {self.tokens}, got {token!r}: {where}")

    def plot(
        self,
        path: str | os.PathLike,
        *,
        layer: int | None = None,
        head: int | None = None,
        special: str = "clipped",
    ) -> Path:
        """Draw `mean(layer, head)` as a heat map: one row per attending token.

        Args:
            path: the picture's path, .png, .svg or .pdf; written atomically.
            layer, head: as for `mean`.
            special: how to show [CLS] and [SEP], which get most of the attention. "clipped": the
                colours cover the range of the other tokens' weights among themselves, and larger
                weights are grey; "hidden": only the other tokens are drawn; "whole": the colours
                cover the range up to the largest weight.

        Returns:
            The path.
        """
        from kbert.tasks.attention.heat_map import draw

        check_choice(special, SPECIAL, "special")
        path = check_new_file(path, PICTURES)
        weights = self.mean(layer, head)
        tokens = self.tokens
        plain = self._list_plain_tokens()
        plain_weights = weights[np.ix_(plain, plain)]
        top = None
        if plain and special != "whole":
            top = float(plain_weights.max())
        if plain and special == "hidden":
            weights = plain_weights
            tokens = [tokens[index] for index in plain]

        layers = self.layers if layer is None else (layer,)
        heads = self.heads if head is None else (head,)
        caption = f"{_describe_numbers('layer', layers)}, {_describe_numbers('head', heads)}"
        draw(weights, tokens, f"{self.text}\n{caption}", path, top)
        return path

    def save(
        self,
        path: str | os.PathLike,
        *,
        layer: int | None = None,
        head: int | None = None,
        special: str = "hidden",
    ) -> Path:
        """Write an interactive page of the attention, or the numbers.

        The page is that of `kbert.explore`, with the tensors that the map has. Up to 2^20 weights
        are all on the page, with a precision of 1/65,535; of more, the 16 largest per row. It has
        up to 2^20 numbers of queries and keys, or none. It says what was left out.

        Args:
            path: .html for the page; .npz for `tokens`, `weights`, `layers`, `heads`, `special`,
                `segments` and, if there are any, `queries` and `keys`, as NumPy arrays. Written
                atomically.
            layer, head: the ones that the page shows first, from 1. None: the head with the
                clearest target: the next token, the previous one or the token itself.
            special: whether the page shows [CLS] and [SEP] at first: "hidden" if not.

        Returns:
            The path.

        Raises:
            ValueError: an unknown ending; a layer or head that is not in the map; for a page, a
                weight that is not finite.
            OSError: the file cannot be written.
        """
        check_choice(special, SPECIAL, "special")
        path = check_new_file(path, (PAGE, NUMBERS))
        if path.suffix.lower() == NUMBERS:
            self._write_numbers(path)
        else:
            start = self.address(layer, head, special)
            kbert.explore(self, path, start=start)
        return path

    def _write_numbers(self, path: Path) -> None:
        arrays = {}
        always = ("tokens", "weights", "layers", "heads", "special", "segments")
        for name in (*always, "queries", "keys"):
            value = getattr(self, name)
            if value is not None:
                arrays[name] = np.asarray(value)
        with atomic_file(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def address(
        self, layer: int | None = None, head: int | None = None, special: str = "hidden"
    ) -> str:
        """Return where a page of `kbert.explore` shows a head: its address behind the #.

        With special tokens hidden, it is the row of the token that looks most at another one. The
        arguments are those of `save`.
        """
        check_choice(special, SPECIAL, "special")
        if layer is not None:
            index_of(self.layers, layer, "layer")
        if head is not None:
            index_of(self.heads, head, "head")

        candidates = []
        for statistics in self.statistics():
            if layer in (None, statistics.layer) and head in (None, statistics.head):
                candidates.append(statistics)
        shown = find_telling_head(candidates)

        address = f"{names.encoder(shown.layer, names.ATTENTION)}/head-{shown.head}"
        all_special = len(self.special) == len(self.tokens)
        if special == "hidden" and not all_special:
            token = self._find_telling_token(shown.layer, shown.head)
            address += f"&token={token}&special=hidden"
        return f"{address}&heads=all"

    def _find_telling_token(self, layer: int, head: int) -> int:
        """Return which token gives the largest weight to a token that is not special."""
        plain = self._list_plain_tokens()
        weights = self.mean(layer, head)
        plain_weights = weights[np.ix_(plain, plain)]
        largest = plain_weights.max(axis=1)
        return plain[int(largest.argmax())]

    def _list_plain_tokens(self) -> list[int]:
        """Return the indices of the tokens that are not special."""
        plain = [index for index in range(len(self.tokens)) if index not in self.special]
        return plain

    def _repr_html_(self) -> str:
        return kbert.explore(self, start=self.address())._repr_html_()

    def __repr__(self) -> str:
        tokens = printable.line(abbreviate_tokens(self.tokens))
        return f"AttentionMap({tokens}; weights {self.weights.shape})"


def _describe_numbers(name: str, numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return f"{name} {numbers[0]}"
    return f"mean of {len(numbers)} {name}s"
