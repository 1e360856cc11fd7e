"""A model that does not fit its configuration is not saved: a part would be lost."""

import dataclasses

import pytest
from helpers.errors import raises

import kbert


@pytest.fixture(scope="module")
def bert(small):
    return kbert.Bert(small, "encoder", kbert.build_encoder(small))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_hidden_layers": 2}, "Encoder-3-.* has no place; .*; and 13 more"),
        ({"num_hidden_layers": 4}, "Encoder-4-.* is not in the model"),
        ({"vocab_size": 98}, r"Embedding-Token/embeddings is \(99, 24\), not \(98, 24\)"),
        ({"num_attention_heads": 6}, r"is \(24, 4, 6\), not \(24, 6, 4\)"),
    ],
)
@pytest.mark.parametrize("form", ["transformers", "google", "keras_hub", "keras", "saved_model"])
def test_model_of_another_configuration_is_not_saved(small, bert, tmp_path, change, said, form):
    other = dataclasses.replace(bert, config=small.replace(**change))
    path = tmp_path / ("bert.keras" if form == "keras" else "bert")
    with raises(ValueError, "head encoder") as e:
        kbert.save(other, path, format=form)
    assert e.match(said)
    assert not list(tmp_path.iterdir())


def test_model_with_extra_layers_is_not_saved(small, tmp_path):
    import keras

    both = kbert.build_bert(small)
    with raises(ValueError, "MLM-Dense/kernel"):
        kbert.save(kbert.Bert(small, "encoder", both), tmp_path / "bert")
    encoder = kbert.build_encoder(small)
    top = keras.layers.Dense(5, name="Mine")(encoder.outputs[1])
    model = keras.Model(encoder.inputs, [*encoder.outputs, top])
    with raises(ValueError, "Mine/kernel"):
        kbert.save(kbert.Bert(small, "encoder", model), tmp_path / "bert")
    assert not list(tmp_path.iterdir())
