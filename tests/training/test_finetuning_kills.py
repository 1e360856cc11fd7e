"""`kbert finetune`, killed at any point and resumed, ends with the bits of a run that was not."""

import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.labelled_texts import write_texts
from helpers.run_shards import without_times
from helpers.sizes import HELPERS
from helpers.small_berts import small_berts
from helpers.xla_flags import environment_of

import kbert
from kbert.training.run.records import read_records
from kbert.training.run.state_files import read_state

pytestmark = pytest.mark.full

SCRIPT = HELPERS / "finetuning_process.py"
STEPS = 10  # 2 epochs of 23 examples: 4 batches of 5 and one of 3
# [point, update]; states are written every third update and where the evaluation is the best
POINTS = {
    "tensorflow": [["update", 2], ["within the write", 6], ["after the rename", 9]],
    "jax": [["within the write", 6]],
    "torch": [["within the write", 6]],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    """A checkpoint with dropout, and labelled texts."""
    folder = tmp_path_factory.mktemp("kills")
    for name, count in (("train", 23), ("dev", 9)):
        write_texts(folder / f"{name}.tsv", count, seed=count)
    config = dataclasses.replace(small, num_hidden_layers=1)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.1
    kbert.save(small_berts(config)["encoder"], folder / "source")
    return folder


@pytest.fixture(scope="module")
def starts(folder):
    """A process for each backend, side by side: they start the runs one after the other."""
    processes = {}
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "cache")}  # each start compiles the same
    cache |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    for backend, points in POINTS.items():
        if importlib.util.find_spec(backend):
            runs = [(f"{backend}_killed", point) for point in [*points, None]]
            lines = [
                {"run": run, "kill": kill} for run, kill in [(f"{backend}_whole", None), *runs]
            ]
            processes[backend] = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | environment_of(backend) | cache,
            )
            processes[backend].stdin.write("".join(json.dumps(line) + "\n" for line in lines))
            processes[backend].stdin.close()
    yield processes
    for process in processes.values():
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.full
@pytest.mark.parametrize("backend", POINTS)
def test_killed_finetuning_resumes_bit_equal(starts, folder, backend):
    if backend not in starts:
        pytest.skip(f"{backend} is not installed")
    lines = starts[backend].stdout.read().splitlines()
    ends = [json.loads(line) for line in lines if line.lstrip("-").isdecimal()]
    assert ends == [0, *[-signal.SIGKILL] * len(POINTS[backend]), 0], lines
    assert_equal(folder / f"{backend}_whole", folder / f"{backend}_killed")


def assert_equal(whole: Path, killed: Path) -> None:
    """Final states, models, records and figures, bit for bit."""
    last = f"checkpoints/step-{STEPS:08d}.safetensors"
    (arrays, _), (others, _) = (read_state(run / last) for run in (whole, killed))
    assert set(arrays) == set(others)
    assert not [name for name in arrays if not np.array_equal(arrays[name], others[name])]
    weights = "model/model.safetensors"
    assert (whole / weights).read_bytes() == (killed / weights).read_bytes()
    lines = [without_times(read_records(run / "metrics.jsonl")) for run in (whole, killed)]
    assert [line["step"] for line in lines[1]] == list(range(1, STEPS + 1))
    assert lines[0] == lines[1]  # the losses are of the same examples
    assert (whole / "result.json").read_bytes() == (killed / "result.json").read_bytes()
    assert not list(killed.rglob("*.part"))
