"""Packed rows hold several texts each, every text once, with its own positions."""

import numpy as np
import pytest
from helpers.errors import raises
from helpers.sizes import SIZES

from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.data.labelled.packed_batches import PackedBatches
from kbert.data.packed_batch import first_fit, pack_batch
from kbert.graph import names
from kbert.graph.names import CLASSIFIER, PACKED_FIRSTS, PACKED_POSITIONS, PACKED_TEXTS

ROW = 17
LENGTHS = [3, 11, 7, 1, 13, 5, 2, 9, 4, 6, 12, 8, 17]


def examples(count=13) -> Examples:
    random = np.random.default_rng(3)
    lengths = [LENGTHS[place % len(LENGTHS)] for place in range(count)]
    ids = [random.integers(5, SIZES["vocab_size"], n).tolist() for n in lengths]
    segments = [random.integers(0, 3, n).tolist() for n in lengths]
    return Examples(ids, segments, {CLASSIFIER: random.integers(0, 5, count).tolist()})


def batch_of(given: Examples, row=ROW, **options):
    """All examples as one packed batch."""
    batches = BucketedBatches(given, batch_size=len(given), pool=1, lengths=(19,))
    batch = batches.batch(0)
    lengths = np.count_nonzero(batch.inputs[names.TOKEN_IDS], axis=1).tolist()
    return pack_batch(batch, lengths, row, **options)


# Where texts stand.


def test_first_fit_places_each_text_once_and_whole():
    rows = first_fit([*LENGTHS, 0], ROW)
    assert sorted(text for row in rows for text in row) == list(range(len(LENGTHS)))
    assert all(sum(LENGTHS[text] for text in row) <= ROW for row in rows)
    assert len(rows) == -(-sum(LENGTHS) // ROW)  # no better is possible


def test_packed_rows_hold_the_texts_with_positions_from_zero():
    batch = batch_of(examples(), least_rows=8)
    shape = (8, ROW)
    texts, positions = batch.inputs[PACKED_TEXTS], batch.inputs[PACKED_POSITIONS]
    assert texts.shape == positions.shape == shape
    tokens, segments = (batch.inputs[name] for name in (names.TOKEN_IDS, names.SEGMENT_IDS))
    found = []
    for place, first in enumerate(batch.inputs[PACKED_FIRSTS]):
        row, start = divmod(int(first), ROW)
        mine = np.flatnonzero(texts[row] == texts[row, start])
        np.testing.assert_array_equal(positions[row, mine], np.arange(len(mine)))
        assert mine[0] == start
        alone = batch.alone.inputs[names.TOKEN_IDS][place]
        np.testing.assert_array_equal(tokens[row, mine], alone[: len(mine)])
        assert not alone[len(mine) :].any()
        alone = batch.alone.inputs[names.SEGMENT_IDS][place]
        np.testing.assert_array_equal(segments[row, mine], alone[: len(mine)])
        found.append(len(mine))
    assert sorted(found) == sorted(LENGTHS) and (texts > 0).sum() == sum(LENGTHS)
    assert not tokens[texts == 0].any()


def test_packing_refuses_what_does_not_fit():
    with raises(ValueError, "row_length", 17, 16):
        batch_of(examples(), 16)
    with raises(ValueError, "multiple of 2", 13):
        batch_of(examples(), micro_batches=2)


# Which texts an update has.


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_packed_epoch_has_each_text_once_in_even_batches(micro_batches):
    given = examples(count=311)
    options = {"batch_size": 21, "seed": 4, "pool": 5, "micro_batches": micro_batches}
    batches = PackedBatches(given, longest_row=40, **options)
    again = PackedBatches(given, longest_row=40, **options)
    orders = []
    for epoch in range(2):
        seen, totals = [], []
        for step in range(batches.steps_per_epoch):
            number = epoch * batches.steps_per_epoch + step
            batch, other = batches.batch(number), again.batch(number)
            for name, array in batch.inputs.items():
                np.testing.assert_array_equal(array, other.inputs[name])
            assert len(batch) == 21
            real = batch.weights[CLASSIFIER] > 0
            assert batch.weights[CLASSIFIER].sum() == pytest.approx(1)
            seen += [tuple(row[row > 0]) for row in batch.alone.inputs[names.TOKEN_IDS][real]]
            totals.append((batch.inputs[PACKED_TEXTS] > 0).sum())
            rows = batch.inputs[names.TOKEN_IDS].shape
            assert rows == batches.shapes_in(epoch)[step]
        assert sorted(seen) == sorted(map(tuple, given.ids))
        assert np.std(totals) < 0.1 * np.mean(totals)  # of a random draw 0.14
        orders.append(seen)
    assert orders[0] != orders[1]
    assert batches.fingerprint == again.fingerprint


def test_row_length_wastes_least_padding():
    ids = [[1] * size for size in (20, 12, 20, 12, 20, 12)]
    given = Examples(ids, ids, {CLASSIFIER: [0] * 6})
    batches = PackedBatches(given, batch_size=2, longest_row=64)
    assert batches.row_length == 32 and set(batches.shapes_in(0)) == {(1, 32)}
    assert PackedBatches(given, batch_size=2, longest_row=31).row_length == 24
    assert PackedBatches(given, batch_size=2, longest_row=22).row_length == 20
    assert PackedBatches(given, batch_size=2, row_length=55).row_length == 55


# What the engines make of them: see on_each_backend/test_packed_rows.py.
