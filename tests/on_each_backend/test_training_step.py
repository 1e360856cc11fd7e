"""An update: weights of labels, states, dropout, non-finite updates, saveds, several a call.

One compiled engine serves most tests: that is why they are in one file.
"""

import functools
import re

import keras
import numpy as np
import pytest
from helpers.backends import full_on, nightly_on
from helpers.errors import raises
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of

import kbert
from kbert.data import training_batch
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.loop import diagnosis
from kbert.training.loop.history import LoopPlan
from kbert.training.loop.loop import NotFinite, train
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.run.run_folder import RunFolder
from kbert.training.run.state_files import read_state
from kbert.training.step import step as training_step
from kbert.training.step.state import MOST_SKIPPED, find_seed_states

BATCH, BLOCKS = 12, 1
STEPS, BAD = 7, 2  # BAD: the update, counted from 0, that is not finite
SEGMENT = 2  # which alone that update's batch has
SEGMENTS = f"model/{names.SEGMENT_EMBEDDING}/embeddings"
TOGETHER = 3  # updates of one call


@functools.cache
def compile_engine(
    number: int = 0,
    dropout: float = 0.1,
    mixed: str = "float32",
    learning_rate: float = 1e-2,
    together: int = 1,
    accumulation_steps: int = 1,
    decay: float = 0.01,
):
    """An engine and its first state: compiled once, as that is most of the time it takes."""
    keras.utils.set_random_seed(11)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": BLOCKS}, **rates)
    backend = backends.start()
    with backend.scope():
        model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS, dtype=mixed)
    optimizer = Optimizer(learning_rate=learning_rate, weight_decay=decay, total_steps=50)
    several = {"accumulation_steps": accumulation_steps, "steps_per_execution": together}
    engine = Engine(backend, model, optimizer, **several)
    return engine, engine.state.all()


def engine_of(seed: int = 3, **options):
    """An engine at its first state; another `number` for a second one beside it."""
    engine, first = compile_engine(**options)
    engine.state.restore(first)
    engine.seed = seed
    engine.step.accumulation_steps = options.get("accumulation_steps", 1)
    return engine


@pytest.fixture(scope="module")
def data():
    return arrays("pretraining", 6, BATCH)


def loss_of(engine, batch, step) -> float:
    return float(engine.update(batch, step)["loss"])


def test_dropout_depends_on_seed_and_step_alone(data):
    batch = batch_of(data, 0)
    first = loss_of(engine_of(), batch, 0)
    assert loss_of(engine_of(), batch, 0) == first
    assert loss_of(engine_of(), batch, 1) != first
    assert loss_of(engine_of(seed=4), batch, 0) != first


def test_each_layer_and_micro_batch_has_its_own_seeds(monkeypatch):
    engine = engine_of()
    engine.step.accumulation_steps = 3
    monkeypatch.setattr(engine.backend, "replicas", 2)
    seeds = engine.seeds(5)
    assert seeds.shape[:2] == (2, 3)
    pairs = {tuple(pair) for pair in seeds.reshape(-1, 2).tolist()}
    assert len(pairs) == seeds.size // 2 == 2 * 3 * (3 * BLOCKS + 1)  # 3 a block, 1 before
    sums = {first + second for first, second in pairs}  # torch's generator takes their sum
    assert len(sums) == len(pairs)


def test_restored_state_continues_bit_equal(data):
    engine = engine_of()
    for step in range(3):
        engine.update(batch_of(data, step), step)
    state = engine.state.all()
    losses = [loss_of(engine, batch_of(data, step), step) for step in (3, 4, 5)]
    other = engine_of(together=TOGETHER)  # compiled for another test too
    other.state.restore(state)
    for step, loss in zip((3, 4, 5), losses, strict=True):
        (metrics,) = other.updates([batch_of(data, step)], step)()
        assert metrics["loss"] == loss
    for name, array in engine.state.all().items():
        assert np.array_equal(other.state.all()[name], array), name


@full_on("jax", "tensorflow")
@pytest.mark.parametrize("device", ["cpu", "gpu"])  # on GPUs small gradients are one vector
def test_steps_equal_adamw_in_numpy(data, device, monkeypatch):
    """Clipped to 1, decayed by 1 but for biases and LayerNorm's; gradients from the engine."""
    cpu, rate = engine_of(dropout=0.0, decay=1.0), 1e-2
    one, other = (cpu.gradients(batch_of(data, 0), step) for step in (0, 1))
    monkeypatch.setattr("kbert.ops.device_kind", lambda: device)
    engine = engine_of(number=["cpu", "gpu"].index(device), dropout=0.0, decay=1.0)
    assert all(np.array_equal(other[path], array) for path, array in one.items())  # no dropout
    state = {name: array.astype("float64") for name, array in engine.state.all().items()}
    for done in range(3):
        cpu.state.restore(engine.state.all())
        gradients = cpu.gradients(batch_of(data, done), done)
        norm = np.sqrt(sum((one.astype("float64") ** 2).sum() for one in gradients.values()))
        assert norm > 1  # so that it is clipped
        for path, gradient in gradients.items():
            weight, first, second = (
                state[f"{kind}/{path}"] for kind in ("model", "optimizer/first", "optimizer/second")
            )
            gradient = gradient.astype("float64") / (norm + 1e-6)
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            root = np.sqrt(second / (1 - 0.999 ** (done + 1))) + 1e-6
            decay = 0.0 if path.endswith(("bias", "beta", "gamma")) else 1.0
            now = rate * (1 - done / 50)
            weight -= now * (decay * weight + first / (1 - 0.9 ** (done + 1)) / root)
        engine.update(batch_of(data, done), done)
    found = engine.state.all()
    for path in gradients:
        for kind in ("model", "optimizer/first", "optimizer/second"):
            one, other = state[f"{kind}/{path}"], found[f"{kind}/{path}"]
            # where a gradient is next to nothing, its rounding decides where the weight goes
            sure = np.sqrt(state[f"optimizer/second/{path}"]) > 1e-5
            np.testing.assert_allclose(other[sure], one[sure], rtol=2e-3, atol=2e-5, err_msg=path)


def test_weight_of_a_transposed_array_trains_as_others(data, backend):
    """torch's own AdamW takes no notice of strides, which Keras keeps."""
    if backend != "torch":
        pytest.skip("arrays of TensorFlow and JAX have no strides")
    first, second = engine_of(), engine_of(number=1)
    second.state.restore(first.state.all())
    for weight in second.state.variables.weights:
        tensor = weight.value.data
        weight.value.data = tensor.transpose(0, -1).contiguous().transpose(0, -1)
    second = Engine(second.backend, second.model, second.settings, seed=second.seed)
    for engine in (first, second):
        engine.update(batch_of(data, 0), 0)
    one, other = first.state.all(), second.state.all()
    for name in one:
        np.testing.assert_allclose(other[name], one[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_state_of_another_model_is_refused_whole():
    engine = engine_of()
    state = engine.state.all()
    before = {name: array.copy() for name, array in state.items()}
    name = next(name for name in state if name.startswith("model/"))
    state["optimizer/other"] = state.pop(name)
    with raises(ValueError, f"missing: {name}", "unexpected: optimizer/other"):
        engine.state.restore(state)
    assert all(np.array_equal(engine.state.all()[key], array) for key, array in before.items())


def test_non_finite_step_changes_nothing(data):
    engine = engine_of()
    engine.update(batch_of(data, 0), 0)
    before = engine.state.all()
    batch = batch_of(data, 1)
    weights = {name: array.copy() for name, array in batch.weights.items()}
    weights[names.NSP][0] = np.inf
    logs = engine.update(TrainingBatch(batch.inputs, batch.labels, weights), 1)
    assert not float(logs["finite"])
    assert all(np.array_equal(engine.state.all()[name], array) for name, array in before.items())
    assert not float(engine.update(batch, 1)["finite"])  # nor is what was sent after it
    assert all(np.array_equal(engine.state.all()[name], array) for name, array in before.items())
    engine.state.restore(before)
    assert float(engine.update(batch, 1)["finite"])


@pytest.mark.full
@nightly_on("jax")
def test_non_finite_gradient_is_named(data, monkeypatch):
    """As sqrt at 0 makes it: finite forwards, NaN backwards."""
    engine, batch, whole = engine_of(), batch_of(data, 0), training_step.compute_objective
    found = diagnosis.find_first_bad(engine, batch, 0)
    assert found.startswith("first bad: none: weights, layer outputs and gradients are")

    def bad(outputs, *given):
        loss, sums = whole(outputs, *given)
        return loss + keras.ops.sqrt(keras.ops.sum(0.0 * outputs[names.NSP])), sums

    monkeypatch.setattr(training_step, "compute_objective", bad)
    text = diagnosis.find_first_bad(engine_of(number=2), batch, 0)
    assert re.match(r"first bad: the gradient of NSP/bias and \d+ more before it", text), text


@full_on("tensorflow")
@nightly_on("jax")
def test_float16_halves_its_loss_scale_and_continues(data):
    engine = engine_of(mixed="mixed_float16")
    state = engine.state.all()
    state["optimizer/loss_scale"] = np.float32(2.0**40)
    state["optimizer/good_updates"] = np.float32(5)
    engine.state.restore(state)
    logs = engine.update(batch_of(data, 0), 0)
    assert not float(logs["finite"]) and float(logs["loss_scale"]) == 2.0**40
    after = engine.state.all()
    assert after["optimizer/loss_scale"] == 2.0**39 and after["optimizer/iteration"] == 0
    assert after["optimizer/good_updates"] == 0
    after["optimizer/loss_scale"], after["optimizer/good_updates"] = 2.0**8, np.float32(1999)
    engine.state.restore(
        {
            name: np.asarray(array, "float32") if "optimizer" in name else array
            for name, array in after.items()
        }
    )
    assert float(engine.update(batch_of(data, 0), 0)["finite"])
    assert engine.state.all()["optimizer/loss_scale"] == 2.0**9  # doubled after 2,000 good updates


@pytest.mark.full
@nightly_on("jax")
@pytest.mark.parametrize("mixed", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_learns_as_float32_does(data, mixed, backend):
    if (mixed, backend) == ("mixed_float16", "jax"):
        pytest.skip("JAX has no float16 products on a CPU")
    runs = []
    for policy in ("float32", mixed):
        engine = engine_of(mixed=policy, dropout=0.0, learning_rate=3e-3)
        runs.append([loss_of(engine, batch_of(data, step % 2), step) for step in range(12)])
    assert runs[0][-1] < runs[0][0] - 0.05
    np.testing.assert_allclose(runs[1], runs[0], rtol=0.01)
    assert all(weight.dtype == "float32" for weight in engine.model.weights)


def test_evaluation_and_prediction_have_no_dropout(data):
    engine = engine_of()
    batch = batch_of(data, 0)
    totals = engine.evaluate(batch)
    assert totals == engine.evaluate(batch)
    logits = dict(zip(engine.model.output_names, engine.predict(batch.inputs), strict=True))
    for name in batch.labels:
        loss, weight = totals[f"{name}_loss"]
        rows = logits[name].astype("float64")
        shares = np.exp(rows) / np.exp(rows).sum(-1, keepdims=True)
        chosen = np.take_along_axis(shares, batch.labels[name][..., None], -1)[..., 0]
        assert loss == pytest.approx(-(batch.weights[name] * np.log(chosen)).sum(), rel=1e-4)
        assert weight == pytest.approx(1.0, rel=1e-5)


# An update is begun before the figures of the last one are read, as on an accelerator.


class Batches(training_batch.Batches):
    """Those of `arrays`; one has a segment that no other has."""

    batch_size, fingerprint = BATCH, {}

    def __init__(self):
        self.arrays = arrays("pretraining", STEPS, BATCH)
        self.arrays["segments"] %= SEGMENT
        self.arrays["segments"][BAD, 4] = SEGMENT

    def batch(self, step, part=slice(None)):
        return batch_of(self.arrays, step).select(part)


class Without(Batches):
    """No batch of those has the segment that fails."""

    def batch(self, step, part=slice(None)):
        return super().batch(step + BAD + 1, part)


@pytest.fixture
def ahead(monkeypatch):
    monkeypatch.setattr("kbert.training.engine.device_names", lambda: ["an accelerator"])


def about_to_fail(**options):
    """An engine whose segment vector makes the LayerNorm overflow, and is finite itself."""
    engine = engine_of(**options)
    state = engine.state.all()
    state[SEGMENTS][SEGMENT] = 3e38
    engine.state.restore(state)
    return engine


def assert_equal(state, expected):
    assert state.keys() == expected.keys()
    assert not [name for name in state if not np.array_equal(state[name], expected[name])]


@pytest.mark.full
@nightly_on("jax")
def test_no_step_is_applied_after_a_non_finite_one(tmp_path, ahead):
    engine, batches = about_to_fail(), Batches()
    begun = engine.state.all()
    for step in range(BAD):
        engine.update(batches.batch(step), step)
    good = engine.state.all()
    engine.state.restore(begun)
    RunFolder.create(tmp_path / "run", {}, {})
    run = RunFolder.open(tmp_path / "run")
    with pytest.raises(NotFinite) as error:
        train(engine, batches, LoopPlan(STEPS, save_every=2), run=run, progress=False)
    text = str(error.value)
    assert f"step {BAD + 1} is not finite" in text and "\n" not in text
    assert f"batch {BAD}, row 4, first bad: the output of {names.EMBEDDING_NORM}" in text
    assert f"The last good state is from step {BAD} in" in text
    assert_equal(engine.state.all(), good)
    assert_equal(run.states.last().arrays, good)
    engine.state.restore(good)  # and from there it goes on
    assert float(engine.update(batches.batch(0), BAD)["finite"])


@full_on("jax", "tensorflow")
def test_loss_scale_may_be_too_high_for_limited_steps():
    good, engine = Batches().batch(0), engine_of(mixed="mixed_float16")
    state = engine.state.all() | {"optimizer/loss_scale": np.float32(2.0**8)}
    for skipped, applied in ((MOST_SKIPPED, True), (MOST_SKIPPED + 1, False)):
        engine.state.restore(state)
        engine.state.variables.counts.bad_updates.assign(np.float32(skipped))  # in a row
        assert float(engine.update(good, 0)["finite"]) == applied
        if not applied:
            assert_equal(engine.state.all(), state)


def test_batch_callback_runs_before_the_next_step(ahead):
    calls = []
    watching = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: calls.append(("begin", batch)),
        on_train_batch_end=lambda batch, logs: calls.append(("end", batch)),
    )
    train(engine_of(), Batches(), LoopPlan(STEPS), callbacks=[watching], progress=False)
    assert calls == [(what, step) for step in range(STEPS) for what in ("begin", "end")]


def with_dropout(hidden: float, attention: float):
    rates = {"hidden_dropout_prob": hidden, "attention_probs_dropout_prob": attention}
    return kbert.build_bert(kbert.BertConfig(**SIZES | {"num_hidden_layers": 1}, **rates))


def test_dropout_whose_seeds_are_not_found_is_refused(monkeypatch):
    model = with_dropout(0.1, 0.1)
    assert len(find_seed_states(model)) == 4  # embeddings, two of the block; its attention
    assert len(find_seed_states(with_dropout(0.0, 0.1))) == 1
    monkeypatch.setattr(type(model), "variables", property(lambda model: model.weights))
    with raises(RuntimeError, "0 seeds", "4 layers") as error:
        find_seed_states(model)
    assert "\n" not in str(error.value)
    assert find_seed_states(with_dropout(0.0, 0.0)) == []


# What a save copies: the numbers of its moment, in the same memory each time.


@pytest.fixture
def engine():
    return engine_of()


@pytest.fixture
def update(engine, data):
    def run(step: int) -> None:
        float(engine.update(batch_of(data, step), step)["loss"])

    return run


def held(state: dict) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in state.items()}


def test_training_steps_leave_a_state_unchanged(engine, update):
    """They write to the weights' own memory: a view would change with them."""
    update(0)
    saved = engine.state.all()
    before = held(saved)
    assert before == held(engine.state.all())
    update(1)
    update(2)
    assert held(saved) == before
    assert all(not np.array_equal(after, saved[name]) for name, after in moved(engine))
    engine.state.restore(saved)
    assert held(engine.state.all()) == before


def moved(engine):
    return [pair for pair in engine.state.all().items() if pair[0].startswith("optimizer/first/")]


def test_restoring_weights_keeps_the_optimizer_state(engine, update):
    def parts():
        of_model, of_optimizer = {}, {}
        for name, value in held(engine.state.all()).items():
            (of_optimizer if name.startswith("optimizer/") else of_model)[name] = value
        return of_model, of_optimizer

    update(4)
    weights, (before, _) = engine.state.weights(), parts()
    update(5)
    after, moments = parts()
    assert after != before and held(weights) == before
    engine.state.restore_weights(weights)
    assert parts() == (before, moments)


# Several updates in one call of the device: those of one a call, and the run around them too.


@pytest.fixture(params=[1, pytest.param(2, marks=[pytest.mark.full, nightly_on("jax", "torch")])])
def both(request):
    """Engines of one update a call and of several, with one micro-batch or two."""
    several = {"together": TOGETHER, "accumulation_steps": request.param}
    return engine_of(accumulation_steps=request.param), engine_of(**several)


@pytest.mark.full
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
    assert_equal(several.state.all(), one.state.all())


def run_of(engine, folder, plan, **options):
    RunFolder.create(folder, {}, {}, keep_checkpoints=True)
    run = RunFolder.open(folder)
    history = train(engine, Batches(), plan, run=run, progress=False, **options)
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
        plan = LoopPlan(STEPS, evaluate, evaluate_every=5, save_every=4, log_every=2)
        found.append(run_of(engine, tmp_path / str(place), plan, callbacks=callbacks))
    (lines, states, why), (others, other_states, other_why) = found
    assert others == lines and other_why == why and bool(why) == stopped
    assert [line["step"] for line in lines] == ([2, 4, 5] if stopped else [2, 4, 5, 6, 7])
    assert other_states.keys() == states.keys() and len(states) > 1
    for name in states:
        assert_equal(other_states[name], states[name])


@full_on("jax", "tensorflow")
def test_no_step_in_a_call_follows_a_non_finite_one(both, monkeypatch):
    monkeypatch.setattr(diagnosis, "find_first_bad", lambda *_: "")  # it compiles each layer
    one, several = both
    state = one.state.all()
    state[SEGMENTS][SEGMENT] = 3e38
    for engine in both:
        engine.state.restore(state)
    for step in range(BAD):
        one.updates([Batches().batch(step)], step)
    with raises(NotFinite, f"step {BAD + 1} "):
        train(several, Batches(), LoopPlan(STEPS), progress=False)
    assert_equal(several.state.all(), one.state.all())


@pytest.mark.full
def test_batch_callbacks_get_one_step_per_call(both):
    _, several = both
    seen = []
    watching = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(
            (batch, float(several.state.all()["optimizer/iteration"]))
        )
    )
    train(several, Without(), LoopPlan(4), callbacks=[watching], progress=False)
    assert seen == [(step, step + 1.0) for step in range(4)]
