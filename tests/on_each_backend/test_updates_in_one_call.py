"""Several updates in one call of the device: those of one a call, and the run around them too."""

import keras
import numpy as np
import pytest
from helpers.rounds import full_on
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS
from test_training_ahead import BAD, SEGMENT, SEGMENTS, STEPS, Batches

import kbert
from kbert.training import engines
from kbert.training.loop.loop import NotFinite, train
from kbert.training.optimizers import Optimizer
from kbert.training.run.run_folder import RunFolder
from kbert.training.run.state_files import read_state

TOGETHER = 3


@pytest.fixture(scope="module")
def made():
    """Engines of one update a call and of several, with dropout, and their first state."""
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": 1})
    found = []
    for together in (1, TOGETHER):
        keras.utils.set_random_seed(11)
        engine = engines.start()
        with engine.scope():
            model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS)
        settings = Optimizer(learning_rate=1e-2, total_steps=50)
        engine.prepare(model, settings, accumulation=2, steps_per_execution=together, seed=3)
        found.append(engine)
    return found, found[0].state()


@pytest.fixture
def both(made):
    found, first = made
    for engine in found:
        engine.restore(first)
    return found


def assert_equal(state, expected):
    assert state.keys() == expected.keys()
    assert not [name for name in state if not np.array_equal(state[name], expected[name])]


def test_several_steps_per_call_equal_single_steps(both):
    one, several = both
    batches = [Batches().batch(step) for step in range(STEPS) if step != BAD]
    expected = [one.updates([batch], step)()[0] for step, batch in enumerate(batches)]
    found = []
    for step in range(0, len(batches), TOGETHER):
        found += several.updates(batches[step : step + TOGETHER], step)()
    assert found == expected and len(expected) % TOGETHER == 0
    rest = [one.updates(batches[n : n + 1], 6 + n)()[0] for n in range(2)]
    assert several.updates(batches[:2], 6)() == rest  # a call that is not full
    assert_equal(several.state(), one.state())


def run_of(engine, folder, **options):
    RunFolder.create(folder, {}, {}, keep="all")
    run = RunFolder.open(folder)
    history = train(engine, Batches(), STEPS, run=run, show=False, **options)
    lines = [
        {
            name: value
            for name, value in line.items()
            if name not in ("seconds", "tokens_per_second")
        }
        for line in history.updates
    ]
    states = {path.name: read_state(path)[0] for path in folder.glob("checkpoints/*")}
    return lines, states, history.stopped


def stops_after(update: int, model) -> keras.callbacks.Callback:
    """Ends the run at the end of an epoch."""

    def at_end(epoch, logs):
        model.stop_training = (epoch + 1) * 5 >= update

    return keras.callbacks.LambdaCallback(on_epoch_end=at_end)


@pytest.mark.full
@pytest.mark.parametrize("stopped", [False, True])
def test_run_with_steps_per_call_acts_at_the_same_steps(both, tmp_path, stopped):
    """Calls of 3 where a state is saved every 4 updates and an evaluation comes every 5."""
    found = []
    for place, engine in enumerate(both):
        batch = Batches().batch(0)

        def evaluate(engine=engine, batch=batch):
            pairs = engine.evaluate(batch)
            return {"loss": sum(pair[0] for name, pair in pairs.items() if "loss" in name)}

        callbacks = [stops_after(5, engine.model)] if stopped else []
        options = {"save_every": 4, "evaluate": evaluate, "evaluate_every": 5, "log_every": 2}
        found.append(run_of(engine, tmp_path / str(place), callbacks=callbacks, **options))
    (lines, states, why), (others, other_states, other_why) = found
    assert others == lines and other_why == why and bool(why) == stopped
    assert [line["step"] for line in lines] == ([2, 4, 5] if stopped else [2, 4, 5, 6, 7])
    assert other_states.keys() == states.keys() and len(states) > 1
    for name in states:
        assert_equal(other_states[name], states[name])


@full_on("jax", "tensorflow")
def test_no_step_in_a_call_follows_a_non_finite_one(both):
    one, several = both
    state = one.state()
    state[SEGMENTS][SEGMENT] = 3e38
    for engine in both:
        engine.restore(state)
    for step in range(BAD):
        one.updates([Batches().batch(step)], step)
    with pytest.raises(NotFinite, match=rf"update {BAD + 1} is not finite .* batch {BAD}, row 4"):
        train(several, Batches(), STEPS, show=False)
    assert_equal(several.state(), one.state())


def test_batch_callbacks_get_one_step_per_call(both):
    _, several = both
    seen = []
    watching = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(
            (batch, float(several.state()["optimizer/iteration"]))
        )
    )
    train(several, Without(), 4, callbacks=[watching], show=False)
    assert seen == [(step, step + 1.0) for step in range(4)]


class Without(Batches):
    """No batch of those has the segment that fails."""

    def batch(self, step, part=slice(None)):
        return super().batch(step + BAD + 1, part)
