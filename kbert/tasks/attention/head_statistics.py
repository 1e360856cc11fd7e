"""Statistics of an attention head: how spread its attention is, how far it reaches, and its target.

`LOOKS` is the rule by which a head is marked: on average more than half of a token's attention goes
there. It is the rule of Clark et al. 2019, "What Does BERT Look At?", section 3.1 (heads that put
more than half of their attention on the previous or the next token), here for the token itself,
[SEP] and [CLS] as well. They average over many texts, this over the tokens of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    """Return the figures of each head, layer by layer; all tokens count, [CLS] and [SEP] too.

    Args:
        weights: float (layers, heads, S, S): rows attend to columns, and sum to 1.
        layers, heads: the numbers of those layers and heads.
        special: the places of [CLS], which is the first token, and of [SEP].
    """
    return [
        HeadStatistics(layer, head, *_spread(one), _shares(one, special))
        for layer, of_layer in zip(layers, weights, strict=True)
        for head, one in zip(heads, of_layer.astype("float64"), strict=True)
    ]


def _spread(weights: np.ndarray) -> tuple[float, float]:
    """Mean entropy in bits and mean distance in tokens, of (S, S)."""
    bits = -np.log2(weights, where=weights > 0, out=np.zeros_like(weights))  # 0 log 0 = 0
    places = np.arange(len(weights))
    distances = np.abs(places[:, None] - places)
    entropy, distance = ((weights * what).sum(-1).mean() for what in (bits, distances))
    return float(entropy), float(distance)


def _shares(weights: np.ndarray, special: Sequence[int]) -> dict[str, float]:
    first = [place for place in special if place == 0]
    others = [place for place in special if place != 0]
    found = (
        np.diagonal(weights, 1),
        np.diagonal(weights, -1),
        np.diagonal(weights),
        weights[:, others].sum(-1),
        weights[:, first].sum(-1),
    )
    return {
        name: float(each.mean()) if each.size else 0.0
        for name, each in zip(TARGETS, found, strict=True)
    }
