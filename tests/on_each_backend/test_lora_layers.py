"""Adapters in the layers: the numbers of merged weights, and the statistics of their dropout."""

import keras
import numpy as np
from helpers.sizes import SIZES

import kbert
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import trained_parts
from kbert.model.lora import adapters_of, add_adapters, merge_adapters

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
    for one, other in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(outputs_of(model), adapted)
