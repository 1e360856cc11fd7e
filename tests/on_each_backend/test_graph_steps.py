"""Gradients of the graph in an engine: gradient checkpointing and micro-batches."""

import gc
import weakref

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.engines import build_engine, largest_difference, small_config
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of

import kbert
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.graph.spec import GraphSpec

LENGTH, BATCH, BLOCKS = 11, 12, 2
HEADS = {
    "pretraining": {"max_predictions": PREDICTIONS, "selected_positions": True},
    "tokens": {"num_labels": 5},
}


def engine_of(head, blocks=BLOCKS, **options):
    config = small_config(blocks, 0.3, initializer_range=0.2)
    return build_engine(GraphSpec(config, head, seq_len=LENGTH, **HEADS[head]), **options)


def batch(head) -> TrainingBatch:
    """Real tokens and padding: no text is as long as another."""
    if head == "pretraining":
        return batch_of(arrays("pretraining", 1, BATCH), 0)
    random = np.random.default_rng(2)
    tokens = random.integers(1, SIZES["vocab_size"], (BATCH, LENGTH)).astype("int32")
    tokens[np.arange(LENGTH) > random.integers(1, LENGTH + 1, (BATCH, 1))] = 0
    inputs = {names.TOKEN_IDS: tokens, names.SEGMENT_IDS: np.ones_like(tokens)}
    labels = random.integers(0, 5, tokens.shape).astype("int32")
    weights = np.full(labels.shape, 1 / labels.size, "float32")
    name = names.TOKEN_CLASSIFIER
    return TrainingBatch(inputs, {name: labels}, {name: weights})


@full_on("jax")
@pytest.mark.parametrize(
    "head",
    ["pretraining", pytest.param("tokens", marks=[pytest.mark.full, nightly_on("jax")])],
)
def test_checkpointed_blocks_have_the_same_gradients_and_dropout(head):
    given = batch(head)
    kept = engine_of(head).gradients(given, 3)
    engine = engine_of(head, gradient_checkpointing=True)
    assert len(engine.step.segments.blocks) == BLOCKS
    assert largest_difference(kept, engine.gradients(given, 3)) < 1e-5


@pytest.mark.full
def test_each_micro_batch_and_step_has_its_own_masks():
    """The same examples in each half: with other masks their gradients differ."""
    given, half = batch("pretraining"), slice(0, 6)
    rows = given.select(half)

    def twice(group):
        return {name: np.concatenate([array] * 2) for name, array in group.items()}

    one = engine_of("pretraining")
    both = engine_of("pretraining", accumulation_steps=2)
    doubled = TrainingBatch(*map(twice, (rows.inputs, rows.labels, rows.weights)))
    once = one.gradients(rows, 0)
    twofold = {name: 2 * value for name, value in once.items()}
    assert largest_difference(twofold, both.gradients(doubled, 0)) > 0.1
    assert largest_difference(once, one.gradients(rows, 1)) > 0.1
    assert largest_difference(once, one.gradients(rows, 0)) < 1e-6


def test_cutting_a_graph_leaves_it_unchanged():
    """Some tensors of the heads are the graph's inputs, which Keras would move to the heads."""
    engine = engine_of("pretraining", gradient_checkpointing=True)
    again = keras.models.clone_model(engine.model)
    assert [layer.name for layer in again.layers] == [layer.name for layer in engine.model.layers]
    assert kbert.model_rows(again) == kbert.model_rows(engine.model)


@pytest.mark.full
def test_weights_are_freed_with_the_engine_and_gradients_registered_once(backend):
    """TensorFlow keeps each traced custom gradient, and the graph that it is in, for good."""
    counts, given = [], batch("tokens")
    for _ in range(2):
        engine = engine_of("tokens", 1, gradient_checkpointing=True)
        engine.update(given, 0), engine.evaluate(given), engine.predict(given.inputs)
        weight = weakref.ref(engine.state.variables.weights[0])
        del engine
        gc.collect(), gc.collect()
        assert weight() is None
        counts.append(registered(backend))
    assert counts[0] == counts[1]


def registered(backend) -> int:
    if backend != "tensorflow":
        return 0
    from tensorflow.python.framework import ops

    return sum(name.startswith("CustomGradient-") for name in ops.gradient_registry.list())
