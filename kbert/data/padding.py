"""Padding: batches of similar lengths in few static shapes, and windows of long texts."""

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # of batches, if each is compiled
FINE = 4  # tokens between two lengths, if nothing is compiled


def batches_by_length(
    examples: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int,
    *,
    pad_id: int,
    length_for: Callable[[int], int],
    count_for: Callable[[int], int],
    longest_first: bool = False,
) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Yield examples sorted by length, in padded batches: indices, token ids, segment ids.

    The ids are int32 (B, S). `examples` are the token ids and segment ids of each. `length_for`
    returns a batch's length, given its longest example's, and `count_for` its number of examples,
    given how many there are: the last one is repeated.
    """
    lengths = [len(ids) for ids, _ in examples]
    numbers = range(len(examples))
    order = sorted(numbers, key=lengths.__getitem__, reverse=longest_first)
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        longest = max(lengths[index] for index in indices)
        length = length_for(longest)
        missing = count_for(len(indices)) - len(indices)
        whole = indices + indices[-1:] * missing

        ids = [examples[index][0] for index in whole]
        segment_ids = [examples[index][1] for index in whole]
        padded_ids = pad_sequences(ids, length, pad_id)
        padded_segment_ids = pad_sequences(segment_ids, length, 0)
        yield indices, padded_ids, padded_segment_ids


def pad_sequences(sequences: Sequence[Sequence[int]], length: int, fill: int) -> np.ndarray:
    """Return sequences of whole numbers as int32 (sequences, length), padded at the end."""
    shape = len(sequences), length
    array = np.full(shape, fill, np.int32)
    for index, sequence in enumerate(sequences):
        array[index, : len(sequence)] = sequence
    return array


def fitting_lengths(lengths: Sequence[int], longest: int) -> tuple[int, ...]:
    """Return the lengths up to the first that holds the longest example."""
    if longest > lengths[-1]:
        raise ValueError(f"an example must have at most {lengths[-1]} tokens, got {longest}")
    last = bisect.bisect_left(lengths, longest)
    return tuple(lengths[: last + 1])


def pick_length(lengths: Sequence[int], tokens: int) -> int:
    """Return the first of ascending lengths that holds so many tokens."""
    index = bisect.bisect_left(lengths, tokens)
    return lengths[index]


def cheapest_lengths(needed: Mapping[int, int], shape_cost: float) -> tuple[int, ...]:
    """Return the lengths that minimize the cost of padding and of tracing each shape, ascending.

    They are some of the keys of `needed`, which has the number of batches by the length that they
    need. `shape_cost` is what each length costs once, in the time of a batch of the mean length.
    """
    lengths = sorted(needed)
    batches = sum(needed.values())
    total = sum(length * count for length, count in needed.items())
    mean = total / batches
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]  # of the first n lengths
    for longest in lengths:
        options = []
        padding = 0.0
        for first in range(len(best) - 1, -1, -1):  # the shortest that is padded to the longest
            shortest = lengths[first]
            padding += needed[shortest] * (longest - shortest) / mean
            before, chosen = best[first]
            cost = before + padding + shape_cost
            options.append((cost, (*chosen, longest)))
        best.append(min(options))

    _, chosen = best[-1]
    return chosen


def lengths_up_to(limit: int, compiled: bool = True) -> tuple[int, ...]:
    """Return the allowed lengths of batches: few if each one is compiled, else many."""
    allowed = LENGTHS if compiled else range(FINE, limit, FINE)
    shorter = [length for length in allowed if length < limit]
    return (*shorter, limit)


def windows(tokens: int, width: int, overlap: int) -> list[tuple[int, int]]:
    """Return (start, end) of windows of `width` tokens that overlap by `overlap` < `width`.

    The last one ends with the tokens and has the full width, so it may overlap more.
    """
    last = max(tokens - width, 0)
    starts = [*range(0, last, width - overlap), last]
    spans = []
    for start in starts:
        end = min(start + width, tokens)
        spans.append((start, end))
    return spans
