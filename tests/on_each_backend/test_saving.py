"""Models survive being saved, exported and made a part of others."""

import importlib.util

import numpy as np
import pytest
from helpers.backends import nightly_on
from numpy.testing import assert_allclose

import kbert

LOAD = """
import sys
from pathlib import Path
import numpy as np
import {first}, {second}
folder = Path(sys.argv[1])
data = np.load(folder / "inputs.npz")
for name in ("bert", "bigger"):
    model = keras.saving.load_model(folder / f"{{name}}.keras")
    outputs = model.predict([data[key] for key in data.files[: len(model.inputs)]], verbose=0)
    np.savez(folder / f"{{name}}.npz", *outputs)
    if isinstance(model, kbert.model.bert_model.BertModel):
        model.summary()
"""


OTHER = {"tensorflow": "jax", "jax": "torch", "torch": "tensorflow"}


@pytest.fixture(scope="module")
def inputs(peer):
    """The token ids of the peer, its segment ids, and marks."""
    token_ids, segment_ids = (peer()[name].astype("int32") for name in ("token_ids", "segment_ids"))
    return [token_ids, segment_ids, (token_ids % 3 == 0).astype("int32")]


@pytest.fixture(scope="module")
def bigger(small, peer, fill):
    """A model around an encoder, and the encoder."""
    import keras

    bert = kbert.build_encoder(small, seq_len=None)
    fill(bert, small, peer())
    token_ids = keras.Input((None,), dtype="int32", name="tokens")
    segment_ids = keras.Input((None,), dtype="int32", name="segments")
    sequence, pooled = bert([token_ids, segment_ids])
    scores = keras.layers.Dense(2, name="scores")(pooled)
    model = keras.Model([token_ids, segment_ids], [sequence, scores])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss=[None, loss])
    return model, bert


@pytest.mark.full
def test_encoder_in_a_larger_model_fits(inputs, bigger):
    import keras

    model, bert = bigger
    ids, labels = inputs[:2], np.arange(13) % 2
    padded = model.predict(ids, verbose=0)
    alone = model.predict([part[1:2, :7] for part in ids], verbose=0)
    assert_allclose(padded[0][1, :7], alone[0][0], atol=2e-6)  # the mask holds inside
    assert_allclose(padded[0], bert.predict(ids, verbose=0)[0], atol=2e-6)

    before = [np.array(keras.ops.convert_to_numpy(w)) for w in bert.trainable_weights[:2]]
    history = model.fit(ids, [np.zeros((13, 11, 24)), labels], epochs=6, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    after = [keras.ops.convert_to_numpy(w) for w in bert.trainable_weights[:2]]
    assert all(np.abs(a - b).max() > 0 for a, b in zip(before, after, strict=True))


@pytest.mark.full
@nightly_on("jax")
@pytest.mark.parametrize(
    "order",
    [("kbert", "keras"), pytest.param(("keras", "kbert"), marks=nightly_on("jax", "torch"))],
)
def test_keras_files_give_equal_outputs_in_a_new_process(
    small, peer, fill, inputs, bigger, tmp_path, order, backend, run_python
):
    """Of BERT, and of a fitted model around it: a process that knows no custom_objects.

    Where kbert is imported first, on another backend.
    """
    if order[0] == "kbert":
        backend = OTHER[backend]
        if importlib.util.find_spec(backend) is None:
            pytest.skip(f"{backend} is not installed")
    model = kbert.build_bert(small, seq_len=11)
    fill(model, small, peer())
    np.savez(tmp_path / "inputs.npz", *inputs)
    models = {"bert": model, "bigger": bigger[0]}
    for name, one in models.items():
        one.save(tmp_path / f"{name}.keras")
    code = LOAD.format(first=order[0], second=order[1])
    done = run_python(code, tmp_path, backend=backend)
    for name, one in models.items():
        expected = one.predict(inputs[: len(one.inputs)], verbose=0)
        found = np.load(tmp_path / f"{name}.npz")
        for value, wanted in zip(found.values(), expected, strict=True):
            assert_allclose(value, wanted, atol=1e-5, rtol=1e-5)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("_")]
    assert all(any(row.layer in line for line in lines) for row in kbert.model_rows(model))


@pytest.mark.full
def test_exported_savedmodel_gives_equal_outputs(small, peer, fill, inputs, tmp_path, backend):
    if backend != "tensorflow":
        pytest.skip("a SavedModel is TensorFlow's")
    import tensorflow as tf

    model = kbert.build_bert(small, seq_len=None)
    fill(model, small, peer())
    model.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "exported"))
    for length in (11, 7):
        cut = [part[:, :length] for part in inputs]
        for value, wanted in zip(loaded.serve(cut), model.predict(cut, verbose=0), strict=True):
            assert_allclose(value.numpy(), wanted, atol=2e-6)
    padded, alone = loaded.serve(inputs), loaded.serve([part[1:2, :7] for part in inputs])
    assert_allclose(padded[0].numpy()[1, :7], alone[0].numpy()[0], atol=2e-6)


@pytest.mark.full
def test_attention_maps_survive_saving(small, peer, fill, ids, tmp_path):
    import keras

    model = kbert.build_encoder(small, seq_len=11)
    fill(model, small, peer())
    maps = kbert.build_attention_maps(model, layers=[2])
    maps.save(tmp_path / "maps.keras")
    loaded = keras.saving.load_model(tmp_path / "maps.keras")
    assert_allclose(loaded.predict(ids, verbose=0), maps.predict(ids, verbose=0), atol=1e-6)
