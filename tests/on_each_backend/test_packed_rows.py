"""Packed rows on each backend: loss, gradients and outputs of the same texts, one a row."""

import functools

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.engines import build_engine, largest_difference, small_config
from helpers.errors import raises
from helpers.marks import full
from helpers.sizes import SIZES

import kbert
from kbert.data.labelled.length_buckets import IGNORED, BucketedBatches, Examples
from kbert.data.packed_batch import pack_batch
from kbert.graph import names
from kbert.graph.names import CLASSIFIER, PACKED_FIRSTS, PACKED_TEXTS, TOKEN_CLASSIFIER
from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer

ROW, LABELS = 17, 5
BLOCKS = 2 if keras.backend.backend() == "torch" else 1  # a program takes seconds to make
LENGTHS = [3, 11, 7, 1, 13, 5, 2, 9, 4, 6, 12, 8]
CHANGED = 4  # a text of 13 tokens, beside another in its row
HEADS = {"classifier": CLASSIFIER, "tokens": TOKEN_CLASSIFIER}
FEW_HEADS = ["classifier", full("tokens")]


def batch(head, changed=None, **options):
    """A packed batch; the tokens of the text `changed` are others."""
    random, count = np.random.default_rng(3), len(LENGTHS)
    ids = [random.integers(5, SIZES["vocab_size"], n).tolist() for n in LENGTHS]
    segments = [random.integers(0, 3, n).tolist() for n in LENGTHS]
    labels = random.integers(0, LABELS, count).tolist()
    if head == "tokens":
        labels = [random.choice([IGNORED, *range(LABELS)], n).tolist() for n in LENGTHS]
    if changed is not None:
        ids[changed] = [token % 90 + 6 for token in ids[changed]]
    given = Examples(ids, segments, {HEADS[head]: labels})
    alone = BucketedBatches(given, batch_size=count, pool=1, lengths=(15,)).batch(0)
    return pack_batch(alone, tokens_of(alone), ROW, **options)


def tokens_of(alone) -> list[int]:
    return (alone.inputs[names.TOKEN_IDS] > 0).sum(1).tolist()


def engine_of(head, packing, **options):
    config = small_config(BLOCKS, 0.0, initializer_range=0.2)
    spec = GraphSpec(config, head, dtype="float32", packed=packing, num_labels=LABELS)
    return build_engine(spec.for_training(), **options)


def outputs(engine, given) -> np.ndarray:
    """The logits of a packed batch, (B, labels), or those of the tokens, text after text."""
    (found,) = engine.predict(given.inputs)
    return found if found.ndim == 2 else found[given.inputs[PACKED_TEXTS] > 0]


@functools.cache
def gradients_of(head, packing, micro_batches=1) -> dict:
    """Of the texts, packed or one a row: compiled once, as that is most of the time."""
    given = batch(head, micro_batches=micro_batches)
    engine = engine_of(head, packing, accumulation_steps=micro_batches)
    return engine.gradients(given if packing else given.alone, 0)


@pytest.mark.parametrize("head", FEW_HEADS)
@pytest.mark.parametrize(
    "micro_batches", [pytest.param(1, marks=[pytest.mark.full, nightly_on("jax")]), 3]
)
def test_packed_gradients_equal_unpacked(head, micro_batches):
    found = gradients_of(head, True, micro_batches)
    assert largest_difference(gradients_of(head, False, micro_batches), found, 0.01) < 1e-5
    assert min(np.abs(value).max() for name, value in found.items() if "key/bias" not in name) > 0


@pytest.mark.full
@nightly_on("jax")
def test_packed_graph_layers_with_xla_equal_unpacked():
    given, compiled = batch("classifier"), keras.backend.backend() != "torch"
    padded, rows = engine_of("classifier", False), engine_of("classifier", True, jit=compiled)
    assert (
        largest_difference(gradients_of("classifier", False, 1), rows.gradients(given, 0), 0.01)
        < 1e-5
    )
    one, other = padded.update(given.alone, 0), rows.update(given, 0)
    assert float(one["loss"]) == pytest.approx(float(other["loss"]), rel=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("head", ["classifier", pytest.param("tokens", marks=nightly_on("jax"))])
def test_gradient_checkpointing_keeps_packed_gradients(head):
    again = engine_of(head, True, gradient_checkpointing=True).gradients(batch(head), 0)
    assert largest_difference(gradients_of(head, True, 1), again, 0.01) < 1e-5


@full_on("jax")
@pytest.mark.parametrize("head", FEW_HEADS)
def test_packed_outputs_equal_unpacked_and_texts_are_separate(head):
    engine = engine_of(head, True)
    given = batch(head)
    expected = engine_of(head, False).predict(given.alone.inputs)[0]
    tokens = tokens_of(given.alone)
    found = outputs(engine, given)
    if head == "tokens":
        order = np.argsort(given.inputs[PACKED_FIRSTS])  # texts as they stand in the rows
        expected = np.concatenate([expected[text, : tokens[text]] for text in order])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found).max() > 0.1
    others = outputs(engine, batch(head, changed=CHANGED))
    same = np.abs(others - found).max(-1) < 1e-6
    assert same.sum() == len(same) - (LENGTHS[CHANGED] if head == "tokens" else 1)


def test_packing_refuses_other_models_and_devices():
    config = kbert.BertConfig(**SIZES)
    with raises(ValueError, "packed", "classifier", "tokens", "'qa'"):
        GraphSpec(config, "qa", packed=True)
    backend = backends.start()
    backend.replicas = 2
    model = build(GraphSpec(config, "classifier", packed=True))
    with raises(ValueError, "packing", 2, "devices=1"):
        Engine(backend, model, Optimizer(total_steps=9))
