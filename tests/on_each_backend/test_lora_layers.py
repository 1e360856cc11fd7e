"""Adapters in the layers: the numbers of merged weights, and the statistics of their dropout."""

import keras
import numpy as np
import pytest
from helpers.sizes import SIZES

import kbert
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import AdaptedMatrix, trained_parts
from kbert.model.lora import LoraAdapter, adapters_of, add_adapters, merge_adapters

CONFIG = SIZES | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SPEC = GraphSpec(kbert.BertConfig(**CONFIG | {"num_hidden_layers": 2}), "encoder")
ALL = "query,key,value,attention_output,intermediate,output"
IDS = np.array([[2, 7, 9, 11, 3], [2, 5, 3, 0, 0]], "int32")


def adapted_model(dropout=0.0):
    """A model with adapters of random B, and its outputs before it had them."""
    keras.utils.set_random_seed(3)
    random = np.random.default_rng(5)
    model = kbert.build_encoder(SPEC.config, seq_len=None)
    model.set_weights([one + random.normal(0, 0.1, one.shape) for one in model.get_weights()])
    before = outputs_of(model)
    add_adapters(model, trained_parts(SPEC, None, 3, ALL, 6.0), 1, dropout)
    np.testing.assert_array_equal(outputs_of(model), before)  # B is 0
    for one in adapters_of(model):
        one.b.assign(random.normal(0, 0.3, one.b.shape).astype("float32"))
    return model, before


def outputs_of(model) -> np.ndarray:
    return keras.ops.convert_to_numpy(model([IDS, np.zeros_like(IDS)], training=False)[0])


def test_adapted_outputs_are_those_of_merged_weights_and_merging_leaves_no_trace():
    model, before = adapted_model(dropout=0.4)
    paths = [variable.path for variable in model.variables]
    weights, adapted = model.get_weights(), outputs_of(model)
    assert np.abs(adapted - before).max() > 0.05
    with merge_adapters(model):
        assert adapters_of(model) == [] and len(model.weights) == len(weights) - 2 * 12
        np.testing.assert_allclose(outputs_of(model), adapted, atol=1e-5)
    assert [variable.path for variable in model.variables] == paths
    np.testing.assert_equal(model.get_weights(), weights)
    np.testing.assert_array_equal(outputs_of(model), adapted)


def test_dropout_of_an_adapter_drops_its_rate_and_keeps_the_mean():
    rate, count = 0.25, 40_000
    matrix = AdaptedMatrix(1, "query", 1, 1)
    one = LoraAdapter(matrix, np.ones((1, 1)), np.ones((1, 1)), 2.0, rate)
    one.build((None, None, 1))
    x = np.ones((1, count, 1), "float32")
    found, again = (keras.ops.convert_to_numpy(one(x, training=True)).ravel() for _ in range(2))
    np.testing.assert_allclose(np.unique(found), [0, 2 / (1 - rate)], rtol=1e-4)
    assert np.mean(found == 0) == pytest.approx(rate, abs=5 * (rate * (1 - rate) / count) ** 0.5)
    assert not np.array_equal(found, again)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(one(x, training=False)), 2 * x)
