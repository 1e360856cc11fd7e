"""What a save copies: the numbers of its moment, in the same memory each time."""

import numpy as np
import pytest
from helpers.sizes import SIZES
from helpers.training_batches import arrays, batch_of

import kbert
from kbert.training import engines
from kbert.training.engines.host_memory import HostMemory
from kbert.training.optimizers import Optimizer


@pytest.fixture(scope="module")
def engine():
    import keras

    keras.utils.set_random_seed(3)
    found = engines.start()
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": 1})
    model = kbert.build_classifier(config, seq_len=11, num_labels=3)
    found.prepare(model, Optimizer(total_steps=9))
    return found


@pytest.fixture(scope="module")
def update(engine):
    data = arrays("classifier", 6, 12)

    def run(step: int) -> None:
        float(engine.update(batch_of(data, step), step)["loss"])

    return run


def held(state: dict) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in state.items()}


def test_training_steps_leave_a_snapshot_unchanged(engine, update):
    """They write to the weights' own memory: a view would change with them."""
    update(0)
    snapshot = engine.snapshot()
    before = held(snapshot)
    assert before == held(engine.state())
    update(1)
    update(2)
    assert held(snapshot) == before
    assert all(not np.array_equal(after, snapshot[name]) for name, after in moved(engine))
    engine.restore(snapshot)
    assert held(engine.state()) == before


def moved(engine):
    return [pair for pair in engine.state().items() if pair[0].startswith("optimizer/first/")]


def test_next_snapshot_reuses_memory_and_a_state_does_not(engine, update):
    first = engine.snapshot()
    state = engine.state()
    kept, before = held(state), held(first)
    update(3)
    second = engine.snapshot()
    assert all(np.shares_memory(second[name], array) for name, array in first.items())
    assert held(second) == held(engine.state()) != before
    assert held(state) == kept == before


def test_restoring_weights_keeps_the_optimizer_state(engine, update):
    def parts():
        of_model, of_optimizer = {}, {}
        for name, value in held(engine.state()).items():
            (of_optimizer if name.startswith("optimizer/") else of_model)[name] = value
        return of_model, of_optimizer

    update(4)
    weights, (before, _) = engine.weights_now(), parts()
    update(5)
    after, moments = parts()
    assert after != before and held(weights) == before
    engine.restore_weights(weights)
    assert parts() == (before, moments)


def test_snapshot_arrays_are_contiguous_and_in_order():
    memory = HostMemory()
    whole = np.arange(42, dtype="float32").reshape(6, 7)
    given = {"turned": whole.T, "every other": whole[::2], "one": np.float32(3), "none": whole[:0]}
    for _ in range(2):
        found = memory.copies({name: np.asarray(array) for name, array in given.items()})
        for name, array in given.items():
            assert found[name].flags.c_contiguous and found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    other = memory.copies({"one": np.arange(3)})
    assert list(other) == ["one"] and other["one"].tolist() == [0, 1, 2]
