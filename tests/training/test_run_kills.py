"""A run that is killed, at any point and any number of times, ends with the same bits."""

import functools
import json
import random
from pathlib import Path

import pytest
from helpers.interrupted_run import assert_states_equal
from helpers.labelled_texts import write_source
from helpers.run_shards import SETTINGS, make_shards, without_times

from kbert.training.run.records import read_records

# 2 epochs of 23 examples, 5 a batch; "functions": with a loss and metrics of the user
STEPS = {"pretrain": SETTINGS["steps"], "finetune": 10, "functions": 10}

# Where a process is killed: [point, step], one start after the other. A start takes a second on
# torch, and several on TensorFlow and JAX, which compile.
EVERY = [
    ["before the settings", 0],
    ["before the write", 0],
    ["update", 2],  # between the first state, of no step, and the second
    ["before the write", 4],
    ["within the write", 8],
    ["before the rename", 8],
    ["after the rename", 12],
    ["within a line", 14],
    ["two updates later", 16],
    ["update", 17],
    ["within the write", 22],
    ["before the report", 0],
]
# a fine-tuning writes states every third step and where the evaluation is the best
FINETUNE = [["update", 2], ["within the write", 6], ["after the rename", 9]]
CASES = {
    "full": {
        ("pretrain", "torch"): EVERY,
        ("finetune", "torch"): FINETUNE,
        ("functions", "torch"): [["update", 2], ["within the write", 6]],
        ("pretrain", "tensorflow"): [["two updates later", 12]],  # after the rename, too
        ("pretrain", "jax"): [["within the write", 8]],
    },
    "nightly": {
        ("pretrain", "tensorflow"): EVERY,
        ("pretrain", "jax"): EVERY,
        ("finetune", "tensorflow"): FINETUNE,
        ("finetune", "jax"): FINETUNE,
        ("functions", "tensorflow"): FINETUNE,
        ("functions", "jax"): FINETUNE,
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    """Shards; a checkpoint with dropout, and labelled texts."""
    folder = tmp_path_factory.mktemp("runs")
    make_shards(folder)
    assert small.hidden_dropout_prob == small.attention_probs_dropout_prob == 0.1
    return write_source(folder, small, train=23, dev=9)


@pytest.fixture(scope="module")
def start(folder, forks):
    """Start or resume a run on a backend, killed at a point; returns the exit status."""

    def start(backend: str, run: str, kill: list | None, together: int = 1) -> int:
        asked = str(folder), run, kill, together
        out = folder / f"{run}.txt"
        return forks(backend).wait(
            forks(backend).start("helpers.run_process:start", *asked, out=out)
        )

    return start


@pytest.fixture(scope="module")
def whole(start, folder):
    """The run that nothing stops, of a task on a backend."""

    @functools.cache
    def run_whole(task: str, backend: str) -> Path:
        run = f"{task}_{backend}_whole"
        assert start(backend, run, None) == 0
        return folder / run

    return run_whole


def assert_equal(whole: Path, killed: Path, steps: int = SETTINGS["steps"]) -> None:
    """Final states, models, records and metrics of two runs, bit for bit."""
    assert_states_equal(whole, killed, steps)
    for name in ("model/model.safetensors", "model/README.md"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes()
    lines = [without_times(read_records(run / "metrics.jsonl")) for run in (whole, killed)]
    assert [line["step"] for line in lines[1]] == list(range(1, steps + 1))
    assert lines[0] == lines[1]  # the losses are of the same examples
    results = [json.loads((run / "result.json").read_text()) for run in (whole, killed)]
    assert without_times(results)[0] == without_times(results)[1]
    assert not list(killed.rglob("*.part"))


@pytest.mark.parametrize(
    ("task", "backend", "points"),
    [
        pytest.param(
            *case,
            points,
            id="-".join([round_, *case]),
            marks=getattr(pytest.mark, round_),
        )
        for round_, cases in CASES.items()
        for case, points in cases.items()
    ],
)
def test_killed_run_resumes_bit_equal(start, whole, folder, task, backend, points):
    expected, killed = whole(task, backend), f"{task}_{backend}_killed_{len(points)}"
    for point in points:
        assert start(backend, killed, point) == -9, point
        states = list((folder / killed).glob("checkpoints/step-*"))
        assert len(states) <= 4  # two, the best, one more
    assert start(backend, killed, None) == 0
    assert_equal(expected, folder / killed, STEPS[task])


@pytest.mark.nightly
def test_run_killed_at_any_time_resumes_bit_equal(start, whole, folder):
    """The clock says when: wherever that is. Three steps a call end as one a call."""
    expected = whole("pretrain", "tensorflow")
    for seconds in [round(random.uniform(0.3, 4.0), 2) for _ in range(4)]:
        assert start("tensorflow", "clock", ["seconds", seconds], 3) in (-9, 0), seconds
    assert start("tensorflow", "clock", None, 3) == 0
    assert_equal(expected, folder / "clock")
