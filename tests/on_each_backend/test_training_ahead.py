"""An update is begun before the figures of the last one are read, as on an accelerator."""

import numpy as np
import pytest
from helpers.rounds import full_on
from helpers.sizes import SIZES
from helpers.training_batches import arrays, batch_of
from test_training_step import BATCH, engine_of

import kbert
from kbert.graph import names
from kbert.model.parts import dropout_seeds
from kbert.training import precision
from kbert.training.engines.engine import Engine
from kbert.training.loop.callbacks import watch_batches
from kbert.training.loop.loop import NotFinite, train
from kbert.training.run.run_folder import RunFolder

STEPS, BAD = 7, 2  # BAD: the update, counted from 0, that is not finite
SEGMENT = 2  # which alone that update's batch has
SEGMENTS = f"model/{names.SEGMENT_EMBEDDING}/embeddings"


class Batches:
    """Those of `arrays`; one has a segment that no other has."""

    batch_size, fingerprint = BATCH, {}

    def __init__(self):
        self.arrays = arrays("pretraining", STEPS, BATCH)
        self.arrays["segments"] %= SEGMENT
        self.arrays["segments"][BAD, 4] = SEGMENT

    def batch(self, step, part=slice(None)):
        return batch_of(self.arrays, step).rows(part)


@pytest.fixture(autouse=True)
def ahead(monkeypatch):
    monkeypatch.setattr(Engine, "ahead", lambda self: 1)


def about_to_fail(**options):
    """An engine whose segment vector makes the LayerNorm overflow, and is finite itself."""
    engine = engine_of(**options)
    state = engine.state()
    state[SEGMENTS][SEGMENT] = 3e38
    engine.restore(state)
    return engine


def assert_equal(state, expected):
    assert state.keys() == expected.keys()
    assert not [name for name in state if not np.array_equal(state[name], expected[name])]


@full_on("jax")
def test_no_step_is_applied_after_a_non_finite_one(tmp_path):
    engine, batches = about_to_fail(), Batches()
    begun = engine.state()
    for step in range(BAD):
        engine.update(batches.batch(step), step)
    good = engine.state()
    engine.restore(begun)
    RunFolder.create(tmp_path / "run", {}, {})
    run = RunFolder.open(tmp_path / "run")
    with pytest.raises(NotFinite) as error:
        train(engine, batches, STEPS, run=run, save_every=2, show=False)
    text = str(error.value)
    assert f"update {BAD + 1} is not finite" in text and "\n" not in text
    assert f"batch {BAD}, row 4, first bad: the output of {names.EMBEDDING_NORM}" in text
    assert f"the last good state is that after update {BAD} in" in text
    assert_equal(engine.state(), good)
    assert_equal(run.last_state().arrays, good)
    engine.restore(good)  # and from there it goes on
    assert float(engine.update(batches.batch(0), BAD)["finite"])


def test_loss_scale_may_be_too_high_for_limited_steps():
    good, engine = Batches().batch(0), engine_of(mixed="mixed_float16")
    state = engine.state() | {"optimizer/loss_scale": np.float32(2.0**8)}
    for skipped, applied in ((precision.MOST_SKIPPED, True), (precision.MOST_SKIPPED + 1, False)):
        engine.restore(state)
        engine.counts[-1].assign(np.float32(skipped))  # in a row
        assert float(engine.update(good, 0)["finite"]) == applied
        if not applied:
            assert_equal(engine.state(), state)


def test_batch_callback_runs_before_the_next_step():
    import keras

    calls = []
    watching = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: calls.append(("begin", batch)),
        on_train_batch_end=lambda batch, logs: calls.append(("end", batch)),
    )
    train(engine_of(), Batches(), STEPS, callbacks=[watching], show=False)
    assert calls == [(what, step) for step in range(STEPS) for what in ("begin", "end")]


def test_callbacks_that_watch_batches_are_recognized():
    import keras

    class Watching(keras.callbacks.Callback):
        def on_batch_end(self, batch, logs=None):
            """By its class."""

    def nothing(*_):
        """A hook."""

    of = keras.callbacks.LambdaCallback
    assert not watch_batches([keras.callbacks.Callback(), of(), of(on_epoch_end=nothing)])
    assert watch_batches([keras.callbacks.Callback(), Watching()])
    for name in ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end"):
        assert watch_batches([of(**{name: nothing})]), name


def with_dropout(hidden: float, attention: float):
    rates = {"hidden_dropout_prob": hidden, "attention_probs_dropout_prob": attention}
    return kbert.build_bert(kbert.BertConfig(**SIZES | {"num_hidden_layers": 1}, **rates))


@pytest.mark.parametrize(
    ("hidden", "attention"),
    [
        (0.1, 0.1),
        *(pytest.param(*rates, marks=pytest.mark.full) for rates in ((0.1, 0.0), (0.0, 0.1))),
    ],
)
def test_dropout_whose_seeds_are_not_found_is_refused(monkeypatch, hidden, attention):
    model = with_dropout(hidden, attention)
    drawing = 3 * (hidden > 0) + (attention > 0)  # embeddings, two of the block; its attention
    assert len(dropout_seeds.seed_states(model)) == drawing
    monkeypatch.setattr(type(model), "variables", property(lambda model: model.weights))
    with pytest.raises(RuntimeError, match=f"has 0 seeds .* {drawing} layers with dr") as error:
        dropout_seeds.seed_states(model)
    assert "\n" not in str(error.value)
    assert dropout_seeds.seed_states(with_dropout(0.0, 0.0)) == []
