"""Statistics of attention heads on one text: entropy, distance, target.

A head has a target (`LOOKS`) if on average more than half of a token's attention goes there. It is
the rule of Clark et al. 2019, "What Does BERT Look At?", section 3.1 (heads that put
more than half of their attention on the previous or the next token), here for the token itself,
[SEP] and [CLS] as well. They average over many texts, this over the tokens of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LOOKS = 0.5  # of a token's attention, on average; more than that marks a head
TARGETS = ("next", "previous", "itself", "[SEP]", "[CLS]")
_NEAR = TARGETS[:3]


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
    """Return the statistics of each head, layer by layer; weights are float (layers, heads, S, S).

    `special` has the indices of [CLS], which is the first token, and of [SEP].
    """
    results = []
    for layer, layer_weights in zip(layers, weights, strict=True):
        for head, probs in zip(heads, layer_weights.astype("float64"), strict=True):
            results.append(_describe_head(layer, head, probs, special))
    return results


def _describe_head(
    layer: int, head: int, probs: np.ndarray, special: Sequence[int]
) -> HeadStatistics:
    """Return the statistics of a head's attention probabilities, float64 (S, S)."""
    tokens = np.arange(len(probs))
    distances = np.abs(tokens[:, None] - tokens)
    logarithms = np.zeros_like(probs)  # 0 log 0 = 0
    np.log2(probs, where=probs > 0, out=logarithms)

    separators = [token for token in special if token != 0]
    classes = [token for token in special if token == 0]
    attention_by_target = {
        "next": np.diagonal(probs, 1),
        "previous": np.diagonal(probs, -1),
        "itself": np.diagonal(probs),
        "[SEP]": probs[:, separators].sum(-1),
        "[CLS]": probs[:, classes].sum(-1),
    }
    shares = {}
    for name, values in attention_by_target.items():
        shares[name] = float(values.mean()) if values.size else 0.0

    entropies = (probs * -logarithms).sum(-1)
    mean_distances = (probs * distances).sum(-1)
    entropy = float(entropies.mean())
    distance = float(mean_distances.mean())
    return HeadStatistics(layer, head, entropy, distance, shares)


def find_telling_head(statistics: Sequence[HeadStatistics]) -> HeadStatistics:
    """Return the head with the clearest target: the next or previous token, or the token itself.

    Heads whose target is [SEP] or [CLS], as of many, come last. It is the rule of
    `page/stage/head_kinds.js`.
    """
    return max(statistics, key=_measure_clarity)


def _measure_clarity(head: HeadStatistics) -> float:
    """Return the largest share of a near target: 1 more for a clear one, 1 less for a far one."""
    target = max(TARGETS, key=lambda name: head.shares[name])
    share = max(head.shares[name] for name in _NEAR)
    if head.shares[target] <= LOOKS:
        return share
    return share + 1 if target in _NEAR else share - 1


def index_of(numbers: tuple[int, ...], number, name: str) -> int:
    """Return the index of a layer's or head's number; a ValueError for a number that is missing."""
    if isinstance(number, bool) or number not in numbers:
        raise ValueError(f"{name} must be one of {numbers[0]} … {numbers[-1]}, got {number!r}")
    return numbers.index(number)
