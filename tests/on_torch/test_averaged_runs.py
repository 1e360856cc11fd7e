"""Runs with `ema`, whose result is the averages, with a schedule of Keras's, with other betas."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest
from helpers.errors import check_named, raises
from helpers.interrupted_run import Copies, assert_states_equal
from helpers.labelled_texts import QUIET, tune, write_source

import kbert
from kbert.tasks.finetuning.evaluate import LabelledEvaluation
from kbert.training.run.state_files import read_state

EMA, STEPS = 0.8, 12  # 4 epochs of 39 examples, 13 a step
SETTINGS = {"epochs": 4, "ema": EMA, "save_every": 3, "keep_checkpoints": True}
SETTINGS |= {"learning_rate": 1e-2, "schedule": "cosine"}
PARTS = {
    "whole": {},
    "adapters": {"lora_rank": 3, "lora_targets": "value"},
    "frozen": {"freeze": "embeddings", "optimizer": keras.optimizers.Lion(), "keep_best": False},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    return write_source(tmp_path_factory.mktemp("averaged"), small)


def average_states(run, last: int) -> dict:
    """The averages after each step of a run that saved each one, from its weights, in float64."""
    averages: dict = {}
    for step in range(1, last + 1):
        arrays, _ = read_state(run / f"checkpoints/step-{step:08d}.safetensors")
        weights = {n: one.astype("float64") for n, one in arrays.items() if n.startswith("model/")}
        weights = {name: one for name, one in weights.items() if "/seed/" not in name}
        if not averages:
            averages = weights  # as in Keras
        averages = {n: EMA * averages[n] + (1 - EMA) * one for n, one in weights.items()}
    return averages


@pytest.mark.full
@pytest.mark.parametrize("name", PARTS)
def test_resume_of_averaged_run_is_bit_equal(folder, tmp_path, name):
    copies = Copies(folder / name, tmp_path / "crashed", 8, state=6)
    whole = tune(folder, folder / name, callbacks=[copies], **SETTINGS, **PARTS[name])
    tuned = kbert.resume(tmp_path / "crashed", **QUIET)
    assert_states_equal(folder / name, tmp_path / "crashed", STEPS)
    np.testing.assert_equal(tuned.bert.model.get_weights(), whole.bert.model.get_weights())
    assert tuned.metrics == whole.metrics
    file = "model/model.safetensors"
    assert (folder / name / file).read_bytes() == (tmp_path / "crashed" / file).read_bytes()

    arrays, _ = read_state(folder / name / f"checkpoints/step-{STEPS:08d}.safetensors")
    slots = [name.split("/", 2)[1:] for name in arrays if name.startswith("optimizer/")]
    averaged = {slot[1] for slot in slots if slot[0] == "average"}
    assert averaged == {slot[1] for slot in slots if len(slot) == 2}  # of what is trained, alone
    # what was evaluated in training is what a user gets
    found = kbert.evaluate(folder / name / "model", "classify", folder / "dev.tsv")
    assert found == pytest.approx(whole.metrics, rel=1e-4)


def test_result_is_the_average_of_all_steps(folder, tmp_path, monkeypatch):
    from kbert.training.run import run_folder

    monkeypatch.setattr(run_folder.States, "remove_superseded", lambda *_: None)
    options = SETTINGS | {"epochs": 2, "save_every": 1, "keep_best": False}
    tuned = tune(folder, tmp_path / "run", **options)
    expected = average_states(tmp_path / "run", 6)
    last, _ = read_state(tmp_path / "run/checkpoints/step-00000006.safetensors")
    layers = {layer.name: layer for layer in tuned.bert.model.layers}
    compared = 0
    for name, average in expected.items():
        layer, _, weight = name.removeprefix("model/").partition("/")
        matches = [one for one in layers[layer].weights if one.path == f"{layer}/{weight}"]
        for one in matches:
            np.testing.assert_allclose(one.numpy(), average, atol=1e-6)
            compared += 1
    assert compared > 20
    moved = [np.abs(last[name] - expected[name]).max() for name in expected]
    assert max(moved) > 1e-3  # the weights themselves are others


@pytest.mark.parametrize("with_folder", [True, pytest.param(False, marks=pytest.mark.full)])
def test_best_averages_are_kept_and_seen_by_callbacks(folder, tmp_path, monkeypatch, with_folder):
    """A callback keeps what the model had at each evaluation; the result is one of these."""
    real, accuracies = LabelledEvaluation.__call__, iter([0.25, 0.75, 0.5])

    def call(*given):
        result = real(*given)
        return dataclasses.replace(result, metrics=result.metrics | {"accuracy": next(accuracies)})

    monkeypatch.setattr(LabelledEvaluation, "__call__", call)

    class Keeps(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.found, self.in_steps = [], []

        def on_train_batch_end(self, batch, logs=None):
            self.in_steps.append(self.model.get_weights())

        def on_epoch_end(self, epoch, logs=None):
            self.found.append((logs["val_loss"], self.model.get_weights()))

    keeps, output = Keeps(), tmp_path / "run" if with_folder else None
    tuned = tune(folder, output, callbacks=[keeps], **SETTINGS | {"epochs": 3})
    best = 1
    assert keeps.found[best][0] == tuned.metrics["loss"]
    kept = keeps.found[best][1]
    for weight in tuned.bert.model.get_weights():
        assert any(np.array_equal(weight, one) for one in kept)
    trained = keeps.in_steps[3 * best + 2]  # the same step's weights: 3 steps an epoch
    assert not np.allclose(trained[0], kept[0], atol=1e-5)


def test_weights_that_a_callback_restores_are_the_result(folder, tmp_path):
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    options = SETTINGS | {"learning_rate": 0.3, "schedule": "constant", "epochs": 9}
    tuned = tune(folder, tmp_path / "run", callbacks=[stop], **options, keep_best=False)
    assert tuned.history.stopped
    losses = [line["val_loss"] for line in tuned.history.evaluations]
    assert tuned.metrics["loss"] == min(losses) != losses[-1]
    found = kbert.evaluate(tmp_path / "run/model", "classify", folder / "dev.tsv")
    assert found["loss"] == pytest.approx(min(losses), rel=1e-4)


@pytest.mark.full
def test_distilled_student_has_averages(folder, tmp_path):
    teacher = tune(folder, tmp_path / "teacher", epochs=2).bert
    tuned = tune(folder, tmp_path / "student", teacher=teacher, hidden_loss="mse", **SETTINGS)
    found = kbert.evaluate(tmp_path / "student/model", "classify", folder / "dev.tsv")
    assert found == pytest.approx(tuned.metrics, rel=1e-4)


@pytest.mark.full
def test_slow_average_of_a_short_run_is_warned_of(folder, messages):
    tune(folder, epochs=1, ema=0.999)
    (warning,) = [line for line in messages if "ema=0.999" in line]
    check_named(warning, "3 steps", "100 %")
    messages.clear()
    tune(folder, epochs=1, ema=0.2)
    assert not [line for line in messages if "ema=" in line]


@pytest.mark.full
def test_schedule_of_keras_is_kept_and_resumed(folder, tmp_path):
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([2, 7], [1e-2, 5e-3, 1e-3])
    options = {"epochs": 4, "schedule": schedule, "save_every": 3, "keep_checkpoints": True}
    copies = Copies(tmp_path / "run", tmp_path / "crashed", 8, state=6)
    data = {"train": folder / "train.tsv", "dev": folder / "dev.tsv", "output": tmp_path / "run"}
    options |= {"batch_size": 13, "callbacks": [copies], "layer_decay": 0.9}
    tuned = kbert.finetune(folder / "source", "classify", **data, **QUIET, **options)
    rates = [line["learning_rate"] for line in tuned.history.updates]
    # Keras: up to a boundary, inclusively, the value before it
    assert rates == pytest.approx([1e-2] * 3 + [5e-3] * 5 + [1e-3] * 4)
    settings = json.loads((tmp_path / "run/settings.json").read_text())["settings"]
    assert settings["schedule"]["class_name"] == "PiecewiseConstantDecay"
    assert "PiecewiseConstantDecay" in (tmp_path / "run/model/README.md").read_text()
    other = keras.optimizers.schedules.PiecewiseConstantDecay([2, 7], [1e-2, 5e-3, 2e-3])
    for run in ("crashed", "run"):  # in the middle, and finished
        with raises(ValueError, "schedule"):
            kbert.resume(tmp_path / run, **QUIET, schedule=other)
    kbert.resume(tmp_path / "crashed", **QUIET, schedule=schedule)
    assert_states_equal(tmp_path / "run", tmp_path / "crashed", STEPS)


@pytest.mark.full
def test_schedule_of_keras_pretrains(tmp_path):
    from helpers.run_shards import CONFIG, make_shards
    from helpers.run_shards import SETTINGS as PRETRAINING

    shards, config = make_shards(tmp_path), kbert.BertConfig(**CONFIG)
    schedule = keras.optimizers.schedules.CosineDecay(0.0, 8, warmup_target=3e-3, warmup_steps=2)
    options = {n: PRETRAINING[n] for n in PRETRAINING if n not in ("learning_rate", "steps")}
    options |= {"steps": 10, "schedule": schedule, "ema": 0.5, **QUIET}
    copies = Copies(tmp_path / "run", tmp_path / "crashed", 6, state=4)
    options |= {"keep_checkpoints": True, "callbacks": [copies]}
    trained = kbert.pretrain(shards, config, output=tmp_path / "run", **options)
    rates = [line["learning_rate"] for line in trained.history.updates]
    expected = [float(schedule(step)) for step in range(10)]
    assert rates == pytest.approx(expected, rel=1e-6)
    kbert.resume(tmp_path / "crashed", **QUIET)
    assert_states_equal(tmp_path / "run", tmp_path / "crashed", 10)
    file = "model/model.safetensors"
    assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "crashed" / file).read_bytes()
    shutil.rmtree(tmp_path / "crashed")


@pytest.mark.full
def test_betas_and_epsilon_are_the_runs(folder):
    """Without memory, AdamW moves every weight by the learning rate, to the gradient's sign."""
    rate, steps = 1e-3, 2
    options = {"beta_1": 0.0, "beta_2": 0.0, "epsilon": 1e-30, "weight_decay": 0.0}
    options |= {"learning_rate": rate, "schedule": "constant", "warmup_ratio": 0.0}
    tuned = tune(folder, epochs=1, batch_size=20, keep_best=False, **options)
    assert len(tuned.history.updates) == steps
    first = {layer.name: layer for layer in kbert.load(folder / "source").model.layers}
    moved = [
        (after - before) / rate
        for layer in tuned.bert.model.layers
        if layer.name in first
        for after, before in zip(layer.get_weights(), first[layer.name].get_weights(), strict=True)
    ]
    found = np.concatenate([array.ravel() for array in moved])
    np.testing.assert_allclose(found, np.round(found), atol=2e-3)
    assert set(np.round(np.abs(found))) == {0, 1, 2}


FALLS_BELOW_0 = keras.optimizers.schedules.PolynomialDecay(1e-3, 3, end_learning_rate=-1e-2)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"schedule": "cosine", "schedule_power": 2.0}, ("schedule_power", "polynomial")),
        ({"min_learning_rate_ratio": 0.1, "schedule": "constant"}, ("min_learning_rate_ratio",)),
        ({"schedule_timescale": 9}, ("schedule_timescale", "inverse_sqrt")),
        ({"optimizer": keras.optimizers.Lion(), "beta_1": 0.8}, ("beta_1", "Lion")),
        ({"optimizer": keras.optimizers.Lion(), "epsilon": 1e-8}, ("epsilon", "Lion")),
        ({"optimizer": keras.optimizers.Lion(), "beta_2": 0.0}, ("beta_2", "Lion")),
        *(
            ({"schedule": keras.optimizers.schedules.CosineDecay(1e-3, 9), name: value}, (name,))
            for name, value in {
                "learning_rate": 1e-3,
                "warmup_ratio": 0.2,
                "head_learning_rate": 1e-2,
                "min_learning_rate_ratio": 0.1,
                "schedule_power": 2.0,
            }.items()
        ),
        ({"schedule": keras.optimizers.schedules.CosineDecay}, ("schedule", "CosineDecay")),
        ({"schedule": keras.optimizers.schedules.ExponentialDecay(-1.0, 3, 0.5)}, ("schedule",)),
        ({"schedule": FALLS_BELOW_0, "epochs": 2}, ("PolynomialDecay", "for step")),
    ],
)
def test_settings_that_exclude_each_other_are_refused(folder, tmp_path, options, named):
    data = {"train": folder / "train.tsv", "output": tmp_path / "run"}
    with pytest.raises(ValueError) as error:
        kbert.finetune(folder / "source", "classify", **data, **QUIET, **options)
    text = str(error.value)
    assert all(name in text for name in named) and "\n" not in text
    assert not (tmp_path / "run").exists()
