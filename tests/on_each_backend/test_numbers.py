"""The graph computes BERT: transformers' numbers, and padding that changes nothing."""

import shutil

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.marks import full
from helpers.peer_bert import CASES
from numpy.testing import assert_allclose, assert_array_equal

import kbert
from kbert.graph.config import ACTIVATIONS
from kbert.model.layers.encoder import MultiHeadAttention, TokenEmbedding
from kbert.ops.activations import activation

TOLERANCE = 1e-5


@pytest.mark.parametrize("place", [0, *(full(n) for n in (1, 2))])
def test_every_output_equals_transformers(small, peer, fill, place):
    """Of 2 blocks, and of 1 with another activation and epsilon."""
    config, arrays = small.replace(**CASES[place]), peer(place)
    model = kbert.build_bert(config, seq_len=None)
    fill(model, config, arrays)
    ids = arrays["token_ids"], arrays["segment_ids"]
    real = arrays["token_ids"] != 0
    found = kbert.predict(model, *ids)
    assert_allclose(found["MLM"][real], arrays["mlm_logits"][real], atol=TOLERANCE, rtol=1e-5)
    assert_allclose(found["NSP"], arrays["nsp_logits"], atol=TOLERANCE)
    states = kbert.predict(kbert.build_hidden_states(model), *ids)
    for state, expected in zip(states.values(), arrays["hidden_states"], strict=True):
        assert_allclose(state[real], expected[real], atol=TOLERANCE)
    maps = kbert.predict(kbert.build_attention_maps(model), *ids)
    for weights, expected in zip(maps.values(), arrays["attentions"], strict=True):
        by_query = real[:, None, :].repeat(weights.shape[1], axis=1)
        assert_allclose(weights[by_query], expected[by_query], atol=1e-6)


@full_on("jax", "torch")
def test_every_activation_equals_transformers(peer):
    theirs = peer("activations")
    values = theirs.pop("numbers")
    assert set(theirs) <= set(ACTIVATIONS)  # older releases of transformers have fewer
    for name, wanted in theirs.items():
        found = keras.ops.convert_to_numpy(activation(name)(keras.ops.convert_to_tensor(values)))
        assert_allclose(found, wanted, atol=2e-6, rtol=2e-6, err_msg=name)
        written = keras.activations.serialize(activation(name))
        written = written["config"] if isinstance(written, dict) else written
        assert written.removeprefix("kbert>") == ACTIVATIONS[name]


def test_padding_never_changes_a_real_token(small, peer, fill, ids):
    """One sentence, alone and padded: block 2 and later tell a mask that was lost."""
    model = kbert.build_encoder(small, seq_len=None)
    fill(model, small, peer())
    padded = list(kbert.predict(model, *ids).values())
    lengths, rows = np.unique((ids[0] != 0).sum(1), return_index=True)
    assert len(lengths) > 2
    for place in (0, len(lengths) // 2, -1):  # each length is compiled anew
        length, row = int(lengths[place]), rows[place]
        alone = list(kbert.predict(model, *(part[row, :length] for part in ids)).values())
        assert_allclose(padded[0][row, :length], alone[0][0], atol=2e-6)
        assert_allclose(padded[1][row], alone[1][0], atol=2e-6)


def test_segments_of_padding_change_nothing(small, peer, fill, ids):
    model = kbert.build_encoder(small, seq_len=None)
    fill(model, small, peer())
    token_ids, segment_ids = ids
    other = np.where(token_ids == 0, 2 - segment_ids, segment_ids)
    before, after = (kbert.predict(model, token_ids, part) for part in (segment_ids, other))
    assert not np.array_equal(other, segment_ids)
    real = token_ids != 0
    states = [next(iter(outputs.values()))[real] for outputs in (before, after)]
    assert_allclose(states[0], states[1], atol=2e-6)


def test_another_padding_token_is_masked(small, peer, fill, ids):
    config = small.replace(pad_token_id=5)
    token_ids, segment_ids = ids
    swapped = np.where(token_ids == 0, 5, np.where(token_ids == 5, 6, token_ids))
    model = kbert.build_encoder(config, seq_len=None)
    fill(model, config, peer())
    padded = next(iter(kbert.predict(model, swapped, segment_ids).values()))
    alone = next(iter(kbert.predict(model, swapped[1:2, :7], segment_ids[1:2, :7]).values()))
    assert_allclose(padded[1, :7], alone[0], atol=2e-6)


@full_on("jax")
def test_gathered_head_equals_the_full_head(small, peer, fill, ids):
    mirrored = kbert.build_bert(small, seq_len=11)
    gathered = kbert.build_bert(small, seq_len=11, max_predictions=5)
    for model in (mirrored, gathered):
        fill(model, small, peer())
    positions = np.random.default_rng(3).integers(0, 3, (13, 5))
    every = kbert.predict(mirrored, *ids)["MLM"]
    few = kbert.predict(gathered, *ids, positions)
    assert_allclose(few["MLM"], np.take_along_axis(every, positions[..., None], 1), atol=2e-6)
    assert few["MLM"].shape == (13, 5, 99)
    assert few["NSP"].shape == (13, 2)


@pytest.mark.full
@nightly_on("torch")  # a minute, most of it for Keras's own code
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of itself, as errors even within it
def test_compiled_outputs_equal_uncompiled(small, peer, fill, ids, backend):
    """XLA on TensorFlow and JAX, torch.compile on torch."""
    if backend == "torch" and not any(map(shutil.which, ("c++", "g++", "clang++", "cl"))):
        pytest.skip("torch.compile needs a C++ compiler, and there is none")
    model = kbert.build_encoder(small, seq_len=11)
    fill(model, small, peer())
    expected = model.predict(ids, verbose=0)
    model.compile(optimizer="sgd", jit_compile=True)
    for value, wanted in zip(model.predict(ids, verbose=0), expected, strict=True):
        assert_allclose(value, wanted, atol=TOLERANCE, rtol=1e-5)


def test_probes_leave_the_model_as_it_was(small):
    model = kbert.build_bert(small, seq_len=7)
    rows = kbert.model_rows(model)
    maps = kbert.build_attention_maps(model, layers=[-1, 1])
    states = kbert.build_hidden_states(model, layers=[0, 2, -1])
    assert kbert.model_rows(model) == rows
    assert maps.output_names == [
        "Encoder-2-MultiHeadSelfAttention-Weights",
        "Encoder-1-MultiHeadSelfAttention-Weights",
    ]
    assert [output.shape for output in states.outputs] == [(None, 7, 24)] * 3
    assert maps.get_layer("Embedding-Token") is model.get_layer("Embedding-Token")


class Seen(keras.layers.Layer):
    """Keeps the mask that it was given."""

    supports_masking = True

    def call(self, x, mask=None):
        self.mask = mask
        return x


def test_attention_dropout_keeps_the_mask():
    """Keras's own call clears that of its input, and the residual sum would find none."""
    ids = np.array([[5, 7, 3, 0, 0], [8, 0, 0, 0, 0]], "int32")
    x, _ = TokenEmbedding(11, 24)(keras.ops.convert_to_tensor(ids))
    attended = MultiHeadAttention(num_heads=3, key_dim=8, dropout=0.5)(x, training=True)
    for tensor in (x, attended):
        seen = Seen()
        seen(tensor)
        assert_array_equal(keras.ops.convert_to_numpy(seen.mask), ids != 0)
