"""`kbert.to_keras_nlp` gives a model of keras_nlp with the same numbers, and it opens again."""

import numpy as np
import pytest
from helpers.errors import logged, raises
from helpers.sizes import SIZES
from helpers.small_berts import change_weights, small_bert
from numpy.testing import assert_allclose, assert_array_equal

import kbert
from kbert.ops.activations import gelu

CLASSES = {
    "encoder": "BertBackbone",
    "pretraining": "BertMaskedLM",
    "classifier": "BertTextClassifier",
}


def made(head: str, **changes) -> kbert.Bert:
    """One whose weights tell erf and tanh GELU apart."""
    bert = small_bert(kbert.BertConfig(**SIZES | {"hidden_act": "gelu_new"} | changes), head)
    change_weights(bert.model, 0.3)
    return bert


def inputs():
    ids = np.random.default_rng(4).integers(1, 11, (13, 7))
    ids[1::2, 5:] = 0
    return ids, np.random.default_rng(5).integers(0, 2, ids.shape)


def computed(found, head):
    """keras_nlp's sequence output, or logits."""
    ids, segments = inputs()
    given = {"token_ids": ids, "segment_ids": segments, "padding_mask": ids != 0}
    if head == "pretraining":
        given["mask_positions"] = np.tile(np.arange(5), (13, 1))
    output = found(given)  # `predict` of a task takes texts
    return np.asarray(output["sequence_output"] if head == "encoder" else output)


@pytest.mark.full
@pytest.mark.parametrize("head", CLASSES)
def test_a_live_model_has_the_same_numbers_and_comes_back(head):
    pytest.importorskip("keras_nlp")
    bert = made(head)
    found = kbert.to_keras_nlp(bert)
    assert type(found).__name__ == CLASSES[head]
    again = kbert.load(found)
    ids, segments = inputs()
    ours = next(iter(kbert.predict(bert.model, ids, segments).values()))
    theirs = computed(found, head)
    if head == "classifier":
        assert_allclose(theirs, ours, atol=2e-5)
        tokens = found.preprocessor(["The dogs barked."])["token_ids"]
        wanted = bert.tokenizer.encode("The dogs barked.").ids
        assert list(np.asarray(tokens)[0][: len(wanted)]) == wanted
        assert again.tokenizer.tokens == bert.tokenizer.tokens
        assert found.optimizer.learning_rate == np.float32(5e-5)  # that KerasHub begins with
    elif head == "encoder":
        assert_allclose(theirs[ids != 0], ours[ids != 0], atol=2e-5)
    else:
        copy = made(head).model  # with the two things that keras_nlp's head has otherwise
        copy.set_weights(bert.model.get_weights())
        copy.get_layer("MLM-Dense").activation = gelu
        copy.get_layer("MLM-Norm").epsilon = 1e-5
        expected = kbert.predict(copy, ids, segments)["MLM"][:, :5]
        assert_allclose(theirs, expected, atol=5e-5)
    for layer in bert.model.layers:
        if layer.name != "NSP":
            for one, other in zip(
                layer.weights, again.model.get_layer(layer.name).weights, strict=True
            ):
                assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.full
def test_to_keras_nlp_warns_of_another_gelu():
    pytest.importorskip("keras_nlp")
    with logged("hidden_act=gelu"):
        kbert.to_keras_nlp(made("encoder", hidden_act="gelu"))


def test_to_keras_nlp_without_the_package_is_one_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with raises(ImportError, "pip install", "keras-nlp"):
        kbert.to_keras_nlp(made("encoder"))


@pytest.mark.full
def test_to_keras_nlp_refuses_heads_that_it_lacks():
    pytest.importorskip("keras_nlp")
    with raises(ValueError, "format keras_hub", "head", "pretraining"):
        kbert.to_keras_nlp(made("tokens"))
