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
        selected = {}
        for name, array in self.arrays().items():
            selected[name] = array[part]
        return replace(self, **selected)

    def join(self, others: list[Self]) -> Self:
        """Return these examples, then the others."""
        groups = [group.arrays() for group in (self, *others)]
        joined = {}
        for name in groups[0]:
            arrays = [group[name] for group in groups]
            joined[name] = np.concatenate(arrays)
        return replace(self, **joined)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by their names."""
        arrays = {}
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                arrays[name] = value
        return arrays


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
    example_keys = fork(keys, _CHOICE)
    scores = fork(example_keys[:, None], index)
    scores[~filled.maskable] = _LAST
    most = int(counts.max(initial=0))
    order = np.argsort(scores, axis=1, kind="stable")
    order = order[:, :most]

    is_chosen = index[: order.shape[1]] < counts[:, None]
    chosen = np.zeros(filled.ids.shape, bool)
    np.put_along_axis(chosen, order, is_chosen, axis=1)
    return chosen


def choose_whole_words(
    keys: np.ndarray, filled: Filled, counts, continues: np.ndarray
) -> np.ndarray:
    """Whole words of each example, at random, of so many tokens at most: bool (B, S).

    As Google's: words in random order; one that would be too much is left out, the next is tried.
    `continues` is bool (vocabulary,): the tokens that go on with a word, ##ing.
    """
    word, sizes = _find_words(filled, continues)
    most_words = sizes.shape[1]

    example_keys = fork(keys, _WORD)
    scores = fork(example_keys[:, None], np.arange(most_words))
    scores[sizes == 0] = _LAST
    order = np.argsort(scores, axis=1, kind="stable")
    ordered_sizes = np.take_along_axis(sizes, order, axis=1)
    taken = _take_fitting(ordered_sizes, counts)

    is_chosen = np.zeros(sizes.shape, bool)  # by word
    np.put_along_axis(is_chosen, order, taken, axis=1)
    existing = np.maximum(word, 0)
    by_token = np.take_along_axis(is_chosen, existing, axis=1)
    return filled.maskable & by_token


def _find_words(filled: Filled, continues: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each token's word, (B, S), −1 without any; and the words' tokens."""
    maskable = filled.maskable
    is_new = ~continues[filled.ids] | filled.first
    number = np.cumsum(maskable & is_new, axis=1) - 1
    word = np.where(maskable, number, -1)

    most_words = int(word.max(initial=-1)) + 1
    sizes = np.zeros((len(word), most_words), np.int64)
    row, _ = np.nonzero(maskable)
    pairs = (row, word[maskable])
    np.add.at(sizes, pairs, 1)
    return word, sizes


def _take_fitting(sizes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Take words in order, (B, words), each that fits what is left of `counts`, (B,): bool."""
    taken = np.zeros(sizes.shape, bool)
    left = counts.copy()
    for rank in range(sizes.shape[1]):
        if not left.any():
            break
        size = sizes[:, rank]
        fits = (size > 0) & (size <= left)
        taken[:, rank] = fits
        left -= size * fits
    return taken


def positions_of(chosen: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the chosen tokens, in order: int32 (B, width), 0 where there is none, and bool."""
    row, index = np.nonzero(chosen)
    counts = chosen.sum(1)
    firsts = np.cumsum(counts) - counts
    first_of_row = np.repeat(firsts, counts)
    number = np.arange(len(row)) - first_of_row

    positions = np.zeros((len(chosen), width), np.int32)
    positions[row, number] = index
    is_position = np.arange(width) < counts[:, None]
    return positions, is_position


def mask_tokens(keys, ids, chosen, mask_id: int, ordinary: np.ndarray) -> np.ndarray:
    """Replace most of the chosen ids by [MASK] or by a random one of the `ordinary` ids."""
    row, index = np.nonzero(chosen)
    token_keys = fork(fork(keys, _KIND)[row], index)
    kind = uniform(token_keys, _KIND)
    random = ordinary[below(token_keys, _TOKEN, len(ordinary))]

    ids = ids.copy()
    same = ids[row, index]
    becomes_mask = kind < 0.8
    stays = kind < 0.9
    ids[row, index] = np.select([becomes_mask, stays], [mask_id, same], random)
    return ids
