"""Batches for pretraining: masks, structure, and that a batch depends on nothing but its number."""

import random

import numpy as np
import pytest
from helpers import google_recipe
from helpers.corpora import folders, wikitext_shards
from test_data_pairs import within

from kbert.data.corpus.shards import open_shards
from kbert.data.pretraining.masking import Filled, choose_whole_words
from kbert.data.pretraining.packed import Packed
from kbert.data.pretraining.pretraining_batches import PretrainingBatches, ordinary_ids

ROWS, SEQ_LEN = 13, 61


@pytest.fixture(scope="module")
def shards():
    return wikitext_shards()


def batches(shards, **options) -> PretrainingBatches:
    return PretrainingBatches(shards, **{"batch_size": ROWS, "seq_len": SEQ_LEN} | options)


def arrays(batch) -> list:
    groups = (batch.inputs, batch.labels, batch.weights)
    return [array for group in groups for _, array in sorted(group.items())]


def same(one, other) -> bool:
    return all(
        a.dtype == b.dtype and np.array_equal(a, b)
        for a, b in zip(arrays(one), arrays(other), strict=True)
    )


def unmasked(batch) -> np.ndarray:
    """The tokens as they were, by the labels."""
    ids = batch.inputs["Input-Token"].copy()
    row, number = np.nonzero(batch.weights["MLM"])
    ids[row, batch.inputs["Input-Positions"][row, number]] = batch.labels["MLM"][row, number]
    return ids


MODES = [{}, {"whole_word": True}, {"mlm_only": True}, {"mlm_only": True, "whole_word": True}]


@pytest.mark.parametrize("options", MODES)
@pytest.mark.full
def test_batch_shapes_types_and_weights(shards, options):
    batch = batches(shards, max_predictions=7, **options).batch(5)
    shapes = {name: (array.shape, array.dtype) for name, array in batch.inputs.items()}
    assert shapes == {
        "Input-Token": ((13, 61), np.int32),
        "Input-Segment": ((13, 61), np.int32),
        "Input-Positions": ((13, 7), np.int32),
    }
    assert {name: (array.shape, array.dtype) for name, array in batch.labels.items()} == {
        "MLM": ((13, 7), np.int32),
        "NSP": ((13,), np.int32),
    }
    real = batch.weights["MLM"] > 0
    assert np.allclose(batch.weights["MLM"][real], 1 / real.sum())
    assert batch.weights["MLM"].dtype == np.float32
    share = 0 if options.get("mlm_only") else 1 / 13
    assert (batch.weights["NSP"] == np.float32(share)).all()
    assert (batch.labels["MLM"][~real] == 0).all()
    assert (batch.inputs["Input-Positions"][~real] == 0).all()


@pytest.mark.full
def test_default_max_predictions_are_googles(shards):
    for seq_len, expected in ((128, 20), (512, 77), (100, 15), (20, 3)):
        assert batches(shards, seq_len=seq_len).max_predictions == expected
    assert batches(shards, seq_len=100, mlm_probability=0.07).max_predictions == 7


@pytest.mark.parametrize("options", MODES)
def test_batch_slices_and_restarts_give_the_same_bytes(shards, options):
    source = batches(shards, seed=4, **options)
    whole = source.batch(11)
    for part in (slice(0, 6), slice(6, 13), slice(3, 4), slice(5, 5)):
        assert same(source.batch(11, part), whole.select(part))
    again = batches(open_shards(folders()[1]), seed=4, **options)  # straight to the step
    assert same(again.batch(11), whole)
    assert not same(batches(shards, seed=5, **options).batch(11), whole)
    assert not same(source.batch(12), whole)


@pytest.mark.parametrize("options", [{}, {"mlm_only": True}])
def test_no_example_is_lost_or_seen_twice_over_epochs(shards, options):
    few = shards.split(0.03)[1]
    source = batches(few, seed=8, batch_size=101, **options)
    total = sum(source.examples_per_epoch(epoch) for epoch in range(3))
    rows = np.concatenate([unmasked(source.batch(step)) for step in range(-(-total // 101))])[
        :total
    ]
    first_epoch = batches(few, seed=8, batch_size=source.examples_per_epoch(0), **options)
    assert np.array_equal(unmasked(first_epoch.batch(0)), rows[: first_epoch.batch_size])
    start = 0
    for epoch in range(3):
        count = source.examples_per_epoch(epoch)
        assert len(np.unique(rows[start : start + count], axis=0)) == count
        start += count


def test_a_batch_larger_than_an_epoch(shards):
    few = shards.split(0.02)[1]
    source = batches(few, seed=1, batch_size=500, seq_len=128)
    assert source.examples_per_epoch(0) < 250
    whole = source.batch(3)
    assert len(whole) == 500 and same(source.batch(3, slice(7, 20)), whole.select(slice(7, 20)))
    assert same(batches(few, seed=1, batch_size=500, seq_len=128).batch(3), whole)


def test_batches_have_special_tokens_and_segments(shards):
    source, special = batches(shards), shards.tokenizer
    for step in range(40):
        batch = source.batch(step)
        for ids, segments in zip(unmasked(batch), batch.inputs["Input-Segment"], strict=True):
            (first, last) = np.flatnonzero(ids == special.sep_id)
            assert ids[0] == special.cls_id and (ids == special.cls_id).sum() == 1
            assert 1 < first < last - 1  # neither segment is empty
            assert (ids[last + 1 :] == special.pad_id).all()
            assert (ids[: last + 1] != special.pad_id).all()
            expected = np.zeros(SEQ_LEN, int)
            expected[first + 1 : last + 1] = 1
            assert np.array_equal(segments, expected)


def test_nsp_label_is_1_where_b_is_of_another_document(shards):
    """As in Google's create_pretraining_data.py: 0 is IsNext, 1 is a random next."""
    corpus = f" {' '.join(map(str, shards.take(np.arange(shards.offsets[-1]))))} "

    def document_of(segment) -> int:
        place = corpus.index(f" {' '.join(map(str, segment))} ")
        first_tokens = shards.offsets[shards.starts]
        return int(np.searchsorted(first_tokens, corpus.count(" ", 0, place), "right"))

    batch, seen = batches(shards, short_seq_probability=0.0, batch_size=40).batch(3), []
    for ids, label in zip(unmasked(batch), batch.labels["NSP"], strict=True):
        first, last = np.flatnonzero(ids == shards.tokenizer.sep_id)
        segments = ids[1:first], ids[first + 1 : last]
        if min(map(len, segments)) >= 9:  # a shorter one may stand in several documents
            one, other = map(document_of, segments)
            seen.append(label)
            assert label == (one != other)
    assert {0, 1} == set(seen)


@pytest.fixture(scope="module")
def thousands(shards):
    """Before and after masking, and which are predicted: 9,000 examples."""
    source = PretrainingBatches(shards, batch_size=3000, seq_len=SEQ_LEN, seed=9)
    found = [source.batch(step) for step in range(3)]
    before = np.concatenate([unmasked(batch) for batch in found])
    after = np.concatenate([batch.inputs["Input-Token"] for batch in found])
    chosen = np.zeros(before.shape, bool)
    weights = np.concatenate([batch.weights["MLM"] for batch in found])
    positions = np.concatenate([batch.inputs["Input-Positions"] for batch in found])
    row, number = np.nonzero(weights)
    chosen[row, positions[row, number]] = True
    assert chosen.sum() == len(row)  # no place twice
    return before, after, chosen


def test_masking_is_80_mask_10_random_10_kept(shards, thousands):
    before, after, chosen = thousands
    total = chosen.sum()
    assert total > 60_000
    assert np.array_equal(before[~chosen], after[~chosen])
    masked = after[chosen] == shards.tokenizer.mask_id
    kept = after[chosen] == before[chosen]
    ordinary = len(ordinary_ids(shards.tokenizer))
    assert within(masked.sum(), total, 0.8)
    assert within(kept.sum(), total, 0.1 + 0.1 / ordinary)
    random_ones = after[chosen][~masked & ~kept]
    counts = np.bincount(random_ones, minlength=shards.vocab_size)
    assert counts[:5].sum() == 0  # the special tokens
    expected = len(random_ones) / ordinary
    chi_square = ((counts[5:] - expected) ** 2 / expected).sum()
    assert abs(chi_square - ordinary) < 5 * (2 * ordinary) ** 0.5


def test_15_percent_are_masked_at_even_rates(shards, thousands):
    before, _, chosen = thousands
    special = shards.tokenizer
    lengths = (before != special.pad_id).sum(1)
    expected = [min(10, max(1, round(length * 0.15))) for length in lengths.tolist()]
    assert np.array_equal(chosen.sum(1), expected)
    text = ~np.isin(before, [special.pad_id, special.cls_id, special.sep_id])
    assert not chosen[~text].any()
    full = lengths == SEQ_LEN
    share = chosen[full].sum(1)[0] / (SEQ_LEN - 3)
    for place in range(1, SEQ_LEN - 1):
        can = text[full, place]
        assert within(chosen[full, place][can].sum(), can.sum(), share), place


def test_masks_differ_in_every_epoch(shards):
    few = shards.split(0.02)[1]
    count = batches(few, mlm_only=True).examples_per_epoch(0)
    source = batches(few, mlm_only=True, batch_size=count)
    one, other = source.batch(0), source.batch(1)
    positions = [batch.inputs["Input-Positions"] for batch in (one, other)]
    assert (positions[0] != positions[1][: len(positions[0])]).mean() > 0.8


def test_whole_word_masking_masks_all_pieces(shards):
    pieces = np.array([token.startswith("##") for token in shards.tokenizer.tokens])
    source = batches(shards, whole_word=True, batch_size=500)
    batch = source.batch(1)
    ids, chosen = unmasked(batch), np.zeros((500, SEQ_LEN), bool)
    row, number = np.nonzero(batch.weights["MLM"])
    chosen[row, batch.inputs["Input-Positions"][row, number]] = True
    goes_on = pieces[ids][:, 1:] & ~np.isin(ids, [2, 3])[:, :-1]  # not behind [CLS] or [SEP]
    assert goes_on.sum() > 3000
    assert (chosen[:, 1:] == chosen[:, :-1])[goes_on].all()
    row, sep = np.nonzero((ids[:, :-1] == 3) & pieces[ids[:, 1:]])  # B begins within a word
    assert len(row) > 20 and (chosen[row, sep + 1] != chosen[row, sep - 1]).any()
    lengths = (ids != 0).sum(1)
    most = np.minimum(10, np.maximum(1, np.rint(lengths * 0.15)))
    assert (chosen.sum(1) <= most).all() and (chosen.sum(1) == most).mean() > 0.9


def test_whole_word_masking_rates_are_googles():
    """How often each word of one sequence is chosen, beside Google's loop."""
    ids = np.array([[2, 10, 11, 50, 51, 12, 13, 50, 14, 15, 50, 50, 50, 16, 3]])
    words = [[1], [2, 3, 4], [5], [6, 7], [8], [9, 10, 11, 12], [13]]
    continues = np.arange(60) >= 50
    trials, count = 20_000, 4
    ids = np.repeat(ids, trials, axis=0)
    place = np.arange(15)
    filled = Filled(ids, ids * 0, (ids > 3), np.broadcast_to(place == 1, ids.shape))
    keys = np.arange(trials, dtype=np.uint64)
    chosen = choose_whole_words(keys, filled, np.full(trials, count), continues)
    rng = random.Random(0)
    theirs = np.zeros(15)
    for _ in range(trials):
        theirs[list(google_recipe.words_chosen([*words], count, rng))] += 1
    ours = chosen.sum(0)
    assert (np.abs(ours - theirs) < 5 * np.sqrt(trials * 0.5)).all()
    assert chosen.sum(1).max() == count


def test_packed_sequences_are_the_joined_documents(shards):
    special = shards.tokenizer
    joined = []
    for start, end in zip(shards.starts, shards.ends, strict=True):
        joined += [special.sep_id] if joined else []
        joined += shards.take(np.arange(shards.offsets[start], shards.offsets[end])).tolist()
    source = batches(shards, mlm_only=True, seed=3)
    source = batches(shards, mlm_only=True, seed=3, batch_size=source.examples_per_epoch(1))
    examples = Packed(shards, SEQ_LEN, source.seed)
    plan = np.sort(examples.plan(1))
    ids = examples.select(1, plan).fill(shards, SEQ_LEN).ids
    text = []
    for row in ids:
        end = np.flatnonzero(row == special.sep_id)[-1]
        assert row[0] == special.cls_id and (row[end + 1 :] == special.pad_id).all()
        text += row[1:end].tolist()
    assert text == joined
    lengths = (ids != special.pad_id).sum(1)
    assert (lengths[1:-1] == SEQ_LEN).all()  # full, but for the first and the last
    batch = source.batch(0)
    assert not batch.inputs["Input-Segment"].any() and not batch.weights["NSP"].any()
    original = unmasked(batch)
    row, number = np.nonzero(batch.weights["MLM"])
    labels = original[row, batch.inputs["Input-Positions"][row, number]]
    assert not np.isin(labels, [special.cls_id, special.sep_id, special.pad_id]).any()


def test_held_out_split_shares_no_document(shards):
    train, held = shards.split(0.1)
    assert held.documents == round(0.1 * shards.documents)
    both = np.concatenate([train.starts, held.starts])
    assert np.array_equal(np.sort(both), shards.starts)
    again = open_shards(folders()[1]).split(0.1)[1]
    assert np.array_equal(again.starts, held.starts)
    assert held.fingerprint != train.fingerprint != shards.fingerprint
    # examples of the held-out part are made of its documents alone
    text = " ".join(
        read_tokens(held, start, end) for start, end in zip(held.starts, held.ends, strict=True)
    )
    for row in unmasked(batches(held, batch_size=50).batch(0)):
        ends = np.flatnonzero(row == row[row > 0][-1])  # [SEP]
        first, second = row[1 : ends[0]], row[ends[0] + 1 : ends[1]]
        for sentence in (first, second):
            assert f" {' '.join(map(str, sentence))} " in f" {text} "


def read_tokens(shards, start: int, end: int) -> str:
    """Return the tokens of a document, which is these sentences."""
    places = np.arange(shards.offsets[start], shards.offsets[end])
    return " ".join(map(str, shards.take(places)))


def test_random_draws_of_the_hash_are_splitmix64():
    """Numbers of Vigna's reference splitmix64.c, seed 1234567, as the literature lists them."""
    from kbert.data.counter_rng import fork

    keys = np.array([1234567], np.uint64)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert fork(keys, np.arange(3)).tolist() == expected
