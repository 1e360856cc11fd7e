"""Random numbers as a hash of (seed, epoch, example, purpose, …), without a generator's state.

So any example of any epoch can be made by itself, on any host and after any restart, and a whole
batch at once. The hash is splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom
number generators"): number c of the stream that a key starts.
"""

import numpy as np

_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def key_of(*numbers: int) -> np.ndarray:
    """Return one key, uint64 (1,), for some whole numbers such as (seed, epoch)."""
    key = np.zeros(1, np.uint64)
    for number in numbers:
        counter = np.array([number % 2**64], np.uint64)
        key = fork(key, counter)
    return key


def fork(keys: np.ndarray, counters) -> np.ndarray:
    """Return a key for each key and counter, uint64, broadcast."""
    counters = np.atleast_1d(counters).astype(np.uint64)  # a scalar's overflow would warn
    mixed = keys + (counters + np.uint64(1)) * np.uint64(_STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


def uniform(keys: np.ndarray, purpose: int) -> np.ndarray:
    """Return a float64 of [0, 1) for each key."""
    bits = fork(keys, purpose) >> np.uint64(11)
    return bits * 2.0**-53


def below(keys: np.ndarray, purpose: int, bound) -> np.ndarray:
    """Return an int64 of 0 … bound − 1 for each key, uniform up to bound/2⁵³."""
    return (uniform(keys, purpose) * bound).astype(np.int64)


def heads(keys: np.ndarray, purpose: int, coins: np.ndarray) -> np.ndarray:
    """Return how many of `coins` fair coins fall heads, for each key, int64."""
    counts = -(-coins // 64)  # of random uint64
    firsts = np.cumsum(counts) - counts
    key = np.repeat(np.arange(len(coins)), counts)
    first_of_key = np.repeat(firsts, counts)
    number = np.arange(len(key)) - first_of_key

    purpose_keys = fork(keys, purpose)
    bits = fork(purpose_keys[key], number)
    left = coins[key] - 64 * number
    unused = 64 - np.minimum(left, 64)
    bits >>= unused.astype(np.uint64)

    octets = bits.view(np.uint8).reshape(-1, 8)
    set_bits = np.unpackbits(octets, axis=1)
    heads_per_number = set_bits.sum(1)
    totals = np.bincount(key, weights=heads_per_number, minlength=len(coins))
    return totals.astype(np.int64)
