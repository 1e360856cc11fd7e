"""Two workers on one machine, one is killed or asked to stop: both go on to the same bits."""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.run_shards import CONFIG, SETTINGS, make_shards
from helpers.xla_flags import environment_of
from test_run_kills import assert_equal

from kbert import BertConfig

pytestmark = pytest.mark.full

QUIETLY = ("--peak-flops=1e9", "--quiet", "--keep=all")


def ports(count: int) -> list[int]:
    """Free ones."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return found


def environments(backend: str) -> list[dict[str, str]]:
    """The variables of both."""
    addresses = [f"127.0.0.1:{port}" for port in ports(2)]
    if backend == "jax":
        names = ("JOB_ADDRESSES", "NUM_PROCESSES", "PROCESS_ID")
        values = [(addresses[0], "2", str(index)) for index in range(2)]
        return [
            {f"KERAS_DISTRIBUTION_{name}": text for name, text in zip(names, texts, strict=True)}
            for texts in values
        ]
    if backend == "torch":
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": addresses[0].rpartition(":")[2]}
        return [shared | {"WORLD_SIZE": "2", "RANK": str(index)} for index in range(2)]
    tasks = [{"type": "worker", "index": index} for index in range(2)]
    return [
        {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})}
        for task in tasks
    ]


def workers(folder: Path, run: str, backend: str) -> list[subprocess.Popen]:
    """Both, started."""
    if (folder / run).exists():
        asked = ["--resume", folder / run]
    else:
        settings = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
        asked = [
            folder / "shards",
            "--config",
            folder / "config.json",
            "-o",
            folder / run,
            *settings,
        ]
    started = []
    for index, variables in enumerate(environments(backend)):
        with said(folder, run, index).open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "kbert", "pretrain", *asked, *QUIETLY],
                env=os.environ | environment_of(backend) | variables,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        started.append(process)
    return started


def said(folder: Path, run: str, index: int) -> Path:
    """What a worker wrote on stderr since it was started last."""
    return folder / f"{run}-{index}.txt"


def finish(processes: list[subprocess.Popen], folder: Path, run: str) -> None:
    for index, process in enumerate(processes):
        status = process.wait(180)
        assert status == 0, said(folder, run, index).read_text()[-3000:]


def recorded(folder: Path, run: str) -> int:
    file = folder / run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with the shards and a run that nothing stopped, on a backend."""

    @functools.cache
    def of(backend: str) -> Path:
        pytest.importorskip(backend)
        folder = tmp_path_factory.mktemp(backend)
        make_shards(folder)
        (folder / "config.json").write_text(BertConfig(**CONFIG).to_json())
        finish(workers(folder, "whole", backend), folder, "whole")
        return folder

    return of


def when_recorded(folder: Path, run: str, lines: int) -> None:
    """Waits for so many updates."""
    end = time.monotonic() + 120
    while recorded(folder, run) < lines and time.monotonic() < end:
        time.sleep(0.01)


def killed(folder: Path, run: str, backend: str, index: int, lines: int) -> None:
    """Starts both; one is killed after so many updates, and the other cannot go on alone."""
    both = workers(folder, run, backend)
    when_recorded(folder, run, lines)
    both[index].send_signal(signal.SIGKILL)
    assert both[index].wait(30) == -9
    other = both[1 - index]
    try:
        status = other.wait(120)
    finally:
        other.kill()
    text = said(folder, run, 1 - index).read_text()
    (line,) = (line for line in text.splitlines() if "another process of this run" in line)
    assert status == 2
    assert line.endswith(f"start all of them again: kbert pretrain --resume {folder / run}")
    assert not (folder / run / "result.json").exists()


def stopped(folder: Path, run: str, backend: str, index: int, lines: int, number: int) -> None:
    """Starts both; one is asked to stop, and both do, with one state after the same update."""
    both = workers(folder, run, backend)
    when_recorded(folder, run, lines)
    both[index].send_signal(number)
    try:
        expected = [130, 130]
        expected[index] = 128 + number
        assert [process.wait(120) for process in both] == expected
    finally:
        for process in both:
            process.kill()
    last = [said(folder, run, index).read_text().splitlines()[-1] for index in range(2)]
    done = recorded(folder, run)
    way_on = f"go on with: kbert pretrain --resume {folder / run}"
    assert last == [f"kbert: stopped after update {done} of 22 and saved; {way_on}"] * 2
    assert lines <= done < 22
    assert (folder / run / "checkpoints" / f"step-{done:08d}.safetensors").is_file()


# What becomes of a run: how it ends, which worker it happens to, after how many updates, signal.
# Each start takes seconds of two processes: more happens with `pytest -m nightly`.
LIVES = {
    "tensorflow": [(killed, 0, 6), (stopped, 1, 11, signal.SIGTERM)],
    "jax": [(killed, 1, 6), (stopped, 0, 11, signal.SIGINT)],  # it aborts all without the first
    "torch": [(killed, 0, 6), (stopped, 1, 11, signal.SIGINT)],  # the first is where they met
}
STOPS = [(stopped, 1, 3, signal.SIGTERM), (stopped, 0, 11, signal.SIGINT)]
MORE = {
    "kills": ("tensorflow", [(killed, 1, 6), (killed, 0, 12)]),
    **{f"stops-{backend}": (backend, STOPS) for backend in LIVES},
}
CASES = [
    *(pytest.param(backend, "run", life, id=backend) for backend, life in LIVES.items()),
    *(
        pytest.param(backend, name, life, id=name, marks=pytest.mark.nightly)
        for name, (backend, life) in MORE.items()
    ),
]


@pytest.mark.full
@pytest.mark.parametrize(("backend", "run", "life"), CASES)
def test_two_workers_resume_bit_equal_after_kill_and_stop(whole, backend, run, life):
    folder = whole(backend)
    for happens, index, lines, *more in life:
        happens(folder, run, backend, index, lines, *more)
    finish(workers(folder, run, backend), folder, run)
    assert_equal(folder / "whole", folder / run)
