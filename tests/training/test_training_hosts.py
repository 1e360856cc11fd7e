"""Absent hosts and bad variables are one line, before a library waits."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from test_training_processes import ports

from kbert.training.backends import hosts
from kbert.training.engine import Engine


@pytest.fixture
def addresses():
    return [f"127.0.0.1:{port}" for port in ports(2)]


@pytest.fixture
def jax_process(monkeypatch, addresses):
    """Sets the variables of a process on JAX; its address is listed if there are several."""

    def set_variables(number, listed: str | None = None, count="2"):
        monkeypatch.setenv("KERAS_DISTRIBUTION_JOB_ADDRESSES", listed or ",".join(addresses))
        monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", count)
        monkeypatch.setenv("KERAS_DISTRIBUTION_PROCESS_ID", str(number))

    return set_variables


def workers(addresses, index: int = 0) -> str:
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})


def test_absent_worker_is_named(monkeypatch, addresses):
    with pytest.raises(TimeoutError) as error:
        hosts.wait_for(addresses, 0, timeout_s=0.3)
    assert str(error.value).startswith(f"no host answered at {addresses[1]} within 0 s: start")


def test_workers_wait_for_each_other(addresses):
    other = threading.Thread(target=hosts.wait_for, args=(addresses, 1, 20))
    other.start()
    hosts.wait_for(addresses, 0, 20)
    other.join(20)
    assert not other.is_alive()


@pytest.mark.parametrize("listed", [True, False])
def test_absent_first_jax_process_is_named(jax_process, addresses, listed):
    jax_process(1, None if listed else addresses[0])
    with pytest.raises(TimeoutError) as error:
        hosts.start_jax(timeout_s=0.3)
    assert str(error.value).startswith(f"process 0 ({addresses[0]}) did not answer within 0 s")
    assert "its own KERAS_DISTRIBUTION_PROCESS_ID" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.full
@pytest.mark.parametrize("here", [[0], [0, 1]])
def test_jax_processes_that_wait_for_an_absent_one_end_with_one_line(addresses, here):
    pytest.importorskip("jax")
    code = "import sys; from kbert.training.backends import hosts; hosts.start_jax(9)"
    started = []
    for number in here:
        variables = {"JOB_ADDRESSES": addresses[0], "NUM_PROCESSES": "3", "PROCESS_ID": number}
        environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
        environment |= {f"KERAS_DISTRIBUTION_{key}": str(it) for key, it in variables.items()}
        command = [sys.executable, "-c", code]
        started.append(
            subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        )
    for process in started:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 2
        assert f"not all of the 3 processes met at {addresses[0]} within 9 s" in said
        assert "Check failure" not in said and "Traceback" not in said


@pytest.mark.parametrize("variable", ["TF_CONFIG", "KERAS_DISTRIBUTION_JOB_ADDRESSES"])
def test_taken_port_is_one_line_error(jax_process, addresses, variable):
    jax_process(0)
    start = hosts.start_jax if "KERAS" in variable else lambda: hosts.wait_for(addresses, 0)
    port = int(addresses[0].split(":")[1])
    with socket.create_server(("", port)), pytest.raises(OSError) as error:
        start()
    text = error.value.strerror  # what the command line shows
    assert text.startswith(
        f"{variable} gives this process the address {addresses[0]}, but its port"
    )
    assert "is taken here: end the program that listens" in text and "\n" not in text


@pytest.mark.parametrize(
    ("number", "listed", "count", "message"),
    [
        (2, None, "2", "PROCESS_ID must be 0 … 1, got '2'"),
        ("x", None, "2", "PROCESS_ID must be 0 … 1, got 'x'"),
        (0, None, "two", "NUM_PROCESSES must be a whole number of at least 1, got 'two'"),
        (0, None, "3", "must list process 0 alone or all 3 processes, got 2 addresses"),
        (0, "here", "2", "JOB_ADDRESSES must name hosts as host:port, got 'here'"),
    ],
)
def test_bad_jax_variables_are_one_line_errors(jax_process, number, listed, count, message):
    jax_process(number, listed, count)
    with pytest.raises(ValueError) as error:
        hosts.start_jax()
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "TF_CONFIG must be JSON like"),
        ('{"cluster": {"worker": ["a:1", "b:2"]}}', "TF_CONFIG must be JSON like"),
        (workers(["a:1", "b:2"], index=2), "an index of 0 … 1, got 2"),
        (
            '{"cluster": {"ps": ["a:1"], "worker": ["b:2"]}, "task": {"type": "ps", "index": 0}}',
            "must name workers alone",
        ),
        (workers(["a:1", "b"]), "TF_CONFIG must name hosts as host:port, got 'b'"),
        (workers(["a:1", "b:http"]), "must name hosts as host:port, got 'b:http'"),
        (workers(["a:1", "b:0"]), "must name hosts as host:port, got 'b:0'"),
        (workers(["a:1", 2]), "must name hosts as host:port, got 2"),
        (workers(["a:1", "a:1"]), "must give each process its own port, got a:1 twice"),
    ],
)
def test_bad_tf_config_is_one_line_error(monkeypatch, text, message):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=message) as error:
        hosts.read_tf_config()
    assert "\n" not in str(error.value)


def test_devices_must_be_all_of_a_host(monkeypatch, addresses):
    pytest.importorskip("tensorflow")
    monkeypatch.setenv("TF_CONFIG", workers(addresses))
    with pytest.raises(ValueError, match=r"devices must be all \d+ of each host .* got 77"):
        Engine(77)


def test_tpu_without_name_is_one_line_error(monkeypatch):
    tf = pytest.importorskip("tensorflow")
    monkeypatch.delenv("TPU_NAME", raising=False)
    devices = {"TPU": ["a TPU"]}
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: devices.get(kind, []))
    with pytest.raises(
        ValueError, match=r"the TPU 'local' cannot be used .* TPU_NAME must"
    ) as error:
        Engine()
    assert "TPUs not found" in str(error.value) and "\n" not in str(error.value)


def test_keras_distribution_on_tensorflow_is_refused(monkeypatch):
    import keras

    if keras.backend.backend() == "jax":
        pytest.skip("JAX follows it")
    monkeypatch.setattr(keras.distribution, "distribution", lambda: object())
    with pytest.raises(ValueError, match=r"trains undistributed .* give devices=N") as error:
        Engine()
    assert "\n" not in str(error.value)
