"""A graph's specification is a value, and a model keeps it when it is saved or copied."""

import dataclasses
import pickle

import keras
import numpy as np
import pytest
from helpers.errors import raises
from helpers.marks import full

import kbert
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.model.builder import build

SIZES = {"pretraining": {"max_predictions": 5}, "tokens": {"num_labels": 3}}


def spec_of(small, head: str, **others) -> GraphSpec:
    """All sizes differ from their defaults and from each other."""
    sizes = {"seq_len": 11, "num_labels": 4} | SIZES.get(head, {}) | others
    return GraphSpec(small, head, **sizes)


def test_specs_are_equal_by_value_and_immutable(small):
    assert len({GraphSpec(small, seq_len=np.int64(7)), GraphSpec(small, seq_len=7)}) == 1
    assert GraphSpec(small, "tokens", num_labels=3) != GraphSpec(small, "tokens")
    assert GraphSpec(small, "qa", num_labels=3) == GraphSpec(small, "qa")  # it has no labels
    assert GraphSpec.of(small) == GraphSpec(small, seq_len=17) != GraphSpec(small)
    with pytest.raises(dataclasses.FrozenInstanceError):
        GraphSpec(small).head = "qa"


@pytest.mark.full
@pytest.mark.parametrize("head", ["tokens", *(full(head) for head in HEADS if head != "tokens")])
def test_spec_survives_save_clone_config_and_pickle(small, tmp_path, head):
    dtype = "mixed_bfloat16" if head == "pretraining" else "float32"
    spec = spec_of(small.replace(hidden_act="gelu_new", pad_token_id=4), head, dtype=dtype)
    model = build(spec)
    assert model.spec == spec and list(spec.outputs) == model.output_names
    model.save(tmp_path / "bert.keras")
    assert keras.saving.load_model(tmp_path / "bert.keras").spec == spec
    assert keras.models.clone_model(model).spec == spec
    assert type(model).from_config(model.get_config()).spec == spec
    assert pickle.loads(pickle.dumps(model)).spec == spec


def test_saved_and_loaded_checkpoint_keeps_the_spec(small, tmp_path):
    model = kbert.build_token_classifier(small, num_labels=3, seq_len=11)
    bert = kbert.Bert(small, "tokens", model)
    assert bert.spec is model.spec
    for path in ("bert", "bert.keras"):
        kbert.save(bert, tmp_path / path)
        loaded = kbert.load(tmp_path / path, seq_len=7, head="BertForTokenClassification")
        assert loaded.spec == dataclasses.replace(model.spec, seq_len=7)


@pytest.mark.full
def test_view_of_a_model_has_no_spec(small, tmp_path):
    model = kbert.build_encoder(small, seq_len=7)
    views = [
        kbert.build_hidden_states(model),
        kbert.build_attention_maps(model, layers=[-1]),
    ]
    for view in views:
        assert view.spec is None
        view.save(tmp_path / "view.keras")
        assert keras.saving.load_model(tmp_path / "view.keras").spec is None


def test_changed_model_has_no_spec(small):
    model = kbert.build_encoder(small, seq_len=7)
    copy = keras.models.clone_model(model, call_function=lambda layer, *a, **k: layer(*a, **k))
    assert copy.spec == model.spec
    own = type(model)(model.inputs, keras.layers.Dense(3)(model.outputs[1]))
    assert own.spec is None


@pytest.mark.full
def test_spec_of_a_plain_keras_model_is_read_from_its_layers(small):
    classifier = kbert.build_classifier(small, num_labels=5, seq_len=11)
    own = keras.Model(classifier.inputs, classifier.outputs)  # Keras's own class
    bert = kbert.Bert(small, "classifier", own)
    assert bert.spec == GraphSpec(small, "classifier", seq_len=11, num_labels=5)
    ids = np.full((2, 11), 3)
    found = kbert.predict(own, ids)["Classifier"]
    np.testing.assert_array_equal(found, kbert.predict(classifier, ids)["Classifier"])
    with raises(ValueError, "token_ids", 11, 7):
        kbert.predict(kbert.build_hidden_states(own), ids[:, :7])
