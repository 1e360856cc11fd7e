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
from run_shards import make_shards
from test_run_kills import assert_equal

WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from run_process import start
start(Path(sys.argv[2]), sys.argv[3], None)
"""


def ports(count: int) -> list[int]:
    """Free ones."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return found


def workers(folder: Path, run: str) -> list[subprocess.Popen]:
    """Both, started."""
    addresses = [f"127.0.0.1:{port}" for port in ports(2)]
    started = []
    for index in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        errors = (folder / f"{run}-{index}.txt").open("a")
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(Path(__file__).parent), str(folder), run],
                env=os.environ | {"KERAS_BACKEND": "tensorflow", "TF_CONFIG": json.dumps(config)},
                stderr=errors,
            )
        )
        errors.close()
    return started


def finish(processes: list[subprocess.Popen], folder: Path, run: str) -> None:
    for index, process in enumerate(processes):
        status = process.wait(180)
        assert status == 0, (folder / f"{run}-{index}.txt").read_text()[-3000:]


def recorded(folder: Path, run: str) -> int:
    file = folder / run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.slow
def test_one_of_two_workers_is_killed(tmp_path):
    pytest.importorskip("tensorflow")
    make_shards(tmp_path)
    finish(workers(tmp_path, "whole"), tmp_path, "whole")
    for killed, lines in ((1, 6), (0, 12)):
        both = workers(tmp_path, "killed")
        end = time.monotonic() + 120
        while recorded(tmp_path, "killed") < lines and time.monotonic() < end:
            time.sleep(0.01)
        both[killed].send_signal(signal.SIGKILL)
        assert both[killed].wait(30) == -9
        other = both[1 - killed]
        try:
            assert other.wait(60) != 0  # it cannot go on alone
        finally:
            other.kill()
        assert not (tmp_path / "killed" / "result.json").exists()
    finish(workers(tmp_path, "killed"), tmp_path, "killed")
    assert_equal(tmp_path / "whole", tmp_path / "killed")
