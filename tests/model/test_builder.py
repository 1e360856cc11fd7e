"""The built graph equals document 004 row by row, and Keras says the same of it."""

import math

import keras
import numpy as np
import pytest

import kbert
from kbert.graph import closed_form
from kbert.graph.reference import document_004, published_totals
from kbert.graph.spec import GraphSpec
from kbert.model.deferred import build_outline


def test_base_is_document_004s_functional_graph(base_model):
    rows = kbert.model_rows(base_model)
    assert len(rows) == 112 and rows == document_004()
    assert base_model.count_params() == 109_705_010
    names = [row.layer for row in rows]
    assert [layer.name for layer in base_model.layers] == names
    assert [operation.name for operation in base_model.operations] == names
    assert isinstance(base_model, keras.Model)
    assert "Functional" in [kind.__name__ for kind in type(base_model).__mro__]
    inputs = [(tensor.name, tensor.shape, tensor.dtype) for tensor in base_model.inputs]
    assert inputs == [
        (name, (None, 512), "int32") for name in ("Input-Token", "Input-Segment", "Input-Masked")
    ]
    assert base_model.output_names == ["MLM", "NSP"]
    assert [tensor.shape for tensor in base_model.outputs] == [(None, 512, 30_000), (None, 2)]


def test_base_has_12_keras_attention_layers_with_12_heads(base_model):
    kind = keras.layers.MultiHeadAttention
    layers = [layer for layer in base_model.layers if isinstance(layer, kind)]
    assert len(layers) == 12
    assert {tuple(layer.query_dense.kernel.shape) for layer in layers} == {(768, 12, 64)}


def test_build_takes_a_name_a_file_or_a_configuration(small, tmp_path):
    small.to_json(tmp_path / "config.json")
    built = [kbert.build_bert(given) for given in (small, tmp_path / "config.json")]
    assert kbert.model_rows(built[0]) == kbert.model_rows(built[1])
    assert kbert.build_bert("tiny").get_layer("Embedding-Token").input_dim == 30_522


@pytest.mark.parametrize("seq_len", [None, 7, 17])
@pytest.mark.parametrize("max_predictions", [None, 5])
def test_graph_of_any_length_equals_its_closed_form(small, seq_len, max_predictions):
    options = {"seq_len": seq_len, "max_predictions": max_predictions}
    rows = kbert.model_rows(kbert.build_bert(small, **options))
    assert rows == closed_form.rows(GraphSpec(small, **options))


@pytest.mark.parametrize(
    ("head", "total"),
    [
        ("encoder", 109_482_240),
        ("classifier", 109_483_778),
        # without the pooler's 768·768 + 768, with 768·2 + 2
        ("tokens", 109_482_240 - 590_592 + 1_538),
        ("qa", 109_482_240 - 590_592 + 1_538),
    ],
)
def test_every_head_has_the_published_number_of_parameters(head, total):
    spec = GraphSpec.of("base_uncased", head)
    model = build_outline(spec)
    assert model.count_params() == total
    assert kbert.model_rows(model) == closed_form.rows(spec)


def test_built_miniatures_have_their_published_parameters():
    for entry in published_totals():
        if entry.config.hidden_size > 512:
            continue  # those are counted in closed form, and base_uncased above
        model = build_outline(GraphSpec(entry.config, "encoder"))
        assert model.count_params() == entry.params_encoder_and_pooler


def test_labels_and_lengths_reach_the_outputs(small):
    assert kbert.build_classifier(small, num_labels=5).output_shape == (None, 5)
    tokens = kbert.build_token_classifier(small, num_labels=5, seq_len=7)
    assert tokens.output_shape == (None, 7, 5)
    answers = kbert.build_question_answering(small, seq_len=None)
    assert answers.output_shape == [(None, None), (None, None)]


def test_dropout_layers_have_the_configurations_rates(small):
    config = small.replace(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
    model = kbert.build_classifier(config)
    dropouts = [layer for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
    assert len(dropouts) == 1 + 2 * 3 + 1
    assert {layer.rate for layer in dropouts} == {0.3}
    attention = [layer for layer in model.layers if hasattr(layer, "num_heads")]
    assert [layer.dropout for layer in attention] == [0.2] * 3


def test_initial_weights_follow_googles_initializer():
    """google-research/bert, create_initializer: a normal cut at two deviations; zeros; ones."""
    config = kbert.BertConfig(
        vocab_size=997,
        hidden_size=96,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=311,
        initializer_range=0.05,
    )
    model = kbert.build_bert(config)
    kernels = []
    for weight in model.weights:
        values = keras.ops.convert_to_numpy(weight)
        if weight.path.endswith(("/bias", "/beta")):
            assert not values.any(), weight.path
        elif weight.path.endswith("/gamma"):
            assert (values == 1).all(), weight.path
        else:
            kernels.append(values.ravel())
            assert np.abs(values).max() <= 0.1, weight.path
    everything = np.concatenate(kernels)
    # Deviation of a standard normal cut at ±2: sqrt(1 − 4φ(2) / (2Φ(2) − 1)) = 0.8796.
    cut = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))
    assert everything.std() == pytest.approx(0.05 * cut, rel=0.01)
    assert abs(everything.mean()) < 3 * 0.05 / math.sqrt(everything.size)
    starts = {tuple(kernel[:5]) for kernel in kernels}
    assert len(starts) == len(kernels)  # no two tables share their numbers


def test_dropout_acts_in_training_only(small):
    model = kbert.build_encoder(small, seq_len=7)
    ids = [np.ones((13, 7), "int32"), np.zeros((13, 7), "int32")]
    still = [np.asarray(model(ids, training=False)[0]) for _ in range(2)]
    moving = [np.asarray(model(ids, training=True)[0]) for _ in range(2)]
    np.testing.assert_array_equal(*still)
    assert np.abs(moving[0] - moving[1]).max() > 1e-3
