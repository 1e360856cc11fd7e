"""The encoder by the fused parts on torch: what the graph's layers give, also of long texts."""

import keras
import pytest
from helpers.random_encoders import drawn, ids
from numpy.testing import assert_allclose

if keras.backend.backend() != "torch":
    pytest.skip("torch's alone", allow_module_level=True)

import torch

from kbert.model import torch_encoder
from kbert.model.pooling import build_vectors
from kbert.model.probes import build_attention_maps, build_hidden_states
from kbert.tasks import running

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a CPU's alone")


@pytest.mark.parametrize("length", [7, 71])
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "relu"])
def test_torch_encoder_states_equal_the_graph(small, hidden_act, length):
    config = small.replace(hidden_act=hidden_act, max_position_embeddings=80)
    model = drawn(config)
    view = build_hidden_states(model)
    found = torch_encoder.fused(model, view)(*ids(config, length=length))
    wanted = view.predict_on_batch(list(ids(config, length=length)))
    assert len(found) == small.num_hidden_layers + 1
    for one, other in zip(found, wanted, strict=True):
        assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda model: build_vectors(model, "mean", 1),
        lambda model: build_vectors(model, "last", 2),
        lambda model: build_vectors(model, "pooler", 1),
        lambda model: build_attention_maps(model, blocks=[1, 2]),
    ],
)
def test_derived_outputs_follow_new_weights(small, build):
    model = drawn(small)
    view = build(model)
    made = torch_encoder.fused(model, view)
    for _ in range(2):
        wanted = running._listed(view.predict_on_batch(list(ids(small))))
        for one, other in zip(made(*ids(small)), wanted, strict=True):
            assert_allclose(one, other, atol=2e-5)
        for weight in model.weights:
            weight.assign(weight.numpy() * 1.1)


def test_torch_encoder_needs_float32_and_known_layers(small):
    assert torch_encoder.is_for(drawn(small))
    assert not torch_encoder.is_for(drawn(small, dtype="mixed_bfloat16"))
    model = drawn(small)
    model.layers[-1].trainable = False
    assert not torch_encoder.is_for(model)
