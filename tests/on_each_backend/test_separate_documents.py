"""Documents that share a sequence: each is computed as where it stands alone."""

import dataclasses

import keras
import numpy as np
import pytest
from helpers.engines import build_engine, largest_difference, small_config
from helpers.errors import raises
from helpers.run_shards import make_shards

import kbert
from kbert.data.training_batch import TrainingBatch
from kbert.graph.names import MASKED_POSITIONS, MLM, NSP, PACKED_TEXTS, SEGMENT_IDS, TOKEN_IDS
from kbert.graph.spec import GraphSpec

LENGTH, EXAMPLES = 61, 6


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return kbert.open_shards(make_shards(tmp_path_factory.mktemp("separate")))


def batches_of(shards, **options):
    sizes = {"batch_size": EXAMPLES, "seq_len": LENGTH, "mlm_only": True, "mlm_probability": 0.3}
    return kbert.PretrainingBatches(shards, **sizes | options)


def engine_of(shards, packed: bool, selected: bool = True, **options):
    config = small_config(2, 0.0, initializer_range=0.2)
    config = config.replace(vocab_size=shards.vocab_size, max_position_embeddings=LENGTH)
    spec = GraphSpec(config, max_predictions=19, packed=packed, dtype="float32")
    return build_engine(spec.for_training() if selected else spec, **options)


def place_alone(batch: TrainingBatch, shards) -> TrainingBatch:
    """The plain graph's batch with a document a row, where it stands, and padding around it."""
    ids, numbers = batch.inputs[TOKEN_IDS], batch.inputs[PACKED_TEXTS]
    positions, weights = batch.inputs[MASKED_POSITIONS], batch.weights[MLM]
    rows = [(row, n) for row in range(len(ids)) for n in range(1, numbers[row].max() + 1)]
    alone = [np.where(numbers[row] == n, ids[row], 0) for row, n in rows]
    predicted = [np.where(numbers[row][positions[row]] == n, weights[row], 0) for row, n in rows]
    source = [row for row, _ in rows]
    inputs = {
        TOKEN_IDS: np.array(alone, np.int32),
        SEGMENT_IDS: np.zeros((len(rows), LENGTH), np.int32),
        MASKED_POSITIONS: positions[source],
    }
    labels = {MLM: batch.labels[MLM][source], NSP: np.zeros(len(rows), np.int32)}
    return TrainingBatch(
        inputs,
        labels,
        {MLM: np.array(predicted, np.float32), NSP: np.zeros(len(rows), np.float32)},
    )


def test_sequences_are_the_same_and_their_documents_are_numbered(shards):
    plain = batches_of(shards).batch(0)
    separate = batches_of(shards, separate_documents=True).batch(0)
    for name in (TOKEN_IDS, SEGMENT_IDS, MASKED_POSITIONS):
        np.testing.assert_array_equal(plain.inputs[name], separate.inputs[name])
    tokenizer = shards.tokenizer
    numbers = separate.inputs[PACKED_TEXTS]
    assert numbers.max() >= 3
    for row, of_row in zip(separate.inputs[TOKEN_IDS], numbers, strict=True):
        expected, number = [], 1
        for token in row:
            expected.append(0 if token == tokenizer.pad_id else number)
            number += int(token == tokenizer.sep_id)
        assert of_row.tolist() == expected
    with raises(ValueError, "separate_documents", "mlm_only"):
        batches_of(shards, separate_documents=True, mlm_only=False)


@pytest.mark.parametrize("selected", [True, False])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_gradients_are_those_of_documents_alone(shards, selected, micro_batches):
    batch = batches_of(shards, separate_documents=True).batch(0)
    options = {"accumulation_steps": micro_batches}
    found = engine_of(shards, True, selected, **options).gradients(batch, 0)
    alone = place_alone(batch, shards)
    expected = engine_of(shards, False, selected).gradients(alone, 0)
    assert largest_difference(expected, found, 0.01) < 1e-5
    across = engine_of(shards, False, selected).gradients(batches_of(shards).batch(0), 0)
    assert largest_difference(across, found, 0.01) > 1e-3


@pytest.mark.full
def test_gradients_with_xla_and_checkpoints_are_the_same(shards):
    batch = batches_of(shards, separate_documents=True).batch(0)
    expected = engine_of(shards, True).gradients(batch, 0)
    for options in ({"jit": keras.backend.backend() != "torch"}, {"gradient_checkpointing": True}):
        found = engine_of(shards, True, **options).gradients(batch, 0)
        assert largest_difference(expected, found, 0.01) < 1e-5


def test_another_document_changes_no_prediction(shards):
    """Logits of one document stay, bit for bit, whatever its neighbours say."""
    batch = batches_of(shards, separate_documents=True).batch(0)
    engine = engine_of(shards, True)
    before = engine.predict(batch.inputs)[0]
    ids, numbers = batch.inputs[TOKEN_IDS].copy(), batch.inputs[PACKED_TEXTS]
    changed = numbers == 2
    assert changed.any()
    ids[changed] = np.where(ids[changed] > 6, 6, ids[changed])
    after = engine.predict(batch.inputs | {TOKEN_IDS: ids})[0]
    of_predictions = np.take_along_axis(numbers, batch.inputs[MASKED_POSITIONS], axis=1)
    weights = batch.weights[MLM] > 0
    differs = np.abs(before - after).max(-1) > 1e-6
    assert not differs[weights & (of_predictions != 2)].any()
    assert differs[weights & (of_predictions == 2)].all()


def test_the_accounting_is_that_of_the_same_rows(shards):
    """Scores are computed between all tokens of a row, so nothing is saved."""
    config = small_config(2, 0.0)
    plain = kbert.account(config, 7, 13, max_predictions=3, selected_positions=True)
    packed = kbert.account(
        config, 7, 13, max_predictions=3, selected_positions=True, packed_texts=29
    )
    assert plain.training_flops == packed.training_flops and plain.params == packed.params
    assert dataclasses.replace(packed, packed_texts=None).conventions == plain.conventions
