"""The attention weights of one text, as numbers."""

from dataclasses import dataclass, field

import numpy as np

from kbert.data.tokenization.encodings import shortened
from kbert.io import printable
from kbert.tasks.attention.head_statistics import HeadStatistics, head_statistics


@dataclass(frozen=True, eq=False)
class AttentionData:
    """The attention probabilities of one text or pair.

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

    def mean(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Return float32 (S, S) of one layer or head, counted from 1; None: the mean over all."""
        weights = self.weights
        if head is not None:
            weights = weights[:, [place_of(self.heads, head, "head")]]
        if layer is not None:
            weights = weights[[place_of(self.layers, layer, "layer")]]
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
        return float(weights[self._token(token), self._token(other)])

    def statistics(self) -> list[HeadStatistics]:
        """Return statistics of each head: entropy, distance, and the target of its attention.

        See `kbert.tasks.attention.head_statistics` for their definitions, and for the rule, that of
        Clark et al. 2019.
        """
        return head_statistics(self.weights, self.layers, self.heads, self.special)

    def _token(self, token: int | str) -> int:
        if isinstance(token, str):
            places = [place for place, text in enumerate(self.tokens) if text == token]
            if len(places) != 1:
                where = f"places {places}: give the place" if places else "none of them"
                raise ValueError(f"token must be one of {self.tokens}, got {token!r}: {where}")
            return places[0]
        if not isinstance(token, (int, np.integer)) or not 0 <= token < len(self.tokens):
            raise ValueError(f"token must be a position 0 … {len(self.tokens) - 1}, got {token!r}")
        return int(token)

    def __repr__(self) -> str:
        tokens = printable.line(shortened(self.tokens))
        return f"{type(self).__name__}({tokens}; weights {self.weights.shape})"


def place_of(numbers: tuple[int, ...], asked, name: str) -> int:
    """Return the place of a layer or head among those that there are; a ValueError for another."""
    if isinstance(asked, bool) or asked not in numbers:
        raise ValueError(f"{name} must be one of {numbers[0]} … {numbers[-1]}, got {asked!r}")
    return numbers.index(asked)
