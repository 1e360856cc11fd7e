"""Examples are Google's: statistics beside the recipe written anew, on WikiText-2."""

import itertools

import numpy as np
import pytest
from helpers import google_recipe
from helpers.corpora import wikitext_shards

from kbert.data.pretraining.pairs import Pairs, truncate_pair

SEQ_LEN = 61


def within(hits: int, trials: int, share: float, sigmas: float = 5.0) -> bool:
    """Whether a count fits a binomial distribution."""
    return abs(hits - trials * share) < sigmas * (trials * share * (1 - share)) ** 0.5


def epochs(pairs: Pairs, count: int):
    """The rows of some epochs, joined, and the first sentences."""
    plans = [pairs.plan(epoch) for epoch in range(count)]
    rows = [pairs.select(epoch, plan) for epoch, plan in enumerate(plans)]
    return rows[0].join(rows[1:]), np.concatenate(plans)


@pytest.fixture(scope="module")
def shards():
    return wikitext_shards()


@pytest.fixture(scope="module")
def many(shards):
    """Twelve epochs of examples: more than 100,000."""
    return epochs(Pairs(shards, SEQ_LEN, 0.1, seed=3), 12)


@pytest.fixture(scope="module")
def googles(shards):
    """As many passes of Google's recipe: columns a, b, is_random, target."""
    lengths = np.diff(shards.offsets)
    documents = [
        lengths[start:end].tolist() for start, end in zip(shards.starts, shards.ends, strict=True)
    ]
    passes = (google_recipe.examples(documents, SEQ_LEN, 0.1, seed) for seed in range(12))
    return np.array(list(itertools.chain.from_iterable(passes)))


@pytest.mark.full
def test_example_counts_and_lengths_are_googles(many, googles):
    rows, _ = many
    ours = np.stack([rows.a_length, rows.b_length, rows.is_random], axis=1)
    assert len(ours) == pytest.approx(len(googles), rel=0.01)
    for column in range(3):
        mine, theirs = ours[:, column], googles[:, column]
        error = (mine.var() / len(mine) + theirs.var() / len(theirs)) ** 0.5
        assert abs(mine.mean() - theirs.mean()) < 5 * error, column
    totals = rows.a_length + rows.b_length
    theirs = googles[:, 0] + googles[:, 1]
    for length in (17, 25, 34, 45, 57):  # the distributions, at five places
        share = (theirs <= length).mean()
        assert within((totals <= length).sum(), len(totals), share, 6), length
    assert totals.max() == theirs.max() == SEQ_LEN - 3 and totals.min() >= 2


def test_half_of_the_pairs_have_the_true_next_sentence(shards):
    rows, first = epochs(Pairs(shards, SEQ_LEN, 0.0, seed=3), 6)
    too_long = np.diff(shards.offsets)[first] >= SEQ_LEN - 3
    single = too_long | np.isin(first + 1, shards.ends)  # nothing is left for a B that follows
    assert single.sum() > 1000 and (~single).sum() > 10_000
    assert rows.is_random[single].all()
    assert within(rows.is_random[~single].sum(), (~single).sum(), 0.5)


def test_random_b_is_from_another_document(many, shards):
    rows, first = many
    document = np.searchsorted(shards.starts, first, "right") - 1
    sentence = np.searchsorted(shards.offsets, rows.b_start, "right") - 1
    of_b = np.searchsorted(shards.starts, sentence, "right") - 1
    assert (of_b[rows.is_random] != document[rows.is_random]).all()
    assert (of_b[~rows.is_random] == document[~rows.is_random]).all()
    last = np.searchsorted(shards.offsets, rows.b_start + rows.b_length - 1, "right") - 1
    assert (np.searchsorted(shards.starts, last, "right") - 1 == of_b).all()


def test_documents_of_random_b_are_uniform(many, shards):
    rows, first = many
    sentence = np.searchsorted(shards.offsets, rows.b_start[rows.is_random], "right") - 1
    counts = np.bincount(
        np.searchsorted(shards.starts, sentence, "right") - 1, minlength=shards.documents
    )
    document = np.searchsorted(shards.starts, first[rows.is_random], "right") - 1
    own = np.bincount(document, minlength=shards.documents)
    expected = (own.sum() - own) / (shards.documents - 1)
    assert (np.abs(counts - expected) < 5.5 * expected**0.5).all()


def test_every_sentence_is_walked_once_an_epoch(shards):
    pairs = Pairs(shards, 301, 0.1, seed=5)
    first = np.sort(pairs.plan(2))
    assert len(np.unique(first)) == len(first)
    assert np.isin(shards.starts, first).all()
    rows = pairs.select(2, first)
    offsets = shards.offsets
    here, following = offsets[first], offsets[np.append(first[1:], shards.ends[-1])]
    whole = rows.lengths < 301  # nothing is cut off
    assert whole.sum() > 300
    assert (rows.a_start[whole] == here[whole]).all()
    true, other = whole & ~rows.is_random, whole & rows.is_random
    a_end = rows.a_start + rows.a_length
    assert (a_end[other] == following[other]).all()
    assert (a_end[true] == rows.b_start[true]).all()
    assert ((rows.b_start + rows.b_length)[true] == following[true]).all()
    assert (rows.a_start >= here).all() and (a_end <= following).all()


def test_truncation_cuts_front_and_back_equally(shards):
    pairs = Pairs(shards, 21, 0.0, seed=7)
    first = np.concatenate([pairs.plan(0)])
    rows = pairs.select(0, first)
    offsets = shards.offsets
    cut = rows.is_random & (
        rows.a_length == 9
    )  # both were longer, A is what remains of one or more
    front = (rows.a_start - offsets[first])[cut]
    end = np.searchsorted(offsets, rows.a_start + rows.a_length, "left")
    back = (offsets[end] - rows.a_start - rows.a_length)[cut]
    single = np.diff(offsets)[first[cut]] == front + back + 9  # A was one sentence
    front, back = front[single], back[single]
    assert len(front) > 500 and (front > 0).any() and (back > 0).any()
    assert within(front.sum(), (front + back).sum(), 0.5)
    assert within((front[front + back == 1]).sum(), (front + back == 1).sum(), 0.5)


def test_lengths_after_truncation_are_googles():
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(1, 23), np.arange(1, 23)))
    for room in (5, 6, 13, 20):
        ours = np.stack(truncate_pair(a, b, room), axis=1)
        theirs = [google_recipe.cut(*pair, room) for pair in zip(a, b, strict=True)]
        assert (ours == theirs).all()


def test_long_documents_in_parts_have_the_same_statistics(shards, monkeypatch):
    import kbert.data.pretraining.pairs as module

    whole = len(Pairs(shards, SEQ_LEN, 0.1, 0).plan(0))
    monkeypatch.setattr(module, "PART", 37)
    pairs = Pairs(shards, SEQ_LEN, 0.1, 0)
    first = np.sort(pairs.plan(0))
    assert whole < len(first) < 1.1 * whole  # a cut example a part more
    rows = pairs.select(0, first)
    document = np.searchsorted(shards.starts, first, "right") - 1
    sentence = np.searchsorted(shards.offsets, rows.b_start, "right") - 1
    other = np.searchsorted(shards.starts, sentence, "right") - 1
    assert (other != document)[rows.is_random].all()
