"""Moving averages of the weights: computed as Keras's, evaluated, and left out if they are off."""

import itertools

import keras
import numpy as np
import pytest
from helpers.backends import full_on
from helpers.engines import build_engine, small_config
from helpers.training_batches import PREDICTIONS, arrays, batch_of

from kbert.graph.names import SEGMENT_EMBEDDING
from kbert.graph.spec import GraphSpec
from kbert.training.optimization.optimizers import Optimizer

EMA, STEPS, BATCH = 0.7, 4, 6
SPEC = GraphSpec(small_config(dropout=0.0), seq_len=11, max_predictions=PREDICTIONS)


def optimizer_of(name="adamw", ema=EMA):
    return Optimizer(name, 1e-2, total_steps=STEPS, schedule="cosine", ema=ema)


@pytest.fixture(scope="module")
def data():
    return arrays("pretraining", STEPS + 1, BATCH)


@pytest.fixture(scope="module")
def trained(data):
    """An engine after some steps, and its state after each of them, the first one's before."""
    engine = build_engine(SPEC, optimizer_of())
    states = [engine.state.all()]
    for step in range(STEPS):
        engine.update(batch_of(data, step), step)
        states.append(engine.state.all())
    return engine, states


@pytest.fixture(scope="module")
def plain():
    """The same engine without averages."""
    return build_engine(SPEC, optimizer_of(ema=None))


def averages_of(state: dict) -> dict:
    prefix = "optimizer/average/"
    return {n.removeprefix(prefix): one for n, one in state.items() if n.startswith(prefix)}


def weights_of(state: dict, names) -> dict:
    weights = {name.removeprefix("model/"): array for name, array in state.items()}
    return {name: weights[name] for name in names}


def test_averages_equal_those_of_keras(trained):
    """Of the weights after each step, by `ema_momentum` of an SGD that moves them there."""
    _, states = trained
    names = list(averages_of(states[0]))
    assert len(names) > 20 and weights_of(states[0], names)
    for name in names[:3] + names[-2:]:
        values = [weights_of(state, [name])[name] for state in states]
        variable = keras.Variable(values[0])
        sgd = keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=EMA)
        for before, after in itertools.pairwise(values):
            sgd.apply([keras.ops.convert_to_tensor(before - after)], [variable])
        sgd.finalize_variable_values([variable])
        expected = keras.ops.convert_to_numpy(variable)
        np.testing.assert_allclose(averages_of(states[-1])[name], expected, rtol=0, atol=1e-6)
        # the difference that the tolerance must see
        assert np.abs(values[-1] - expected).max() > 1e-4


def test_evaluation_uses_the_averages(trained, plain, data):
    engine, states = trained
    batch = batch_of(data, STEPS)
    found, outputs = engine.evaluate(batch), engine.predict(batch.inputs)

    averages = {f"model/{name}": array for name, array in averages_of(states[-1]).items()}
    last = {name: array for name, array in states[-1].items() if "/average/" not in name}
    plain.state.restore(last | averages)
    expected = plain.evaluate(batch)
    for name in expected:
        assert found[name] == pytest.approx(expected[name], rel=1e-5)
    for output, wanted in zip(outputs, plain.predict(batch.inputs), strict=True):
        np.testing.assert_allclose(output, wanted, atol=1e-5)
    plain.state.restore(last)
    assert plain.evaluate(batch)["MLM_loss"][0] != pytest.approx(found["MLM_loss"][0], rel=1e-4)


@full_on("tensorflow")
def test_averages_leave_the_training_as_it_is(trained, plain, data):
    """Without `ema` there are no more variables than before, and the same weights."""
    _, states = trained
    first = {name: array for name, array in states[0].items() if "/average/" not in name}
    plain.state.restore(first)
    for step in range(STEPS):
        plain.update(batch_of(data, step), step)
    state = plain.state.all()
    assert set(state) == {name for name in states[-1] if "/average/" not in name}
    for name, array in state.items():
        np.testing.assert_allclose(array, states[-1][name], atol=1e-6, err_msg=name)


@pytest.mark.full
def test_restored_averages_continue_bit_equal(trained, data):
    engine, states = trained
    last = engine.state.all()
    engine.state.restore(states[2])
    for step in range(2, STEPS):
        engine.update(batch_of(data, step), step)
    again = engine.state.all()
    assert [name for name in last if not np.array_equal(last[name], again[name])] == []


def test_step_that_is_not_applied_leaves_the_averages(trained, data):
    engine, states = trained
    name = f"model/{SEGMENT_EMBEDDING}/embeddings"
    engine.state.restore(states[-1] | {name: np.full_like(states[-1][name], 3e38)})
    metrics = engine.update(batch_of(data, 0), 0)
    assert not float(metrics["finite"])
    for name, array in averages_of(engine.state.all()).items():
        assert np.array_equal(array, averages_of(states[-1])[name]), name
    engine.state.restore(states[-1])


@full_on("jax", "tensorflow")
@pytest.mark.parametrize("name", ["lamb", keras.optimizers.Lion()], ids=["lamb", "Lion"])
def test_other_optimizers_have_averages(name, data):
    engine = build_engine(SPEC, optimizer_of(name))
    states = []
    for step in range(2):
        engine.update(batch_of(data, step), step)
        states.append(engine.state.all())
    for path, array in averages_of(states[1]).items():
        first, second = (weights_of(state, [path])[path] for state in states)
        expected = EMA * first.astype("float64") + (1 - EMA) * second
        np.testing.assert_allclose(array, expected, atol=1e-6)
