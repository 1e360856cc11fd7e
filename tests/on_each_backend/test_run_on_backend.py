"""The run around the step, on each backend: callbacks, stopping, going on, what is not finite."""

import gc
import re
import weakref
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.errors import raises
from helpers.run_shards import CONFIG, SETTINGS, make_shards, without_times

import kbert
from kbert.training.loop.callbacks import refuse_harmful
from kbert.training.run.state_files import read_state

QUICK = SETTINGS | {"steps": 9, "evaluate_every": 3, "save_every": 4}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return make_shards(tmp_path_factory.mktemp("data"))


def run_on(shards, output, callbacks=()):

    options = {"output": output, "progress": False, "peak_flops": 1e9, "callbacks": callbacks}
    return kbert.pretrain(shards, kbert.BertConfig(**CONFIG), **options, **QUICK)


@pytest.fixture
def start(shards, tmp_path):
    return lambda name, callbacks=(): run_on(shards, tmp_path / name, callbacks)


@pytest.fixture(scope="module")
def whole(shards, noting, tmp_path_factory):
    """A run from its first update to its last, with two callbacks that look on."""
    folder = tmp_path_factory.mktemp("whole")
    own, table = noting(), keras.callbacks.CSVLogger(folder / "log.csv")
    return run_on(shards, folder / "run", [own, table]), own.calls, own.norms, folder / "log.csv"


@pytest.fixture(scope="module")
def noting():
    """A callback that notes what it is called with."""

    class Noting(keras.callbacks.Callback):
        def __init__(self, stop_after=None):
            super().__init__()
            self.calls, self.stop_after, self.norms = [], stop_after, []

        def on_train_begin(self, logs=None):
            self.calls.append("begin")

        def on_epoch_begin(self, epoch, logs=None):
            self.calls.append(("epoch", epoch))

        def on_train_batch_end(self, batch, logs=None):
            self.calls.append((batch, logs["MLM_loss"]))
            self.norms.append(sum(float(np.abs(w).sum()) for w in self.model.get_weights()))
            if len(self.norms) == self.stop_after:
                self.model.stop_training = True

        def on_epoch_end(self, epoch, logs=None):
            self.calls.append(("end", epoch, logs["MLM_loss"], logs.get("val_loss")))

        def on_train_end(self, logs=None):
            self.calls.append("end")

    return Noting


@pytest.mark.full
def test_callbacks_are_called_as_fit_calls_them(whole):
    trained, calls, norms, table = whole
    lines = trained.history.updates
    losses = [line["MLM_loss"] for line in lines]
    assert calls[0] == "begin" and calls[-1] == "end"
    batches = [call for call in calls if isinstance(call[0], int)]
    assert batches == [(step % 3, loss) for step, loss in enumerate(losses)]
    ends = [call for call in calls if call[0] == "end" and call != "end"]
    assert [call[1] for call in ends] == [0, 1, 2]
    for (_, epoch, mean, value), line in zip(ends, trained.history.evaluations, strict=True):
        assert mean == pytest.approx(np.mean(losses[3 * epoch : 3 * epoch + 3]), rel=1e-6)
        assert value == line["val_loss"]
    assert len(set(norms)) >= 8  # the weights are those of the update (the first rate is 0)
    rows = table.read_text(encoding="utf-8").splitlines()
    assert len(rows) == 4 and "val_MLM_accuracy" in rows[0]


@pytest.mark.full
@nightly_on("jax")
def test_memory_of_earlier_runs_is_freed(start):
    """Weights, moments and programs of a run are gone once the next one computes."""
    made, alive = weakref.WeakSet(), []

    class Seeing(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            made.add(self.model)
            alive.append(len(made))

    gc.collect()
    gc.disable()  # chance alone
    try:
        for name in ("one", "two"):
            start(name, [Seeing()])
    finally:
        gc.enable()
    assert alive == [1, 1]


@full_on("tensorflow")
@nightly_on("jax")
def test_resume_in_the_same_process_is_bit_equal(start, whole, noting, tmp_path):

    from kbert.training.stopping import Stopped

    class Asks(noting):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if len(self.norms) == 5:
                import signal

                signal.raise_signal(signal.SIGTERM)

    with raises(Stopped, "step 5 of 9", "kbert", tmp_path / "stopped"):
        start("stopped", [Asks()])
    again = kbert.resume(tmp_path / "stopped", progress=False, peak_flops=1e9)
    whole = whole[0]
    assert without_times(again.history.updates) == without_times(whole.history.updates)
    np.testing.assert_equal(again.bert.model.get_weights(), whole.bert.model.get_weights())


@pytest.mark.full
@nightly_on("jax")
def test_non_finite_output_stops_the_run_and_is_named(start, noting, tmp_path):
    from kbert.training.loop.loop import NotFinite

    class Spoils(noting):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if len(self.norms) == 6:
                layer = self.model.get_layer("Encoder-1-FeedForward-Norm")
                gamma = layer.get_weights()
                layer.set_weights([np.full_like(gamma[0], 3e38), gamma[1]])

    with pytest.raises(NotFinite) as error:
        start("run", [Spoils()])
    text = str(error.value)
    assert "step 7 is not finite" in text and "batch 6, rows 0, 1, 2, 3, 4 and 1 more" in text
    assert "first bad: the output of Encoder-1-FeedForward-Norm" in text
    (step,) = re.findall(r"The last good state is from step (\d) in", text)
    assert read_state(tmp_path / "run" / "checkpoints" / f"step-{step:0>8}.safetensors")
    assert "\n" not in text


@nightly_on("jax", "torch")
def test_harmful_callbacks_are_refused_with_an_alternative(start):
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 1.0)
    with raises(ValueError, "LearningRateScheduler", "schedule"):
        start("run", [schedule])
    with raises(ValueError, "callbacks", 3):
        refuse_harmful([3])


@pytest.mark.full
@nightly_on("jax", "torch")
def test_keras_tensorboard_callback_works_in_a_run(start, tmp_path):
    pytest.importorskip("tensorboard")
    pytest.importorskip("tensorflow")
    import keras
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trained = start("run", [keras.callbacks.TensorBoard(tmp_path / "board")])
    own = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    theirs = EventAccumulator(str(tmp_path / "board" / "validation"))
    own.Reload(), theirs.Reload()
    losses = [(event.step, event.value) for event in own.Scalars("MLM_loss")]
    expected = [(line["step"], line["MLM_loss"]) for line in trained.history.updates]
    assert losses == [pytest.approx(pair) for pair in expected]
    assert "epoch_MLM_loss" in theirs.Tags()["tensors"]


@full_on("jax", "torch")
def test_runs_of_two_threads_are_those_of_one(shards, tmp_path):
    """First weights are drawn by one generator, and its seed is the run's."""
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda name: run_on(shards, tmp_path / name), ["first", "second"]))
    expected = run_on(shards, tmp_path / "alone").bert.model.get_weights()
    for run in runs:
        keras.tree.map_structure(
            np.testing.assert_array_equal, run.bert.model.get_weights(), expected
        )
