"""Two workers on one machine: one is killed or asked to stop, and both resume to the same bits."""

import functools
import os
import signal
import time
from pathlib import Path

import pytest
from helpers.forks import Forks
from helpers.marks import full, nightly
from helpers.run_shards import CONFIG, SETTINGS, make_shards
from test_run_kills import assert_equal
from test_training_processes import environments

import kbert

KINDS = {"tensorflow": "workers", "jax": "jax_hosts", "torch": "torch_processes"}
QUIETLY = ("--peak-flops=1e9", "--quiet", "--keep-checkpoints")


class Runs:
    """Runs of two workers on a backend, and one that nothing stopped."""

    def __init__(self, folder: Path, backend: str, forks: Forks):
        self.folder, self.backend, self.forks = folder, backend, forks
        (self.folder / "config.json").write_text(kbert.BertConfig(**CONFIG).to_json())
        make_shards(folder)

    def start(self, run: str) -> list[int]:
        """The processes of both workers."""
        place = self.folder / run
        if place.exists():
            asked = ["--resume", place]
        else:
            asked = [self.folder / "shards", "--config", self.folder / "config.json", "-o", place]
            asked += [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
        arguments = ["pretrain", *map(str, asked), *QUIETLY]
        command = "kbert.cli.main:main", arguments
        return [
            self.forks.start(*command, out=self.output(run, index), env=variables)
            for index, variables in enumerate(environments(KINDS[self.backend]))
        ]

    def output(self, run: str, index: int) -> Path:
        return self.folder / f"{run}-{index}.txt"

    def said(self, run: str, index: int) -> str:
        """What a worker wrote since it was started last."""
        return self.output(run, index).read_text()

    def finish(self, run: str) -> Path:
        for index, process in enumerate(self.start(run)):
            assert self.forks.wait(process, 180) == 0, self.said(run, index)[-3000:]
        return self.folder / run

    @functools.cached_property
    def whole(self) -> Path:
        return self.finish("whole")

    def until_recorded(self, run: str, lines: int) -> list[int]:
        """Both workers of a run, once so many steps are recorded."""
        both, end = self.start(run), time.monotonic() + 120
        while recorded(self.folder, run) < lines and time.monotonic() < end:
            time.sleep(0.01)
        return both


def recorded(folder: Path, run: str) -> int:
    file = folder / run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory, forks):
    """`Runs` by backend."""

    @functools.cache
    def on(backend: str) -> Runs:
        return Runs(tmp_path_factory.mktemp(backend), backend, forks(backend))

    return on


def killed(runs: Runs, run: str, index: int, lines: int) -> None:
    """Start both; one is killed after so many steps, and the other cannot go on alone."""
    both = runs.until_recorded(run, lines)
    os.kill(both[index], signal.SIGKILL)
    assert [runs.forks.wait(both[place], 120) for place in (index, 1 - index)] == [-9, 2]
    text = runs.said(run, 1 - index)
    (line,) = (line for line in text.splitlines() if "another process of this run" in line)
    place = runs.folder / run
    assert line.endswith(f"Start all of them again: kbert pretrain --resume {place}")
    assert not (place / "result.json").exists()


def stopped(runs: Runs, run: str, index: int, lines: int, number: int) -> None:
    """Start both; one is asked to stop, and both do, with one state after the same step."""
    both = runs.until_recorded(run, lines)
    os.kill(both[index], number)
    expected = [130, 130]
    expected[index] = 128 + number
    assert [runs.forks.wait(process, 120) for process in both] == expected
    last = [runs.said(run, index).splitlines()[-1] for index in range(2)]
    done, place = recorded(runs.folder, run), runs.folder / run
    resume_command = f"To resume: kbert pretrain --resume {place}"
    assert last == [f"kbert: stopped after step {done} of 22 and saved. {resume_command}"] * 2
    assert lines <= done < 22
    assert (place / "checkpoints" / f"step-{done:08d}.safetensors").is_file()


# What becomes of a run: how it ends, which worker it happens to, after how many steps, signal.
TORCH = [(killed, 0, 6), (stopped, 1, 11, signal.SIGINT)]  # the first is where they met
STOPS = [(stopped, 1, 3, signal.SIGTERM), (stopped, 0, 11, signal.SIGINT)]
NIGHTLY = {
    "tensorflow": [(killed, 0, 6), (stopped, 1, 11, signal.SIGTERM)],
    "jax": [(killed, 1, 6), (stopped, 0, 11, signal.SIGINT)],  # it aborts all without the first
    "tensorflow-kills": [(killed, 1, 6), (killed, 0, 12)],
    **{f"{backend}-stops": STOPS for backend in ("tensorflow", "jax", "torch")},
}


@pytest.mark.parametrize(
    ("run", "life"),
    [
        full("torch", TORCH),
        *(nightly(*case) for case in NIGHTLY.items()),
    ],
)
def test_two_workers_resume_bit_equal_after_kill_and_stop(runs, run, life):
    found = runs(run.partition("-")[0])
    for happens, index, lines, *more in life:
        happens(found, run, index, lines, *more)
    assert_equal(found.whole, found.finish(run))


@pytest.mark.full
def test_killed_worker_ends_the_other_with_one_line(runs):
    """On TensorFlow; of torch and JAX a worker is killed above, on JAX in the nightly round."""
    killed(runs("tensorflow"), "alone", 0, 6)
