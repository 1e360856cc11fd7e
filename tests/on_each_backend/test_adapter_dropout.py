"""Dropout on what goes into A: drawn anew by each step, and with next to none of it no change."""

import functools

import keras
import numpy as np
import pytest
from helpers.sizes import SIZES
from helpers.training_batches import LENGTH, arrays, batch_of

import kbert
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.model.builder import build
from kbert.model.lora import adapters_of
from kbert.training.engine import Engine
from kbert.training.optimizers import Optimizer
from kbert.training.trained_weights import select_weights

BATCH, ON = 12, "query,attention_output,intermediate,output"
CONFIG = SIZES | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CONFIG["num_hidden_layers"] = 2


@functools.cache
def engine_of(dropout, family="bert", seq_len=None, selected=False, **prepared):
    """An engine whose weights are the same each time, with B that are not 0."""
    keras.utils.set_random_seed(11)
    config = kbert.BertConfig(**CONFIG)
    if family == "distilbert":
        config = config.replace(model_type=family, type_vocab_size=1)
    options = {"num_labels": 3, "seq_len": seq_len, "selected_positions": selected}
    spec = GraphSpec(config, "classifier", **options)
    engine, random = Engine(), np.random.default_rng(7)
    with engine.backend.scope():
        model = build(spec)
        model.set_weights([one + random.normal(0, 0.2, one.shape) for one in model.get_weights()])
        parts = trained_parts(spec, None, 3, ON, 5.0)
        trained = select_weights(model, parts, 5, dropout=dropout)
    engine.prepare(model, Optimizer(total_steps=3), trained, **prepared)
    for adapter in adapters_of(engine.model):
        adapter.b.assign(random.normal(0, 0.2, adapter.b.shape).astype("float32"))
    return engine


def gradients(step, *arguments, **prepared) -> dict:
    batch = batch_of(arrays("classifier", 1, BATCH), 0)
    return engine_of(*arguments, **prepared).gradients(batch, step)


def furthest(one: dict, other: dict) -> float:
    return max(float(np.abs(one[path] - other[path]).max()) for path in one)


@pytest.mark.full
@pytest.mark.parametrize("selected", [False, True])
def test_tiny_adapter_dropout_changes_nothing(backend, selected):
    if backend == "jax":
        pytest.skip("as on TensorFlow: two more programs to compile")
    prepared = {"gradient_checkpointing": True, "accumulation_steps": 3, "selected": selected}
    found, plain = gradients(0, 1e-8, **prepared), gradients(0, 0.0)
    assert len(found) == 2 * 4 * 2 + 2
    for path, gradient in plain.items():
        assert np.abs(gradient).max() > 1e-5
        np.testing.assert_allclose(found[path], gradient, atol=3e-6, rtol=1e-3, err_msg=path)


@pytest.mark.full
def test_adapter_gradients_survive_gradient_checkpointing(backend):
    if backend == "jax":
        pytest.skip("as on TensorFlow: two more programs to compile")
    found, kept = gradients(1, 0.4, gradient_checkpointing=True), gradients(1, 0.4)
    for path, gradient in kept.items():
        np.testing.assert_allclose(found[path], gradient, atol=3e-6, rtol=1e-3, err_msg=path)


@pytest.mark.full
@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_adapter_dropout_differs_by_step_and_not_in_evaluation(family, backend):
    if family == "distilbert" and backend == "jax":
        pytest.skip("as on TensorFlow: one more program to compile")
    one, again, other = (gradients(step, 0.4, family) for step in (1, 1, 2))
    assert furthest(one, again) < 1e-6 < 1e-3 < furthest(one, other)
    inputs = batch_of(arrays("classifier", 1, BATCH), 0).inputs
    dropping, plain = engine_of(0.4, family), engine_of(0.0, family)
    assert inputs["Input-Token"].shape == (BATCH, LENGTH)
    np.testing.assert_allclose(dropping.predict(inputs)[0], plain.predict(inputs)[0], atol=1e-6)
