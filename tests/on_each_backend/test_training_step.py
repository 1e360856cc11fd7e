"""What an update is made of: weights of labels, states, dropout, updates that are not finite."""

import functools
import re
import sys

import numpy as np
import pytest
from helpers.backend_gradients import slopes_of
from helpers.rounds import full_on
from helpers.sizes import SIZES
from helpers.training_batches import PREDICTIONS, arrays, batch_of

import kbert
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.training import engines
from kbert.training import loss as objectives
from kbert.training.engines import glibc, kept_memory
from kbert.training.loop import diagnosis
from kbert.training.optimizers import Optimizer

BATCH, BLOCKS = 12, 1


@functools.cache
def compiled(number: int, dropout: float, mixed: str, learning_rate: float, rematerialize: bool):
    """An engine and its first state: compiled once, as that is most of the time it takes."""
    import keras

    keras.utils.set_random_seed(11)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = kbert.BertConfig(**SIZES | {"num_hidden_layers": BLOCKS}, **rates)
    engine = engines.start()
    with engine.scope():
        model = kbert.build_bert(config, seq_len=11, max_predictions=PREDICTIONS, dtype=mixed)
    optimizer = Optimizer(learning_rate=learning_rate, total_steps=50)
    engine.prepare(model, optimizer, rematerialize=rematerialize)
    return engine, engine.state()


def engine_of(
    seed: int = 3,
    dropout: float = 0.1,
    mixed: str = "float32",
    learning_rate: float = 1e-2,
    rematerialize: bool = False,
    number: int = 0,
):
    """An engine at its first state; another `number` for a second one beside it."""
    engine, first = compiled(number, dropout, mixed, learning_rate, rematerialize)
    engine.restore(first)
    engine.seed, engine.accumulation = seed, 1
    return engine


@pytest.fixture(scope="module")
def data():
    return arrays("pretraining", 6, BATCH)


def loss_of(engine, batch, step) -> float:
    return float(engine.update(batch, step)["loss"])


def test_cross_entropy_is_a_weighted_sum():
    from keras import ops

    random = np.random.default_rng(3)
    logits = random.standard_normal((5, 3, 7)).astype("float32")
    labels = random.integers(0, 7, (5, 3)).astype("int32")
    weights = random.random((5, 3)).astype("float32")
    weights[1], logits[1, 2] = 0.0, np.nan  # counts for nothing, whatever it is
    tensors = [ops.convert_to_tensor(array) for array in (logits, labels, weights)]
    found = ops.convert_to_numpy(objectives.measured(*tensors))
    loss = hits = 0.0
    for place in np.ndindex(5, 3):
        if weights[place]:
            row = logits[place].astype("float64")
            share = np.exp(row[labels[place]]) / np.exp(row).sum()
            loss -= weights[place] * np.log(share)
            hits += weights[place] * (row.argmax() == labels[place])
    np.testing.assert_allclose(found, [loss, hits, weights.sum()], rtol=1e-5)
    assert np.isfinite(slopes_of(lambda x: objectives.measured(x, *tensors[1:])[0], logits)).all()


@full_on("jax", "tensorflow")
def test_padding_predictions_weigh_nothing(data):
    batch = batch_of(data, 0)
    labels = dict(batch.labels)
    padding = batch.inputs[names.MASKED_POSITIONS] == 0
    assert padding.any()
    labels[names.MLM] = np.where(padding, 98, labels[names.MLM])
    other = TrainingBatch(batch.inputs, labels, batch.weights)
    engine = engine_of()
    loss, state = loss_of(engine, batch, 0), engine.state()
    engine = engine_of()
    assert loss_of(engine, other, 0) == loss
    for name, array in engine.state().items():
        assert np.array_equal(state[name], array), name


def test_dropout_depends_on_seed_and_step_alone(data):
    batch = batch_of(data, 0)
    first = loss_of(engine_of(), batch, 0)
    assert loss_of(engine_of(), batch, 0) == first
    assert loss_of(engine_of(), batch, 1) != first
    assert loss_of(engine_of(seed=4), batch, 0) != first


@full_on("jax", "tensorflow")
def test_gradient_checkpointing_keeps_gradients(data):
    """With dropout on: the second computation draws the first one's masks."""
    kept, again = engine_of(), engine_of(rematerialize=True)
    for step in range(2):
        batch = batch_of(data, step)
        assert loss_of(again, batch, step) == pytest.approx(loss_of(kept, batch, step), rel=1e-6)
    moments = [name for name in kept.state() if "/first/" in name]
    one, other = kept.state(), again.state()
    for name in moments:
        size = np.abs(one[name]).max()
        assert size > 0 or name.endswith("key/bias"), name
        np.testing.assert_allclose(other[name], one[name], atol=1e-5 * size + 1e-9, err_msg=name)


def test_each_layer_and_micro_batch_has_its_own_seeds():
    engine = engine_of()
    engine.accumulation = 3
    seeds = engine._seeds(5, range(2))
    assert seeds.shape[:2] == (2, 3)
    pairs = {tuple(pair) for pair in seeds.reshape(-1, 2).tolist()}
    assert len(pairs) == seeds.size // 2 == 2 * 3 * (3 * BLOCKS + 1)  # 3 a block, 1 before
    sums = {first + second for first, second in pairs}  # torch's generator takes their sum
    assert len(sums) == len(pairs)


def test_restored_state_continues_bit_equal(data):
    engine = engine_of()
    for step in range(3):
        engine.update(batch_of(data, step), step)
    state = engine.state()
    losses = [loss_of(engine, batch_of(data, step), step) for step in (3, 4, 5)]
    other = engine_of(number=1)
    other.restore(state)
    assert [loss_of(other, batch_of(data, step), step) for step in (3, 4, 5)] == losses
    for name, array in engine.state().items():
        assert np.array_equal(other.state()[name], array), name


@full_on("jax", "tensorflow")
def test_steps_equal_adamw_in_numpy(data):
    """Clipped to 1, decayed by 0.01 but for biases and LayerNorm's; gradients from the engine."""
    engine, rate = engine_of(dropout=0.0), 1e-2
    one, other = (engine.gradients(batch_of(data, 0), step) for step in (0, 1))
    assert all(np.array_equal(other[path], array) for path, array in one.items())  # no dropout
    state = {name: array.astype("float64") for name, array in engine.state().items()}
    for done in range(3):
        gradients = engine.gradients(batch_of(data, done), done)
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
            decay = 0.0 if path.endswith(("bias", "beta", "gamma")) else 0.01
            now = rate * (1 - done / 50)
            weight -= now * (decay * weight + first / (1 - 0.9 ** (done + 1)) / root)
        engine.update(batch_of(data, done), done)
    found = engine.state()
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
    second.restore(first.state())
    for weight in second.weights:
        tensor = weight.value.data
        weight.value.data = tensor.transpose(0, -1).contiguous().transpose(0, -1)
    second.prepare(second.model, second.settings, seed=second.seed)
    for engine in (first, second):
        engine.update(batch_of(data, 0), 0)
    one, other = first.state(), second.state()
    for name in one:
        np.testing.assert_allclose(other[name], one[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_state_of_another_model_is_refused_whole():
    engine = engine_of()
    state = engine.state()
    before = {name: array.copy() for name, array in state.items()}
    name = next(name for name in state if name.startswith("model/"))
    state["optimizer/other"] = state.pop(name)
    with pytest.raises(ValueError, match=rf"missing: {name}; unexpected: optimizer/other"):
        engine.restore(state)
    assert all(np.array_equal(engine.state()[key], array) for key, array in before.items())


def test_non_finite_step_changes_nothing(data):
    engine = engine_of()
    engine.update(batch_of(data, 0), 0)
    before = engine.state()
    batch = batch_of(data, 1)
    weights = {name: array.copy() for name, array in batch.weights.items()}
    weights[names.NSP][0] = np.inf
    logs = engine.update(TrainingBatch(batch.inputs, batch.labels, weights), 1)
    assert not float(logs["finite"])
    assert all(np.array_equal(engine.state()[name], array) for name, array in before.items())
    assert not float(engine.update(batch, 1)["finite"])  # nor is what was sent after it
    assert all(np.array_equal(engine.state()[name], array) for name, array in before.items())
    engine.restore(before)
    assert float(engine.update(batch, 1)["finite"])


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's alone")
def test_engine_keeps_freed_memory_after_a_step(data, monkeypatch, backend):
    if backend == "tensorflow":
        pytest.skip("TensorFlow has an allocator of its own")
    engine, told = engine_of(), []
    monkeypatch.setattr(glibc, "set_options", told.append)
    monkeypatch.setattr(kept_memory, "_owners", set())
    engine.update(batch_of(data, 0), 0)
    assert any(glibc.MMAP_MAX in options for options in told)


@pytest.mark.full
def test_non_finite_gradient_is_named(data, monkeypatch):
    """As sqrt at 0 makes it: finite forwards, NaN backwards."""
    from keras import ops

    engine, batch, whole = engine_of(), batch_of(data, 0), objectives.objective
    found = diagnosis.first_bad(engine, batch, 0)
    assert found.text(0).startswith("first bad: none: weights, layer outputs and gradients are")

    def bad(outputs, *given):
        loss, sums = whole(outputs, *given)
        return loss + ops.sqrt(ops.sum(0.0 * outputs[names.NSP])), sums

    monkeypatch.setattr(objectives, "objective", bad)
    text = diagnosis.first_bad(engine, batch, 0).text(0)
    assert re.match(r"first bad: the gradient of NSP/bias and \d+ more before it", text), text


@full_on("jax", "tensorflow")
def test_float16_halves_its_loss_scale_and_continues(data):
    engine = engine_of(mixed="mixed_float16")
    state = engine.state()
    state["optimizer/loss_scale"] = np.float32(2.0**40)
    engine.restore(state)
    logs = engine.update(batch_of(data, 0), 0)
    assert not float(logs["finite"]) and float(logs["loss_scale"]) == 2.0**40
    after = engine.state()
    assert after["optimizer/loss_scale"] == 2.0**39 and after["optimizer/iteration"] == 0
    after["optimizer/loss_scale"], after["optimizer/good_updates"] = 2.0**8, np.float32(1999)
    engine.restore(
        {
            name: np.asarray(array, "float32") if "optimizer" in name else array
            for name, array in after.items()
        }
    )
    assert float(engine.update(batch_of(data, 0), 0)["finite"])
    assert engine.state()["optimizer/loss_scale"] == 2.0**9  # doubled after 2,000 good updates


@pytest.mark.full
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


def test_indivisible_batch_is_refused_in_one_line():
    engine = engine_of()
    engine.accumulation = 5
    with pytest.raises(ValueError, match=r"batch_size must be a multiple of 5 .* got 12: take 10"):
        engine.rows(12)


@full_on("jax")
def test_gradients_reuse_the_memory_of_the_last_step(data, backend):
    if backend != "jax":
        pytest.skip("JAX gives memory back and asks for new")
    engine, places = engine_of(), []
    for step in range(3):
        wanted = engine.gradients(batch_of(data, step), step)
        engine.update(batch_of(data, step), step)
        places.append([one.unsafe_buffer_pointer() for one in engine._last_gradients])
        for one, other in zip(engine._last_gradients, wanted.values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert places[0] == places[1] == places[2]
    assert len(set(places[0])) == len(engine.weights)
