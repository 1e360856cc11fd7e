"""Layers whose numbers and names are set without Keras's search are as Keras makes them."""

import contextlib
import threading

import keras
import pytest
from helpers.rounds import nightly_on

import kbert
from kbert.model import keras_internals

PLAIN = (bool, int, float, str, type(None))
OWN = keras.Layer.__setattr__
NONE = object()
COUNTED = {"_self_update_uid"}  # of TensorFlow's: how often an object has been looked at


@pytest.fixture
def not_tried_yet():
    """Has Keras be looked at again, then and afterwards."""
    keras_internals._finds_nothing_in_plain_values.cache_clear()
    yield
    keras_internals._finds_nothing_in_plain_values.cache_clear()


def plain(layer) -> dict:
    """Its numbers and names, but those that are the class's own."""
    values = {name: getattr(layer, name) for name in vars(layer) if name not in COUNTED}
    return {
        name: value
        for name, value in values.items()
        if type(value) in PLAIN and value is not getattr(type(layer), name, NONE)
    }


def tracked(layer) -> dict:
    """What the layer holds by name: of Keras's, and of TensorFlow's."""
    kinds = ("_trainable_variables", "_non_trainable_variables", "_layers", "_metrics")
    found = {kind: [one.name for one in getattr(layer, kind)] for kind in kinds}
    children = getattr(layer, "_trackable_children", dict)()
    return found | {"of TensorFlow": {name: type(one) for name, one in children.items()}}


def layers_of(model) -> list:
    return [model, *model._flatten_layers(include_self=False)]


@nightly_on("jax", "torch")
def test_layer_has_the_attributes_that_keras_gives(small, monkeypatch):
    keras.utils.clear_session()  # and with it the numbers of names: softmax_3
    with monkeypatch.context() as patch:
        patch.setattr(keras_internals, "set_plainly", contextlib.nullcontext)
        usual = kbert.build_bert(small)
    keras.utils.clear_session()
    model = kbert.build_bert(small)
    assert len(layers_of(model)) > 40
    for found, wanted in zip(layers_of(model), layers_of(usual), strict=True):
        assert type(found) is type(wanted)
        assert plain(found) == plain(wanted), found.name
        assert tracked(found) == tracked(wanted), found.name
    assert model.get_config() == usual.get_config()


def test_only_tensorflow_is_patched_and_keras_is_restored(small):
    spared = keras.backend.backend() == "tensorflow"
    with keras_internals.set_plainly():
        assert (keras.Layer.__setattr__ is not OWN) == spared
        with keras_internals.set_plainly():
            pass
        assert (keras.Layer.__setattr__ is not OWN) == spared
    assert keras.Layer.__setattr__ is OWN
    with pytest.raises(ZeroDivisionError), keras_internals.set_plainly():
        _ = 1 / 0
    assert keras.Layer.__setattr__ is OWN


def test_keras_is_restored_after_overlapping_threads():
    first, second = threading.Event(), threading.Event()

    def other():
        with keras_internals.set_plainly():
            second.set()
            first.wait(60)

    thread = threading.Thread(target=other)
    with keras_internals.set_plainly():
        thread.start()
        assert second.wait(60)
    first.set()
    thread.join(60)
    assert keras.Layer.__setattr__ is OWN


def test_keras_with_more_attribute_handling_is_respected(small, monkeypatch, not_tried_yet):
    seen = []

    def keeps_count(self, name, value):
        OWN(self, name, value)
        if type(value) in PLAIN:
            vars(self).setdefault("counted", []).append(name)
            seen.append(name)

    monkeypatch.setattr(keras.Layer, "__setattr__", keeps_count)
    model = kbert.build_encoder(small)
    assert seen and "supports_masking" in model.layers[-1].counted
