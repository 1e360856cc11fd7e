"""A run that is killed, at any point and as often as you like, ends with the same bits."""

import functools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.run_shards import SETTINGS, make_shards, without_times
from helpers.sizes import HELPERS
from helpers.xla_flags import environment_of

from kbert.training.run.records import read_records
from kbert.training.run.state_files import read_state

pytestmark = pytest.mark.full

SCRIPT = HELPERS / "run_process.py"
LAST = f"checkpoints/step-{SETTINGS['steps']:08d}.safetensors"

# Where a process is killed: [point, update or seconds], one start after the other. Of each kind one
# in the gate, shared among the backends, since a start takes seconds; `pytest -m nightly` has all.
KILLS = {
    "tensorflow": [
        ["before the settings", 0],
        ["within the write", 8],
        ["two updates later", 12],  # after the rename, too
    ],
    "jax": [["before the write", 0], ["two updates later", 8], ["update", 17]],
    "torch": [
        ["update", 2],  # between the first state, of no update, and the second
        ["before the rename", 8],
        ["within a line", 14],
        ["before the report", 0],
    ],
}
EVERY = [
    ["before the settings", 0],
    ["before the write", 0],
    ["update", 2],
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
CASES = [
    *(pytest.param(backend, points, id=backend) for backend, points in KILLS.items()),
    *(
        pytest.param(backend, EVERY, id=f"{backend}, every point", marks=pytest.mark.nightly)
        for backend in KILLS
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    make_shards(folder)
    return folder


@pytest.fixture(scope="module")
def starts(folder):
    """Starts a run on a backend, killed at a point; gives the exit status."""
    processes = {}

    def start(backend: str, run: str, kill: list | None, together: int = 1) -> int:
        if backend not in processes:
            pytest.importorskip(backend)
            processes[backend] = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | environment_of(backend),
            )
        process = processes[backend]
        process.stdin.write(json.dumps({"run": run, "kill": kill, "together": together}) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield start
    for process in processes.values():
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def assert_equal(whole: Path, killed: Path) -> None:
    """Final states, models and records of two runs, bit for bit."""
    arrays, _ = read_state(whole / LAST)
    others, _ = read_state(killed / LAST)
    assert set(arrays) == set(others)
    different = [name for name in arrays if not np.array_equal(arrays[name], others[name])]
    assert not different
    weights = "model/model.safetensors"
    assert (whole / weights).read_bytes() == (killed / weights).read_bytes()
    lines = [without_times(read_records(run / "metrics.jsonl")) for run in (whole, killed)]
    assert [line["step"] for line in lines[1]] == list(range(1, SETTINGS["steps"] + 1))
    assert lines[0] == lines[1]


@pytest.fixture(scope="module")
def whole(starts, folder):
    """The run that nothing stops, on a backend."""

    @functools.cache
    def of(backend: str) -> Path:
        assert starts(backend, f"{backend}_whole", None) == 0
        return folder / f"{backend}_whole"

    return of


@pytest.mark.full
@pytest.mark.parametrize(("backend", "points"), CASES)
def test_killed_run_resumes_bit_equal(starts, whole, folder, backend, points):
    expected, killed = whole(backend), f"{backend}_killed_{len(points)}"
    for point in points:
        assert starts(backend, killed, point) == -9, point
        left = list((folder / killed).glob("checkpoints/step-*"))
        assert len(left) <= 4  # two, the best, one more
    assert starts(backend, killed, None) == 0
    assert_equal(expected, folder / killed)
    assert not list((folder / killed).rglob("*.part"))


def drawn() -> list[float]:
    return [round(random.uniform(0.3, 3.0), 2) for _ in range(4)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("run", "moments"),
    [("clock", lambda: [1.7]), pytest.param("clocks", drawn, marks=pytest.mark.nightly)],
    ids=["one", "drawn"],
)
def test_run_killed_at_any_time_resumes_bit_equal(starts, whole, folder, run, moments):
    """The clock says when: wherever that is. Three updates a call end as one a call."""
    expected = whole("tensorflow")
    for seconds in moments():
        assert starts("tensorflow", run, ["seconds", seconds], 3) in (-9, 0), seconds
    assert starts("tensorflow", run, None, 3) == 0
    assert_equal(expected, folder / run)
