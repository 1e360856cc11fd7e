"""Two workers on one machine, one is killed: started again, both end with the same bits."""

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
                [sys.executable, "-m", "kbert", "pretrain", *asked, "--peak-flops=1e9", "--quiet"],
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "kills"),
    [("tensorflow", ((1, 6), (0, 12))), ("jax", ((1, 6),))],  # JAX aborts all without the first
)
def test_one_of_two_workers_is_killed(tmp_path, backend, kills):
    pytest.importorskip(backend)
    make_shards(tmp_path)
    (tmp_path / "config.json").write_text(BertConfig(**CONFIG).to_json())
    finish(workers(tmp_path, "whole", backend), tmp_path, "whole")
    for killed, lines in kills:
        both = workers(tmp_path, "killed", backend)
        end = time.monotonic() + 120
        while recorded(tmp_path, "killed") < lines and time.monotonic() < end:
            time.sleep(0.01)
        both[killed].send_signal(signal.SIGKILL)
        assert both[killed].wait(30) == -9
        other = both[1 - killed]
        try:
            status = other.wait(60)  # it cannot go on alone
        finally:
            other.kill()
        text = said(tmp_path, "killed", 1 - killed).read_text()
        (line,) = (line for line in text.splitlines() if "another process of this run" in line)
        way_on = f"kbert pretrain --resume {tmp_path / 'killed'}"
        assert status == 2 and line.endswith(f"start all of them again: {way_on}")
        assert not (tmp_path / "killed" / "result.json").exists()
    finish(workers(tmp_path, "killed", backend), tmp_path, "killed")
    assert_equal(tmp_path / "whole", tmp_path / "killed")
