"""Variants of the graph on each backend: the numbers of the plain graph, with the same weights."""

import dataclasses

import keras
import numpy as np
import pytest
from helpers.backends import nightly_on
from helpers.marks import full
from helpers.sizes import SIZES
from helpers.training_batches import LENGTH, PREDICTIONS, arrays, batch_of

import kbert
from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.model.deferred import build_with, layers_of
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer

RATES = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CONFIG = kbert.BertConfig(**SIZES | RATES | {"num_hidden_layers": 2, "initializer_range": 0.2})
FAMILIES = {
    "bert": CONFIG,
    "roberta": CONFIG.replace(model_type="roberta"),
    "distilbert": CONFIG.replace(model_type="distilbert", type_vocab_size=1),
}
BATCH = 4


def engine_of(model, **options):
    backend = backends.start()
    engine = Engine(backend, model, Optimizer(total_steps=9, warmup_steps=0), **options)
    return engine


def specs(family: str, head: str) -> tuple[GraphSpec, GraphSpec]:
    """The plain graph, and the one with selected positions."""
    options = {"max_predictions": PREDICTIONS} if head == "pretraining" else {"num_labels": 3}
    plain = GraphSpec(FAMILIES[family], head, seq_len=LENGTH, dtype="float32", **options)
    return plain, dataclasses.replace(plain, selected_positions=True)


@pytest.mark.full
@nightly_on("jax")
@pytest.mark.parametrize("head", ["pretraining", "classifier"])
@pytest.mark.parametrize("family", ["bert", *(full(f) for f in list(FAMILIES)[1:])])
def test_selected_positions_give_the_outputs_of_all(family, head):
    keras.utils.set_random_seed(5)
    plain, selected = specs(family, head)
    model = build(plain)
    variant = build_with(selected, layers_of(model))
    random = np.random.default_rng(3)
    ids = random.integers(5, SIZES["vocab_size"], (BATCH, LENGTH))
    ids[1, 5:] = ids[2, 2:] = 0
    inputs = {"Input-Token": ids, "Input-Segment": np.zeros_like(ids)}
    if head == "pretraining":
        inputs["Input-Positions"] = np.array(
            [[1, 4, 6, 7, 9], [3, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0] * 5]
        )
    given = [inputs[name].astype("int32") for name in model.input_names]
    for one, other in zip(model.outputs, variant.outputs, strict=True):
        assert one.shape == other.shape
    found, expected = (keras.tree.flatten(m(given)) for m in (variant, model))
    for one, other in zip(found, expected, strict=True):
        one, other = map(keras.ops.convert_to_numpy, (one, other))
        assert np.abs(other).max() > 0.1
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.full
@nightly_on("jax")
@pytest.mark.parametrize("head", ["pretraining", "classifier"])
def test_a_training_step_on_selected_positions_equals_that_of_all(head):
    keras.utils.set_random_seed(5)
    config = CONFIG.replace(num_hidden_layers=1)  # a step's program takes seconds to make
    plain, selected = (dataclasses.replace(spec, config=config) for spec in specs("bert", head))
    model = build(plain)
    one, other = engine_of(build_with(selected, layers_of(model))), engine_of(model)
    batch = batch_of(arrays(head, 3, 12), 0)
    gradients, expected = one.gradients(batch, 0), other.gradients(batch, 0)
    assert list(gradients) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(gradients[name], array, atol=2e-6, rtol=1e-4, err_msg=name)
    for step in range(2):
        found, wanted = one.update(batch, step), other.update(batch, step)
        for metric, value in wanted.items():
            assert float(found[metric]) == pytest.approx(float(value), rel=1e-4), metric
