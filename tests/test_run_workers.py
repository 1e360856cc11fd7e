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
from run_shards import CONFIG, SETTINGS, make_shards
from test_run_kills import assert_equal

from kbert import BertConfig

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
        with said(folder, run, index).open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "kbert", "pretrain", *asked, *QUIETLY],
                env=os.environ | {"KERAS_BACKEND": backend} | variables,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        started.append(process)
    return started


def said(folder: Path, run: str, index: int) -> Path:
    """What a worker wrote on stderr."""
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "kills"),
    [
        ("tensorflow", ((1, 6), (0, 12))),
        ("jax", ((1, 6),)),  # it aborts all without the first
        ("torch", ((0, 6),)),  # the one where they met
    ],
)
def test_one_of_two_workers_is_killed(whole, backend, kills):
    folder = whole(backend)
    for killed, lines in kills:
        both = workers(folder, "killed", backend)
        when_recorded(folder, "killed", lines)
        both[killed].send_signal(signal.SIGKILL)
        assert both[killed].wait(30) == -9
        other = both[1 - killed]
        try:
            status = other.wait(60)  # it cannot go on alone
        finally:
            other.kill()
        text = said(folder, "killed", 1 - killed).read_text()
        (line,) = (line for line in text.splitlines() if "another process of this run" in line)
        way_on = f"kbert pretrain --resume {folder / 'killed'}"
        assert status == 2 and line.endswith(f"start all of them again: {way_on}")
        assert not (folder / "killed" / "result.json").exists()
    finish(workers(folder, "killed", backend), folder, "killed")
    assert_equal(folder / "whole", folder / "killed")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_one_of_two_workers_is_asked_to_stop(whole, backend):
    """Both stop, with one state after the same update, whichever it was."""
    folder = whole(backend)
    way_on = f"kbert pretrain --resume {folder / 'stopped'}"
    for asked, number, lines in ((1, signal.SIGTERM, 3), (0, signal.SIGINT, 11)):
        both = workers(folder, "stopped", backend)
        when_recorded(folder, "stopped", lines)
        both[asked].send_signal(number)
        try:
            assert [process.wait(60) for process in both] == [130, 130]
        finally:
            for process in both:
                process.kill()
        last = [said(folder, "stopped", index).read_text().splitlines()[-1] for index in range(2)]
        done = recorded(folder, "stopped")
        assert (
            last
            == [f"kbert: stopped after update {done} of 22 and saved; go on with: {way_on}"] * 2
        )
        assert lines <= done < 22
        assert (folder / "stopped" / "checkpoints" / f"step-{done:08d}.safetensors").is_file()
    finish(workers(folder, "stopped", backend), folder, "stopped")
    assert_equal(folder / "whole", folder / "stopped")
