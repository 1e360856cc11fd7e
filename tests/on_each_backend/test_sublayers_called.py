"""Dense sublayers that do more than multiply are called themselves, as Keras's layers call theirs.

Quantized ones, activity regularizers, calls that their user replaced, torch's hooks.
"""

import keras
import numpy as np
import pytest
from helpers.backends import nightly_on
from helpers.errors import raises

import kbert
from kbert.model.layers.encoder import FeedForward, MultiHeadAttention

X = np.random.default_rng(3).normal(size=(5, 7, 24)).astype("float32")
DENSE = {
    "attention": ["query_dense", "key_dense", "value_dense", "output_dense"],
    "feed-forward": ["intermediate_dense", "output_dense"],
}
SUBLAYERS = [(kind, name) for kind, names in DENSE.items() for name in names]


# Keras warns of each layer that it leaves as it is.
KEEPS_LAYERS = pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`:UserWarning")


@pytest.fixture
def no_collections(monkeypatch):
    """Keras collects garbage for each weight that it quantizes: seconds, late in a round."""
    monkeypatch.setattr("gc.collect", lambda *_: 0)


def layer_of(kind: str):
    layer = MultiHeadAttention(4, 6) if kind == "attention" else FeedForward(40)
    layer.build(X.shape)
    return layer


def number(tensor) -> np.ndarray:
    return keras.ops.convert_to_numpy(tensor)


def quantization_error(layer) -> float:
    """Return by how much int8 changes a layer's output, of the largest number in it."""
    inputs = keras.Input(X.shape[1:])
    model = keras.Model(inputs, layer(inputs))
    before = model.predict(X, verbose=0)
    model.quantize("int8")
    return np.abs(model.predict(X, verbose=0) - before).max() / np.abs(before).max()


class KerasAttention(keras.layers.MultiHeadAttention):
    """Keras's own, with one input."""

    def build(self, shape):
        super().build(shape, shape)

    def call(self, x):
        return super().call(x, x)

    def compute_output_spec(self, x):
        return super().compute_output_spec(x, x)


@nightly_on("jax")
@KEEPS_LAYERS
@pytest.mark.usefixtures("no_collections")
@pytest.mark.full
def test_int8_errors_are_those_of_keras_layers():
    pair = keras.Sequential([keras.layers.Dense(40, "gelu"), keras.layers.Dense(24)])
    assert 0 < quantization_error(FeedForward(40)) < 3 * quantization_error(pair)
    error = quantization_error(MultiHeadAttention(4, 6))
    assert 0 < error < 3 * quantization_error(KerasAttention(4, 6))


@pytest.mark.full
@nightly_on("jax")
@KEEPS_LAYERS
@pytest.mark.usefixtures("no_collections")
def test_int8_encoder_is_near_float32(small):
    model = kbert.build_encoder(small, seq_len=7)
    ids = np.random.default_rng(5).integers(1, 99, (5, 7)).astype("int32")
    before = model.predict([ids, 0 * ids], verbose=0)[0]
    model.quantize("int8")
    after = model.predict([ids, 0 * ids], verbose=0)[0]
    assert 0 < np.abs(after - before).max() < 0.05 * np.abs(before).max()


def test_activity_losses_of_attention_are_those_of_keras():
    given = {"num_heads": 4, "key_dim": 6, "activity_regularizer": keras.regularizers.L2(0.1)}
    own, other = MultiHeadAttention(**given), keras.layers.MultiHeadAttention(**given)
    own.build(X.shape)
    other.build(X.shape, X.shape)
    other.set_weights(own.get_weights())
    own(X)
    other(X, X)
    np.testing.assert_allclose([*map(number, own.losses)], [*map(number, other.losses)], rtol=1e-4)
    assert len(own.losses) == 4


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("kind", "name"), SUBLAYERS)
def test_activity_regularizer_of_a_sublayer_adds_its_loss(kind, name, training):
    layer = layer_of(kind)
    plain = number(layer(X, training=training))
    assert layer.losses == []
    getattr(layer, name).activity_regularizer = lambda y: keras.ops.sum(y * 0 + 1)
    np.testing.assert_allclose(number(layer(X, training=training)), plain, atol=1e-5)
    (loss,) = layer.losses
    assert number(loss) == 7 * (40 if name == "intermediate_dense" else 24)


@pytest.mark.parametrize(("kind", "name"), SUBLAYERS)
def test_replaced_call_of_a_sublayer_is_used(kind, name):
    layer, calls = layer_of(kind), []
    plain, dense = number(layer(X)), getattr(layer, name)
    original = dense.call
    dense.call = lambda x: calls.append(x) or original(x)
    np.testing.assert_allclose(number(layer(X)), plain, atol=1e-5)
    assert len(calls) == 1


@pytest.mark.parametrize(("kind", "name"), SUBLAYERS)
def test_torch_hook_of_a_sublayer_is_called(kind, name, backend):
    if backend != "torch":
        pytest.skip("hooks are torch's")
    layer, calls = layer_of(kind), []
    plain = number(layer(X).detach())
    handle = getattr(layer, name).register_forward_hook(lambda *call: calls.append(call))
    np.testing.assert_allclose(number(layer(X).detach()), plain, atol=1e-5)
    handle.remove()
    layer(X)
    assert len(calls) == 1


def test_queries_of_their_own_pass_a_called_sublayer():
    layer, queries = layer_of("attention"), X[:, :2]
    plain = number(layer([X, queries]))
    layer.query_dense.activity_regularizer = keras.regularizers.L2(0.1)
    np.testing.assert_allclose(number(layer([X, queries])), plain, atol=1e-5)


def test_adapter_on_a_regularized_intermediate_layer_is_refused():
    layer = layer_of("feed-forward")
    layer.adapters = {"intermediate": None}
    layer.intermediate_dense.activity_regularizer = keras.regularizers.L2(0.1)
    with raises(ValueError, "LoRA", "intermediate_dense"):
        layer(X)
