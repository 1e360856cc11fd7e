"""Entropy, distance and patterns of heads: of maps whose figures are known, and by the rule."""

import numpy as np
import pytest
from helpers.attention_maps import random_map

from kbert.tasks.attention.head_statistics import TARGETS, head_statistics

SIZE = 7


def shifted(by: int) -> np.ndarray:
    """Every token attends to the one that is so far away; those that have none, to themselves."""
    to = np.arange(SIZE) + by
    return np.eye(SIZE)[np.where((to < 0) | (to >= SIZE), np.arange(SIZE), to)]


def to_column(*columns: int) -> np.ndarray:
    return np.tile(np.isin(np.arange(SIZE), columns) / len(columns), (SIZE, 1))


def figures_of(weights: np.ndarray, special=(0, 3, 6)):
    (found,) = head_statistics(weights[None, None], (4,), (2,), special)
    return found


@pytest.mark.parametrize(
    ("weights", "entropy", "distance", "looks_at"),
    [
        (shifted(1), 0, 6 / 7, ("next",)),
        (shifted(-1), 0, 6 / 7, ("previous",)),
        (np.eye(SIZE), 0, 0, ("itself",)),
        # |i − 3| and |i − 6| over i = 0 … 6: 12 and 21 in all
        (to_column(3, 6), 1, (12 + 21) / 2 / 7, ("[SEP]",)),
        (to_column(0), 0, 3, ("[CLS]",)),
        # the mean of |i − j| over all pairs is (S² − 1) / 3S
        (np.full((SIZE, SIZE), 1 / SIZE), np.log2(SIZE), 48 / 21, ()),
    ],
)
def test_statistics_of_simple_maps_by_hand(weights, entropy, distance, looks_at):
    found = figures_of(weights)
    assert (found.layer, found.head) == (4, 2)
    assert found.entropy == pytest.approx(entropy)
    assert found.distance == pytest.approx(distance)
    assert found.looks_at == looks_at


@pytest.mark.parametrize(("share", "marked"), [(0.5, ()), (0.51, ("next",))])
def test_head_is_marked_above_half_of_the_weight(share, marked):
    """Rows without a next token do not count."""
    weights = share * shifted(1) + (1 - share) * to_column(2, 4)
    weights[2, 3], weights[2, [2, 4]] = share, (1 - share) / 2
    # the token before 2 and 4 has more of its next: take that away
    for row, column in ((1, 2), (3, 4)):
        weights[row] = (1 - share) / 2 * np.isin(np.arange(SIZE), (5, 6))
        weights[row, column] = share
    found = figures_of(weights, ())
    assert found.shares["next"] == pytest.approx(share)
    assert found.looks_at == marked


def test_without_cls_and_sep_nothing_goes_there():
    found = figures_of(to_column(0), ())
    assert found.shares["[CLS]"] == found.shares["[SEP]"] == 0 and found.looks_at == ()


def test_a_single_token_has_no_neighbour():
    (found,) = head_statistics(np.ones((1, 1, 1, 1)), (1,), (1,), (0,))
    assert list(found.shares) == list(TARGETS)
    assert found.looks_at == ("itself", "[CLS]")
    assert (found.entropy, found.distance) == (0, 0)


def test_each_head_has_its_own_layer_by_layer():
    found = random_map()
    figures = found.statistics()
    places = [(one.layer, one.head) for one in figures]
    assert places == [(layer, head) for layer in (2, 3) for head in (1, 2, 5)]
    one = found.weights[1, 2].astype("float64")
    by_hand = -sum(w * np.log2(w) for w in one.flat if w) / len(one)
    assert figures[5].entropy == pytest.approx(by_hand)
