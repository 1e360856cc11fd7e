"""Choice of the predicted tokens, and of their replacements (BERT paper, section 3.1).

google-research/bert, create_pretraining_data.py: round(15 %) of the tokens, [CLS] and [SEP] counted
but never chosen; of these 80 % become [MASK], 10 % a random token, 10 % stay.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from kbert.data.counter_rng import below, fork, uniform

_CHOICE, _KIND, _TOKEN, _WORD = range(101, 105)
_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Examples:
    """Examples as slices of the shards' tokens: each array has an entry per example."""

    keys: np.ndarray  # uint64, of the random numbers

    def part(self, part: slice) -> Self:
        """Return some of the examples."""
        return replace(self, **{name: array[part] for name, array in self.arrays().items()})

    def join(self, others: list[Self]) -> Self:
        """Return these examples, then the others."""
        groups = [group.arrays() for group in (self, *others)]
        joined = {name: np.concatenate([group[name] for group in groups]) for name in groups[0]}
        return replace(self, **joined)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by their names."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}


@dataclass(frozen=True)
class Filled:
    """Examples of a batch, filled with tokens, before any is masked; arrays are (B, S)."""

    ids: np.ndarray  # int32, padded
    segments: np.ndarray  # int32
    maskable: np.ndarray  # bool: the tokens of the text; not [CLS], [SEP], padding
    first: np.ndarray  # bool: where a segment begins, so that no word goes on from the one before


def choose_tokens(keys: np.ndarray, filled: Filled, counts: np.ndarray) -> np.ndarray:
    """So many tokens of each example, at random: bool (B, S)."""
    index = np.arange(filled.ids.shape[1])
    scores = fork(fork(keys, _CHOICE)[:, None], index)
    scores[~filled.maskable] = _LAST
    order = np.argsort(scores, axis=1, kind="stable")[:, : int(counts.max(initial=0))]
    chosen = np.zeros(filled.ids.shape, bool)
    np.put_along_axis(chosen, order, index[: order.shape[1]] < counts[:, None], axis=1)
    return chosen


def choose_whole_words(
    keys: np.ndarray, filled: Filled, counts, continues: np.ndarray
) -> np.ndarray:
    """Whole words of each example, at random, of so many tokens at most: bool (B, S).

    As Google's: words in random order; one that would be too much is left out, the next is tried.
    `continues` is bool (vocabulary,): the tokens that go on with a word, ##ing.
    """
    begins = filled.maskable & (~continues[filled.ids] | filled.first)
    word = np.where(filled.maskable, np.cumsum(begins, axis=1) - 1, -1)  # (B, S)
    examples, longest = len(keys), int(word.max(initial=-1)) + 1
    sizes = np.zeros((examples, longest), np.int64)
    row = np.broadcast_to(np.arange(examples)[:, None], word.shape)
    np.add.at(sizes, (row[filled.maskable], word[filled.maskable]), 1)
    scores = fork(fork(keys, _WORD)[:, None], np.arange(longest))
    scores[sizes == 0] = _LAST
    order = np.argsort(scores, axis=1, kind="stable")
    sizes = np.take_along_axis(sizes, order, axis=1)
    taken, left = np.zeros((examples, longest), bool), counts.copy()
    for rank in range(longest):
        if not left.any():
            break
        size = sizes[:, rank]
        taken[:, rank] = fits = (size > 0) & (size <= left)
        left -= size * fits
    by_word = np.zeros((examples, longest), bool)
    np.put_along_axis(by_word, order, taken, axis=1)
    return filled.maskable & np.take_along_axis(by_word, np.maximum(word, 0), axis=1)


def positions_of(chosen: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the chosen tokens, in order: int32 (B, width), 0 where there is none, and bool."""
    row, index = np.nonzero(chosen)
    counts = chosen.sum(1)
    number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    positions = np.zeros((len(chosen), width), np.int32)
    positions[row, number] = index
    return positions, np.arange(width) < counts[:, None]


def mask_tokens(keys, ids, chosen, mask_id: int, ordinary: np.ndarray) -> np.ndarray:
    """Replace most of the chosen ids by [MASK] or by a random one of the `ordinary` ids."""
    row, index = np.nonzero(chosen)
    own = fork(fork(keys, _KIND)[row], index)
    kind = uniform(own, _KIND)
    random = ordinary[below(own, _TOKEN, len(ordinary))]
    ids = ids.copy()
    ids[row, index] = np.select([kind < 0.8, kind < 0.9], [mask_id, ids[row, index]], random)
    return ids
