"""TensorFlow's step as XLA compiles it: whole, or a program per kind of weight."""

import keras
import numpy as np
import pytest
from helpers.engines import build_engine, small_config
from helpers.training_batches import PREDICTIONS, arrays, batch_of

from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization import optimizers
from kbert.training.step.trained_weights import TrainedWeights

tensorflow_engine = pytest.importorskip("kbert.training.backends.tensorflow")
UPDATES = 3
SPEC = GraphSpec(small_config(), seq_len=11, max_predictions=PREDICTIONS)


def trained(monkeypatch, worth):
    """An engine after some updates of a model whose weights decay every other one, of three every
    third with half of the rate."""
    places = iter(range(10**6))
    monkeypatch.setattr(optimizers, "is_decayed", lambda path: next(places) % 2 == 0)
    monkeypatch.setattr(tensorflow_engine, "WORTH_COMPILING", worth)
    keras.utils.set_random_seed(5)
    backend = backends.start()
    with backend.scope():
        model = build(SPEC)
    settings = optimizers.Optimizer("lamb", 0.01, total_steps=9, weight_decay=0.3)
    weights = model.trainable_variables
    rates = [0.5 if n % 3 == 0 else 1.0 for n in range(len(weights))]
    engine = Engine(backend, model, settings, TrainedWeights(weights, rates))
    batches = arrays("pretraining", UPDATES, 13)
    for step in range(UPDATES):
        engine.update(batch_of(batches, step), step)
    return engine


@pytest.mark.full
def test_compiled_step_equals_uncompiled_step(monkeypatch):
    engine = trained(monkeypatch, 0)
    found, wanted = engine.state.all(), trained(monkeypatch, 10**9).state.all()
    for path, one, other in zip(found, found.values(), wanted.values(), strict=True):
        # a step is 0.01; a key's bias has no gradient but rounding, which Adam makes a step of
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=5e-5, err_msg=path)
    shapes = [tuple(weight.shape) for weight in engine.state.variables.weights]
    kinds = set(zip(shapes, engine.step.decayed, strict=True))
    assert engine.backend.assign_update.experimental_get_tracing_count() == len(kinds)


@pytest.mark.full
def test_xla_program_has_no_dynamic_size():
    """One would stand between XLA's fusions: dropout's numbers are then drawn for each anew."""
    engine = build_engine(SPEC, jit=True)
    (values,), (seeds,) = engine.split(batch_of(arrays("pretraining", 1, 13), 0)), engine.seeds(0)
    update = engine.program.update_function
    program = update.experimental_get_compiler_ir(values, seeds)(stage="hlo")
    assert program.count("rng-bit-generator(") == 3 + 1  # dropout is there: it is whole
    assert "set-dimension-size" not in program
