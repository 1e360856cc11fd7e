"""Sequences of any lengths as arrays: batches of like lengths, in few static shapes; windows."""

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # where each is compiled for, once
FINE = 4  # tokens between two lengths, where none is


def batches_by_length(
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int,
    *,
    pad_id: int,
    length_for: Callable[[int], int],
    count_for: Callable[[int], int],
    longest_first: bool = False,
) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Yield rows sorted by length, in padded batches.

    Args:
        rows: token ids and segment ids, as long as each other.
        batch_size: rows of a batch at most.
        pad_id: the padding token.
        length_for: how long a batch is to be whose longest row has so many tokens.
        count_for: how many rows one is to have that has so many: its last is repeated.
        longest_first: or the shortest first.

    Yields:
        The places of a batch's rows, and int32 (B, S) token ids and segment ids.
    """
    order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]), reverse=longest_first)
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        length = length_for(max(len(rows[place][0]) for place in places))
        whole = places + places[-1:] * (count_for(len(places)) - len(places))
        ids, segment_ids = zip(*(rows[place] for place in whole), strict=True)
        yield places, pad_sequences(ids, length, pad_id), pad_sequences(segment_ids, length, 0)


def pad_sequences(rows: Sequence[Sequence[int]], length: int, fill: int) -> np.ndarray:
    """Return rows of whole numbers as one int32 array (rows, length), filled up behind."""
    array = np.full((len(rows), length), fill, np.int32)
    for place, row in enumerate(rows):
        array[place, : len(row)] = row
    return array


def fitting_lengths(lengths: Sequence[int], longest: int) -> tuple[int, ...]:
    """Return the lengths that are needed: up to the first that holds the longest example."""
    if longest > lengths[-1]:
        raise ValueError(f"an example must have at most {lengths[-1]} tokens, got {longest}")
    return tuple(lengths[: bisect.bisect_left(lengths, longest) + 1])


def pick_length(lengths: Sequence[int], tokens: int) -> int:
    """Return the first of ascending lengths that holds so many tokens."""
    return lengths[bisect.bisect_left(lengths, tokens)]


def cheapest_lengths(needed: Mapping[int, int], shape_cost: float) -> tuple[int, ...]:
    """Return the lengths with which a run takes least time: less padding, or fewer shapes to trace.

    Args:
        needed: how many batches need a length, by that length.
        shape_cost: what each length costs once, in the time of a batch of the mean length.

    Returns:
        Some of `needed`'s, ascending, the longest among them.
    """
    lengths = sorted(needed)
    mean = sum(length * count for length, count in needed.items()) / sum(needed.values())
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]  # of the first so many lengths
    for longest in lengths:
        options, padding = [], 0.0
        for first in range(len(best) - 1, -1, -1):  # the shortest that is padded to the longest
            padding += needed[lengths[first]] * (longest - lengths[first]) / mean
            before, chosen = best[first]
            options.append((before + padding + shape_cost, (*chosen, longest)))
        best.append(min(options))
    return best[-1][1]


def lengths_up_to(limit: int, compiled: bool = True) -> tuple[int, ...]:
    """Return the allowed lengths of batches: few if each one is compiled, else many."""
    lengths = LENGTHS if compiled else range(FINE, limit, FINE)
    return (*(length for length in lengths if length < limit), limit)


def windows(tokens: int, width: int, overlap: int) -> list[tuple[int, int]]:
    """Return (start, end) of windows of `width` tokens, each `overlap` tokens into the one before.

    The last one ends with the tokens and is as wide as the others: it may overlap more.

    Args:
        tokens: how many there are; no more than `width`: one window.
        width: tokens of a window, at least 1.
        overlap: less than `width`.
    """
    last = max(tokens - width, 0)
    starts = [*range(0, last, width - overlap), last]
    return [(start, min(start + width, tokens)) for start in starts]
