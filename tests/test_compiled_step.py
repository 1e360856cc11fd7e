"""TensorFlow's step with a program for each kind of weight, beside the one that is not compiled."""

from functools import partial

import numpy as np
import pytest
import test_fused_parts

from kbert.training import optimizers

tensorflow_engine = pytest.importorskip("kbert.training.engines.tensorflow_engine")


def weights_after(monkeypatch, worth, updates=3):
    """Of a classifier whose weights decay every other one, whatever they are."""
    places = iter(range(10**6))
    monkeypatch.setattr(optimizers, "is_decayed", lambda path: next(places) % 2 == 0)
    monkeypatch.setattr(tensorflow_engine, "_WORTH_COMPILING", worth)
    plain = partial(optimizers.Optimizer, learning_rate=0.01, weight_decay=0.3)
    monkeypatch.setattr(test_fused_parts, "Optimizer", plain)
    engine = test_fused_parts.engine_of("classifier")
    assert engine._alone == (worth == 0)
    for step in range(updates):
        engine.update(test_fused_parts.batch("classifier"), step)
    return engine, [np.asarray(weight) for weight in engine.model.trainable_variables]


def test_the_weights_are_those_of_the_step_that_is_not_compiled(monkeypatch):
    engine, found = weights_after(monkeypatch, worth=0)
    _, wanted = weights_after(monkeypatch, worth=10**9)
    for one, other in zip(found, wanted, strict=True):
        # a step is 0.01; a key's bias has no gradient but rounding, which Adam makes a step of
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=5e-5)
    kinds = {(tuple(w.shape), d) for w, d in zip(engine.weights, engine.decayed, strict=True)}
    assert len(set(engine._alike)) == len(kinds) < len(engine.weights) / 2
