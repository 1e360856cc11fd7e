"""A time budget, whose run is computed again bit for bit; batches that grow, by micro-batches."""

import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers.backends import full_on
from helpers.errors import raises
from helpers.run_shards import CONFIG, make_shards, without_times

import kbert

HOURS = 0.001  # 3.6 s
SETTINGS = {"seq_len": 17, "learning_rate": 3e-3, "mlm_only": True, "dev_ratio": 0.2}
GROWING = {"batch_size": 18, "accumulation_steps": 6, "ramp_from": 6, "ramp_ratio": 0.5}
GROWING |= {"separate_documents": True}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return make_shards(tmp_path_factory.mktemp("data"))


def train(shards, output, **settings):
    options = {"output": output, "progress": False, "peak_flops": 1e9} | SETTINGS | settings
    return kbert.pretrain(shards, kbert.BertConfig(**CONFIG), **options)


def read_lines(file) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module", params=[{"batch_size": 6}, GROWING], ids=["plain", "growing"])
def budget_run(request, shards, tmp_path_factory):
    folder = tmp_path_factory.mktemp("budget") / "run"
    start = time.monotonic()
    trained = train(shards, folder, hours=HOURS, log_every=3, **request.param)
    return trained, folder, time.monotonic() - start


def test_rate_follows_the_share_of_the_budget(budget_run):
    trained, folder, _ = budget_run
    lines = trained.history.updates
    assert 0.9 * 3600 * HOURS < lines[-1]["seconds"] < 2 * 3600 * HOURS
    assert "val_loss" in lines[-1]
    for line in lines:
        share = line["budget_share"]
        expected = 3e-3 * min(share / 0.1, (1 - share) / 0.9)
        np.testing.assert_allclose(line["learning_rate"], expected, rtol=1e-4, atol=1e-9)

    shares = read_lines(folder / "budget.jsonl")  # of each step, whatever log_every is
    assert [line["step"] for line in shares] == [*range(1, lines[-1]["step"] + 1)]
    by_step = {line["step"]: line["budget_share"] for line in shares}
    assert all(by_step[line["step"]] == line["budget_share"] for line in lines)


def test_run_is_computed_again_from_its_recorded_shares(budget_run, tmp_path):
    """The folder of a run that was killed before its first state was whole."""
    trained, folder, _ = budget_run
    for name in ("settings.json", "budget.jsonl"):
        shutil.copy(folder / name, tmp_path / name)
    again = kbert.resume(tmp_path, progress=False, peak_flops=1e9)
    assert without_times(again.history.updates) == without_times(trained.history.updates)
    pairs = zip(again.bert.model.get_weights(), trained.bert.model.get_weights(), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


def test_run_goes_on_by_the_clock_after_its_last_record(budget_run, tmp_path):
    trained, folder, _ = budget_run
    shutil.copy(folder / "settings.json", tmp_path)
    lines = (folder / "budget.jsonl").read_text().splitlines(keepends=True)
    known = len(lines) // 2
    (tmp_path / "budget.jsonl").write_text("".join(lines[:known]) + '{"step": 9')
    again = kbert.resume(tmp_path, progress=False, peak_flops=1e9)
    for old, new in zip(trained.history.updates, again.history.updates, strict=False):
        if new["step"] <= known:
            assert without_times([old]) == without_times([new])
    shares = [line["budget_share"] for line in read_lines(tmp_path / "budget.jsonl")]
    assert shares == sorted(shares)
    assert 0.9 < shares[-1] <= 1
    # the other half of the time: compiling again, which takes longer, is not counted
    assert len(shares) > known + len(lines) // 8


@pytest.mark.full
def test_run_that_is_killed_ends_as_one_that_is_not(shards, tmp_path):
    """Killed at any moment and resumed, it has the weights of its recorded shares."""
    config = tmp_path / "config.json"
    config.write_text(kbert.BertConfig(**CONFIG).to_json())
    command = [sys.executable, "-m", "kbert", "pretrain", "-q"]
    new = [shards, "--config", config, "-o", tmp_path / "run", "--hours", HOURS]
    new += ["--seq-len", 17, "--batch-size", 18, "--accumulation-steps", 6, "--ramp-from", 6]
    new += ["--mlm-only", "--dev-ratio", 0.2, "--save-every", 13]
    records = tmp_path / "run" / "budget.jsonl"

    process = subprocess.Popen([*command, *map(str, new)])
    while not records.exists() or len(records.read_bytes().splitlines()) < 29:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    states = [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()]
    assert len(states) > 1  # one of a later step than the first
    killed = kbert.resume(tmp_path / "run", progress=False)

    whole = tmp_path / "whole"
    whole.mkdir()
    for name in ("settings.json", "budget.jsonl"):
        shutil.copy(tmp_path / "run" / name, whole / name)
    unbroken = kbert.resume(whole, progress=False)
    assert without_times(unbroken.history.updates) == without_times(killed.history.updates)
    pairs = zip(unbroken.bert.model.get_weights(), killed.bert.model.get_weights(), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


@full_on("jax", "torch")
def test_growing_batch_computes_what_a_small_one_computes(shards, tmp_path):
    """Without dropout, the steps of a ramp are those of a run with batches of that size."""
    steps = {"steps": 40, "schedule": "constant", "warmup_steps": 0, "dropout": 0.0}
    growing = train(shards, tmp_path / "growing", **steps, **GROWING)
    small = train(shards, tmp_path / "small", **steps, batch_size=6, separate_documents=True)
    # half of 40 steps, from 2 micro-batches to 6 of 3: the third one from step 5 on
    pairs = [*zip(growing.history.updates, small.history.updates, strict=True)]
    for line, expected in pairs[:5]:
        for name in ("loss", "gradient_norm", "MLM_accuracy"):
            np.testing.assert_allclose(line[name], expected[name], rtol=2e-4)
    assert abs(pairs[5][0]["loss"] - pairs[5][1]["loss"]) > 1e-3
    # 5 steps each of 6, 9, 12 and 15 examples, then 20 of 18
    text = (tmp_path / "growing" / "report.html").read_text()
    assert "570 examples" in text


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, ["steps", "hours"]),
        ({"hours": 1, "steps": 9}, ["steps", "hours"]),
        ({"hours": 1, "warmup_steps": 9}, ["warmup_steps", "hours"]),
        ({"steps": 9, "warmup_steps": 2, "warmup_ratio": 0.2}, ["warmup_ratio"]),
        ({"hours": 0}, ["hours"]),
        ({"hours": 1e-9}, ["hours", "10 steps"]),
        ({"steps": 9, "ramp_ratio": 0.5}, ["ramp_ratio", "ramp_from"]),
        ({"steps": 9, "ramp_from": 2}, ["ramp_from", "32"]),
        ({"steps": 9, "ramp_from": 3, "ramp_ratio": 1}, ["ramp_ratio"]),
        ({"steps": 9, **GROWING, "ramp_from": 7}, ["ramp_from", "multiple of 3"]),
        ({"steps": 9, **GROWING, "ramp_from": 18}, ["ramp_from", "18"]),
        ({"steps": 9, **GROWING, "teacher": "no such model"}, ["ramp_from", "teacher"]),
    ],
)
def test_budget_or_ramp_that_cannot_be_is_refused(shards, tmp_path, settings, named):
    with raises(ValueError, *named) as error:
        train(shards, tmp_path / "run", **settings)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_too_many_steps_per_call_of_a_growing_batch_are_refused(shards, tmp_path):
    with raises(ValueError, "steps_per_execution", "15"):
        train(shards, tmp_path / "run", hours=HOURS, steps_per_execution=16, **GROWING)
    assert not (tmp_path / "run").exists()


def test_evaluation_has_its_own_mlm_probability(shards, tmp_path):
    """Every token is predicted there: its loss is a mean over more of them than in training."""
    settings = {"steps": 2, "batch_size": 6, "evaluate_every": 1, "dropout": 0.0}
    apart = train(shards, tmp_path / "a", evaluation_mlm_probability=1.0, **settings)
    usual = train(shards, tmp_path / "b", **settings)
    first, second = apart.history.updates, usual.history.updates
    for line, expected in zip(first, second, strict=True):
        np.testing.assert_allclose(line["loss"], expected["loss"], rtol=1e-5)
        assert abs(line["val_loss"] - expected["val_loss"]) > 1e-4
