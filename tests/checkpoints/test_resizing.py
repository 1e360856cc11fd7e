"""Another vocabulary or more positions change the tables that depend on them, nothing else."""

import numpy as np
import pytest
from helpers.errors import raises
from numpy.testing import assert_allclose, assert_array_equal

import kbert

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, *(f"word{number}" for number in range(90)), "the", "of", ".", "##s"]


@pytest.fixture(scope="module")
def config(small):
    return small.replace(num_hidden_layers=1)


@pytest.fixture(scope="module")
def bert(config):
    model = kbert.build_bert(config, seq_len=None)
    random = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(random.normal(0, 0.3, weight.shape))
    tokenizer = kbert.Tokenizer.from_vocab(WORDS, lowercase=True)
    return kbert.Bert(config, "pretraining", model, tokenizer)


def weights(bert):
    return {weight.path: weight.numpy() for weight in bert.model.weights}


def differing(before, after):
    return {key for key in before if not np.array_equal(before[key], after[key])}


IDS = np.random.default_rng(1).integers(1, 99, (13, 7))


@pytest.mark.full
@pytest.mark.parametrize("filling", ["normal", "mean"])
def test_more_tokens_keep_what_is_computed(bert, filling):
    before = kbert.predict(bert.model, IDS)
    larger = kbert.resize_vocab(bert, 131, new_rows=filling)
    after = kbert.predict(larger.model, IDS)
    assert larger.config.vocab_size == 131 and larger.model.output_shape[0][-1] == 131
    assert_allclose(after["MLM"][..., :99], before["MLM"], atol=1e-6)
    assert_allclose(after["NSP"], before["NSP"], atol=1e-6)
    table, bias = "Embedding-Token/embeddings", "MLM-Sim/bias"
    assert differing(weights(bert), weights(larger)) == {table, bias}
    new = weights(larger)[table][99:]
    if filling == "mean":
        wanted = np.repeat(weights(bert)[table].mean(0)[None], 32, 0)
        assert_allclose(new, wanted, rtol=1e-6)
        assert_allclose(weights(larger)[bias][99:], weights(bert)[bias].mean(), rtol=1e-6)
    else:  # two deviations at most, as in google-research/bert
        assert 0.01 < new.std() < 0.03 and np.abs(new).max() <= 0.04
        assert not weights(larger)[bias][99:].any()
    assert weights(bert)[table].shape[0] == bert.config.vocab_size == 99


def test_tokens_are_added_to_the_tokenizer_too(bert):
    larger = kbert.resize_vocab(bert, tokens=["quark", "##ino"])
    assert larger.config.vocab_size == 101 == larger.tokenizer.vocab_size
    assert larger.tokenizer.encode("the quarkino").tokens == [
        "[CLS]", "the", "quark", "##ino", "[SEP]"
    ]  # fmt: skip
    assert larger.tokenizer.id_of("##ino") == 100
    assert bert.tokenizer.vocab_size == 99


@pytest.mark.full
def test_smaller_size_drops_the_last_tokens(config, bert):
    fewer = kbert.resize_vocab(kbert.Bert(config, bert.head, bert.model), 61)
    ids = IDS % 61
    before, after = (kbert.predict(b.model, ids)["MLM"] for b in (bert, fewer))
    assert_allclose(after, before[..., :61], atol=1e-6)
    with raises(ValueError, "size", 99, 61):
        kbert.resize_vocab(bert, 61)


def test_kept_tokens_compute_what_they_did_under_their_new_ids(bert):
    kept = [*range(5), 97, 31, 8, 50]
    fewer = kbert.keep_tokens(bert, kept)
    new_ids = np.random.default_rng(4).integers(1, len(kept), (13, 7))
    old_ids = np.array(kept)[new_ids]
    before, after = kbert.predict(bert.model, old_ids), kbert.predict(fewer.model, new_ids)
    assert_allclose(after["MLM"], before["MLM"][..., kept], atol=1e-6)
    assert_allclose(after["NSP"], before["NSP"], atol=1e-6)
    assert fewer.tokenizer.tokens == tuple(WORDS[number] for number in kept)
    by_name = kbert.keep_tokens(bert, [WORDS[number] for number in kept])
    assert not differing(weights(fewer), weights(by_name))


@pytest.mark.full
def test_padding_stays_padding_under_its_new_id(bert):
    fewer = kbert.keep_tokens(bert, [7, 1, 2, 3, 4, 0, 9])
    assert fewer.config.pad_token_id == 5 == fewer.tokenizer.pad_id
    padded = kbert.predict(fewer.model, [[2, 6, 3, 5, 5]])["NSP"]
    assert_allclose(padded, kbert.predict(fewer.model, [[2, 6, 3]])["NSP"], atol=2e-6)


@pytest.mark.parametrize(
    ("tokens", "things"),
    [
        ([0, 1, 2, 3, 4, 99], ("tokens[5]", "0 … 98", "got 99")),
        ([0, 1, 2, 3, 4, 4], ("got 4",)),
        ([1, 2, 3, 4], ("padding token", "id 0")),
        ([0, 1, 2, 3], ("[MASK]",)),
        (["[PAD]", "nothing"], ("'nothing'",)),
    ],
)
def test_tokens_that_cannot_stay_are_named(bert, tokens, things):
    with raises(ValueError, *things):
        kbert.keep_tokens(bert, tokens)


@pytest.mark.full
def test_more_positions(bert):
    positions = bert.config.max_position_embeddings
    longer = kbert.resize_positions(bert, 2 * positions + 3)
    path = "Embedding-Position/embeddings"
    assert differing(weights(bert), weights(longer)) == {path}
    table = weights(bert)[path]
    assert_array_equal(weights(longer)[path], np.concatenate([table, table, table[:3]]))
    ids = np.random.default_rng(2).integers(1, 99, (3, 2 * positions + 3))
    assert np.isfinite(kbert.predict(longer.model, ids)["MLM"]).all()
    before, after = (kbert.predict(b.model, IDS)["MLM"] for b in (bert, longer))
    assert_allclose(after, before, atol=1e-6)
    assert weights(kbert.resize_positions(bert, 9))[path].shape[0] == 9


def test_impossible_sizes_are_one_line(bert):
    with raises(ValueError, "new_rows", "normal", "mean", "'zeros'"):
        kbert.resize_vocab(bert, 131, new_rows="zeros")
    with raises(ValueError, "'the'"):
        kbert.resize_vocab(bert, tokens=["the"])
    with raises(ValueError, "positions", "got 0"):
        kbert.resize_positions(bert, 0)
