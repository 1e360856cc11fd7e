"""Gradients that TensorFlow registers for good, and the graphs that they hold: gone with the engine
that they are of, and no other's."""

import gc
import weakref

import keras
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("TensorFlow's alone", allow_module_level=True)

import tensorflow as tf
from tensorflow.python.framework import ops
from test_fused_parts import LENGTH, batch, engine_of

from kbert.training.engines import traced_gradients


def registered() -> set[str]:
    return {name for name in ops.gradient_registry.list() if name.startswith("CustomGradient-")}


class Owner:
    pass


def traced(owner):
    """A function that registers a gradient at its first call, and a reference to its graph."""

    @tf.custom_gradient
    def twice(x):
        return 2 * x, lambda gradient: 2 * gradient * tf.ones_like(x)

    function, owner = tf.function(lambda x: twice(x)), weakref.ref(owner)

    def call(x):
        with traced_gradients.owned_by(owner()):
            return function(x)

    return call


def test_gradient_functions_are_freed_with_their_owner():
    gc.collect()
    one, other, before = Owner(), Owner(), registered()
    of_one, of_other = traced(one), traced(other)
    assert float(of_one(tf.constant(3.0))) == 6
    ones = registered() - before
    of_other(tf.constant(3.0)), of_one(tf.constant([3.0])), of_one(tf.constant([3.0]))
    assert len(ones) == 1 and len(registered() - before) == 3
    del one
    gc.collect()
    assert len(registered() - before) == 1 and not ones & registered()
    del other
    gc.collect()
    assert registered() == before


def test_gradient_functions_of_a_failed_call_are_freed():
    owner, before = Owner(), registered()
    with pytest.raises(KeyError), traced_gradients.owned_by(owner):
        one = Owner()
        traced(one)(tf.constant(3.0))
        raise KeyError(3)
    del owner
    gc.collect()
    assert registered() == before


def test_owner_may_be_freed_during_a_search():
    """Python collects it whenever it likes."""
    gone, owner = Owner(), Owner()
    traced(gone)(tf.constant(3.0)), traced(owner)(tf.constant(3.0))
    numbers = traced_gradients._numbers()
    newest = next(numbers)
    del gone
    gc.collect()
    assert newest > max(numbers)


@pytest.mark.full
@pytest.mark.parametrize("length", [LENGTH, None])
def test_graph_and_gradients_are_freed_with_the_engine(length):
    gc.collect()
    before = registered()
    engine = engine_of("classifier", dropout=0.3, length=length)
    given = batch("classifier")
    engine.update(given, 0), engine.evaluate(given), engine.predict(given.inputs)
    assert len(registered() - before) > 20
    weight = weakref.ref(engine.weights[0].value)
    del engine
    gc.collect()
    assert registered() <= before
    gc.collect()
    assert weight() is None
