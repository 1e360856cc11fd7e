"""The attention weights of one text, and statistics of each head: entropy, distance, target.

A head has a target (`LOOKS`) if on average more than half of a token's attention goes there. It is
the rule of Clark et al. 2019, "What Does BERT Look At?", section 3.1 (heads that put
more than half of their attention on the previous or the next token), here for the token itself,
[SEP] and [CLS] as well. They average over many texts, this over the tokens of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kbert.data.tokenization.encodings import abbreviate_tokens
from kbert.io import printable

LOOKS = 0.5  # of a token's attention, on average; more than that marks a head
TARGETS = ("next", "previous", "itself", "[SEP]", "[CLS]")


@dataclass(frozen=True)
class HeadStatistics:
    """The statistics of one attention head on one text.

    Attributes:
        layer: its encoder block, from 1.
        head: its number in the block, from 1.
        entropy: entropy of a token's attention, in bits, averaged over the tokens: 0 if all of it
            goes to one token, log2 S if it goes to all S tokens equally.
        distance: distance in tokens to the attended tokens, weighted by the attention and averaged
            over the tokens.
        shares: fraction of a token's attention that goes to each of `TARGETS`, from 0 to 1,
            averaged over the tokens that have that target (the last token has no next one). "[SEP]"
            is the sum over all of them.
    """

    layer: int
    head: int
    entropy: float
    distance: float
    shares: dict[str, float]

    @property
    def looks_at(self) -> tuple[str, ...]:
        """Targets with a fraction above `LOOKS`."""
        return tuple(name for name, share in self.shares.items() if share > LOOKS)


def head_statistics(
    weights: np.ndarray,
    layers: Sequence[int],
    heads: Sequence[int],
    special: Sequence[int] = (),
) -> list[HeadStatistics]:
    """Return the statistics of each head, layer by layer, over all tokens.

    Args:
        weights: float (layers, heads, S, S): rows attend to columns, and sum to 1.
        layers, heads: the numbers of those layers and heads.
        special: the indices of [CLS], which is the first token, and of [SEP].
    """
    return [
        _describe_head(layer, head, one, special)
        for layer, of_layer in zip(layers, weights, strict=True)
        for head, one in zip(heads, of_layer.astype("float64"), strict=True)
    ]


def _describe_head(
    layer: int, head: int, weights: np.ndarray, special: Sequence[int]
) -> HeadStatistics:
    bits = -np.log2(weights, where=weights > 0, out=np.zeros_like(weights))  # 0 log 0 = 0
    tokens = np.arange(len(weights))
    distances = np.abs(tokens[:, None] - tokens)
    columns = (
        np.diagonal(weights, 1),
        np.diagonal(weights, -1),
        np.diagonal(weights),
        weights[:, [token for token in special if token != 0]].sum(-1),
        weights[:, [token for token in special if token == 0]].sum(-1),
    )
    return HeadStatistics(
        layer,
        head,
        entropy=float((weights * bits).sum(-1).mean()),
        distance=float((weights * distances).sum(-1).mean()),
        shares={
            name: float(column.mean()) if column.size else 0.0
            for name, column in zip(TARGETS, columns, strict=True)
        },
    )


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
        return float(weights[self._index(token), self._index(other)])

    def statistics(self) -> list[HeadStatistics]:
        """Return statistics of each head: entropy, distance, and the target of its attention.

        See `HeadStatistics` for their definitions. The rule for targets is that of Clark et al.
        2019.
        """
        return head_statistics(self.weights, self.layers, self.heads, self.special)

    def _index(self, token: int | str) -> int:
        if isinstance(token, str):
            indices = [index for index, text in enumerate(self.tokens) if text == token]
            if len(indices) != 1:
                where = f"places {indices}: give the place" if indices else "none of them"
                raise ValueError(f"token must be one of {self.tokens}, got {token!r}: {where}")
            return indices[0]
        if not isinstance(token, (int, np.integer)) or not 0 <= token < len(self.tokens):
            raise ValueError(f"token must be a position 0 … {len(self.tokens) - 1}, got {token!r}")
        return int(token)

    def __repr__(self) -> str:
        tokens = printable.line(abbreviate_tokens(self.tokens))
        return f"{type(self).__name__}({tokens}; weights {self.weights.shape})"


def index_of(numbers: tuple[int, ...], number, name: str) -> int:
    """Return the index of a layer's or head's number; a ValueError for a number that is missing."""
    if isinstance(number, bool) or number not in numbers:
        raise ValueError(f"{name} must be one of {numbers[0]} … {numbers[-1]}, got {number!r}")
    return numbers.index(number)
