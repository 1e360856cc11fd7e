"""The attention layer refuses arguments that it would ignore, and loads what it has saved."""

import json

import numpy as np
import pytest
from helpers.errors import raises

from kbert.model.layers.encoder import MultiHeadAttention

# Arguments of Keras that only its own call heeds: if they passed, the result would be another one.
IGNORED = {
    "use_gate": True,
    "sliding_window": 3,
    "value_dim": 5,
    "output_shape": 7,
    "attention_axes": 2,
    "flash_attention": True,
}


@pytest.mark.parametrize("name", IGNORED)
def test_unsupported_attention_argument_is_refused(name):
    with raises(ValueError, name, IGNORED[name]) as caught:
        MultiHeadAttention(4, 6, **{name: IGNORED[name]})
    assert "\n" not in str(caught.value)


def test_positional_value_dim_is_refused():
    with raises(ValueError, "value_dim", 6, 5):
        MultiHeadAttention(4, 6, 5)


def test_supported_attention_arguments_take_effect():
    """No biases: 4 kernels of 24 × 4 · 6; dropout of everything in training leaves no output."""
    layer = MultiHeadAttention(4, 6, use_bias=False, dropout=0.5, value_dim=6, attention_axes=1)
    x = np.random.default_rng(3).normal(size=(2, 7, 24)).astype("float32")
    assert layer(x).shape == (2, 7, 24)
    assert layer.count_params() == 4 * 24 * 24
    assert not np.allclose(layer(x, training=True), layer(x, training=False))


@pytest.mark.parametrize("left_out", [(), ("use_gate", "sliding_window"), ("attention_axes",)])
def test_saved_attention_layer_loads_from_older_keras_too(left_out):
    layer = MultiHeadAttention(4, 6, dropout=0.25)
    layer.build((None, 7, 24))
    config = json.loads(json.dumps(layer.get_config()))  # tuples become lists, as in a .keras
    again = MultiHeadAttention.from_config({k: v for k, v in config.items() if k not in left_out})
    again.build((None, 7, 24))
    assert (again.num_heads, again.key_dim, again.dropout) == (4, 6, 0.25)
    assert again.count_params() == layer.count_params() == 4 * (24 * 24 + 24)
