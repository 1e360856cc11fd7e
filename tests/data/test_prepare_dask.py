"""`kbert prepare --dask` with a scheduler and workers of Dask's own, a process each."""

import contextlib
import inspect
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from helpers.command_line import kbert
from helpers.corpora import SMALL_SHARD as SHARD
from helpers.corpora import content, prepare_some
from helpers.sizes import ROOT

from kbert.cli import dask_cluster
from kbert.data.corpus import preparing, tokenizing

PATIENCE_S = 60.0


@contextlib.contextmanager
def started(module: str, *arguments):
    """A process of Dask's, until the end of the block."""
    command = [sys.executable, "-m", f"distributed.cli.{module}", *map(str, arguments)]
    process = subprocess.Popen(
        [*command, "--no-dashboard"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(true, what: str):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


@pytest.fixture
def scheduler(tmp_path):
    """The process and its address."""
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", 0, "--scheduler-file", file)
    with started("dask_scheduler", *options) as process:
        wait_until(lambda: file.exists() and file.read_text().endswith("}"), "no scheduler")
        yield process, json.loads(file.read_text())["address"]


@contextlib.contextmanager
def workers(address: str, count: int, folder: Path):
    """Processes of one thread each, once the scheduler has all of them."""
    import distributed

    options = ("--nthreads", 1, "--no-nanny", "--local-directory", folder)
    with contextlib.ExitStack() as stack:
        found = [
            stack.enter_context(started("dask_worker", address, *options)) for _ in range(count)
        ]
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=PATIENCE_S)
        yield found


@pytest.fixture
def call(corpus, capsys, tmp_path, monkeypatch):
    """Runs the command, given an address and options; its exit status, stdout and stderr."""
    monkeypatch.setitem(inspect.unwrap(preparing.prepare).__kwdefaults__, "shard_tokens", SHARD)
    folder = corpus[0]
    command = ("prepare", folder / "a.txt", folder / "b.jsonl.gz", "--vocab", folder / "vocabulary")
    return partial(kbert, capsys, *command, "-o", tmp_path / "shards", "--dask")


def killed_midway(process, shards: Path) -> threading.Thread:
    """A thread that kills the process once the first shard is there."""

    def kill():
        wait_until((shards / "part-00000.json").exists, "no shard")
        process.kill()
        assert not (shards / "index.json").exists()  # else it was no kill in the middle

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.full
def test_dask_worker_killed_midway_gives_the_same_bytes(corpus, scheduler, call, tmp_path):
    with workers(scheduler[1], 2, tmp_path) as (victim, _):
        killer = killed_midway(victim, tmp_path / "shards")
        status, out, err = call(scheduler[1])
        killer.join()
    assert (status, err) == (0, "") and out.startswith(f"wrote {tmp_path / 'shards'}: ")
    assert content(tmp_path / "shards") == corpus[1]


@pytest.mark.full
def test_lost_dask_scheduler_is_one_line_and_prepare_resumes(corpus, scheduler, call, tmp_path):
    with workers(scheduler[1], 1, tmp_path):
        killer = killed_midway(scheduler[0], tmp_path / "shards")
        status, out, err = call(scheduler[1])
        killer.join()
    assert (status, out) == (2, "")
    said = r"kbert: the executor .*: (its work cancelled|\w+Error: ).*: what is done is kept\n"
    assert re.fullmatch(said, err)
    prepare_some(corpus[0], tmp_path / "shards", processes=1)
    assert content(tmp_path / "shards") == corpus[1]


@pytest.mark.full
def test_dask_without_workers_says_so_and_waits(scheduler, call, monkeypatch):
    monkeypatch.setattr(tokenizing, "ANSWER_S", 0.5)
    status, out, err = call(scheduler[1])
    first, second = err.splitlines()
    assert (status, out) == (2, "")
    assert first == f"kbert: {scheduler[1]} has no workers yet: waiting for some"
    assert "a.txt, line 1: no answer within 0.5 seconds. Check its workers" in second


@pytest.mark.full
def test_missing_dask_scheduler_is_one_line_soon(call, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 0.7)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_port = silent.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as closed:
            closed_port = closed.getsockname()[1]
        for address in (
            f"tcp://127.0.0.1:{silent_port}",
            f"tcp://127.0.0.1:{closed_port}",
            "tcp://127.0.0.1",
            "x://127.0.0.1:1",
            "",
        ):
            begun = time.monotonic()
            status, out, err = call(address)
            assert (status, out, err.count("\n")) == (2, "", 1), err
            assert f"answers within 0.7 seconds, got {address!r}: " in err
            assert time.monotonic() - begun < 20  # of the 30 of Dask itself


@pytest.mark.full
def test_dask_missing_or_with_processes_is_refused(call, monkeypatch):
    status, out, err = call("tcp://127.0.0.1:1", "--processes", 2)
    assert (status, out) == (2, "")
    assert err == "kbert: --dask and --processes cannot go together: leave one out\n"
    monkeypatch.setitem(sys.modules, "distributed", None)
    status, out, err = call("tcp://127.0.0.1:1")
    assert (status, out) == (2, "")
    assert err == (
        "kbert: --dask needs the package distributed, which is not installed: pip install "
        '".[dask]" in the clone of kbert\n'
    )
