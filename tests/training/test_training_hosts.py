"""Absent hosts, taken ports and bad variables are one line, before a library waits."""

import importlib
import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from helpers.errors import check_named, raises
from test_training_processes import ports

from kbert.training import backends
from kbert.training.backends import hosts

JAX = "KERAS_DISTRIBUTION_"
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG")
NAMES += tuple(f"{JAX}{name}" for name in ("JOB_ADDRESSES", "NUM_PROCESSES", "PROCESS_ID"))


def torch_hosts():
    pytest.importorskip("torch")
    return importlib.import_module("kbert.training.backends.torch_hosts")


START = {
    "tensorflow": hosts.read_tf_config,
    "jax": lambda: hosts.start_jax(timeout_s=0.3),
    "torch": lambda: torch_hosts().start(timeout_s=0.3),
}


@pytest.fixture
def addresses():
    return [f"127.0.0.1:{port}" for port in ports(2)]


@pytest.fixture
def process(monkeypatch, addresses):
    """Set the variables of one of two processes; None leaves one out."""
    host, port = addresses[0].split(":")
    of_jax = {"JOB_ADDRESSES": ",".join(addresses), "NUM_PROCESSES": 2, "PROCESS_ID": 0}
    variables = {
        "tensorflow": {"TF_CONFIG": workers(addresses)},
        "jax": {f"{JAX}{name}": value for name, value in of_jax.items()},
        "torch": {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": host, "MASTER_PORT": port},
    }

    def set_variables(kind: str, **changes) -> None:
        chosen = variables[kind] | changes
        for name in NAMES:
            monkeypatch.delenv(name, raising=False)
            if chosen.get(name) is not None:
                monkeypatch.setenv(name, str(chosen[name]))

    return set_variables


def workers(addresses, index: int = 0) -> str:
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})


SERVER = '{"cluster": {"ps": ["a:1"], "worker": ["b:2"]}, "task": {"type": "ps", "index": 0}}'
BAD = {
    "tensorflow": [
        ("TF_CONFIG", "no json", ["TF_CONFIG", "JSON"]),
        ("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:2"]}}', ["TF_CONFIG", "JSON"]),
        ("TF_CONFIG", workers(["a:1", "b:2"], index=2), ["TF_CONFIG", "index", "0 … 1", "got 2"]),
        ("TF_CONFIG", SERVER, ["TF_CONFIG", "workers"]),
        ("TF_CONFIG", workers(["a:1", "b"]), ["TF_CONFIG", "host:port", "'b'"]),
        ("TF_CONFIG", workers(["a:1", "b:http"]), ["TF_CONFIG", "host:port", "'b:http'"]),
        ("TF_CONFIG", workers(["a:1", "b:0"]), ["TF_CONFIG", "host:port", "'b:0'"]),
        ("TF_CONFIG", workers(["a:1", 2]), ["TF_CONFIG", "host:port", "got 2"]),
        ("TF_CONFIG", workers(["a:1", "a:1"]), ["TF_CONFIG", "port", "a:1"]),
    ],
    "jax": [
        (f"{JAX}PROCESS_ID", "2", ["PROCESS_ID", "0 … 1", "'2'"]),
        (f"{JAX}PROCESS_ID", "x", ["PROCESS_ID", "0 … 1", "'x'"]),
        (f"{JAX}NUM_PROCESSES", "two", ["NUM_PROCESSES", "'two'"]),
        (f"{JAX}NUM_PROCESSES", "3", ["all 3", "got 2"]),
        (f"{JAX}JOB_ADDRESSES", "here", ["JOB_ADDRESSES", "host:port", "'here'"]),
    ],
    "torch": [
        ("WORLD_SIZE", "two", ["WORLD_SIZE", "'two'"]),
        ("WORLD_SIZE", "0", ["WORLD_SIZE", "'0'", "torchrun"]),
        ("WORLD_SIZE", "1", None),
        ("RANK", None, ["RANK", "0 … 1", "WORLD_SIZE", "None"]),
        ("RANK", "x", ["RANK", "0 … 1", "'x'"]),
        ("RANK", "2", ["RANK", "0 … 1", "'2'"]),
        ("MASTER_ADDR", None, ["MASTER_ADDR", "None"]),
        ("MASTER_PORT", None, ["MASTER_PORT", "None"]),
        ("MASTER_PORT", "http", ["MASTER_PORT", "1 … 65535", "'http'"]),
        ("MASTER_PORT", "65536", ["MASTER_PORT", "'65536'"]),
    ],
}


@pytest.mark.parametrize(
    ("kind", "name", "value", "things"),
    [(kind, *case) for kind, cases in BAD.items() for case in cases],
)
def test_bad_variables_are_one_line_errors(process, kind, name, value, things):
    process(kind, **{name: value})
    if things is None:  # process 0 of 1
        assert START[kind]() == (0, 1)
        return
    with raises(ValueError, *things) as error:
        START[kind]()
    assert "\n" not in str(error.value)


def test_absent_worker_is_named(addresses):
    with pytest.raises(TimeoutError) as error:
        hosts.wait_for(addresses, 0, timeout_s=0.3)
    assert str(error.value).startswith(f"no host answered at {addresses[1]} within 0 s: start")


@pytest.mark.full
def test_workers_wait_for_each_other(addresses):
    other = threading.Thread(target=hosts.wait_for, args=(addresses, 1, 20))
    other.start()
    hosts.wait_for(addresses, 0, 20)
    other.join(20)
    assert not other.is_alive()


@pytest.mark.parametrize("listed", [True, False])
def test_absent_first_jax_process_is_named(process, addresses, listed):
    changes = {} if listed else {f"{JAX}JOB_ADDRESSES": addresses[0]}
    process("jax", **{f"{JAX}PROCESS_ID": 1}, **changes)
    with pytest.raises(TimeoutError) as error:
        START["jax"]()
    check_named(str(error.value), f"process 0 ({addresses[0]})", "KERAS_DISTRIBUTION_PROCESS_ID")
    assert "\n" not in str(error.value)


@pytest.mark.full
@pytest.mark.parametrize(("number", "reason"), [("0", "1/2 clients joined"), ("1", "")])
def test_absent_torch_process_is_one_line_error(process, addresses, number, reason):
    process("torch", RANK=number)
    with pytest.raises(TimeoutError) as error:
        START["torch"]()
    text = str(error.value)
    assert text.startswith(f"not all of the 2 processes met at {addresses[0]} within 0 s (")
    assert reason in text and "\n" not in text
    how = "start each with the same MASTER_ADDR and MASTER_PORT and its own RANK, or lower WORLD_SI"
    assert how in text


@pytest.mark.full
@pytest.mark.parametrize("here", [[0], [0, 1]])
def test_jax_processes_that_wait_for_an_absent_one_end_with_one_line(addresses, here):
    pytest.importorskip("jax")
    code = "import sys; from kbert.training.backends import hosts; hosts.start_jax(9)"
    started = []
    for number in here:
        variables = {"JOB_ADDRESSES": addresses[0], "NUM_PROCESSES": "3", "PROCESS_ID": number}
        environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
        environment |= {f"{JAX}{key}": str(value) for key, value in variables.items()}
        command, options = [sys.executable, "-c", code], {"stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, **options))
    for process in started:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 2
        check_named(said, "3 processes", addresses[0], "9 s")
        assert "Check failure" not in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("kind", "variable"),
    [("tensorflow", "TF_CONFIG"), ("jax", f"{JAX}JOB_ADDRESSES"), ("torch", "MASTER_PORT")],
)
def test_taken_port_is_one_line_error(process, addresses, kind, variable):
    process(kind)
    start = START[kind] if kind != "tensorflow" else lambda: hosts.wait_for(addresses, 0)
    port = int(addresses[0].split(":")[1])
    with socket.create_server(("", port)), pytest.raises(OSError) as error:
        start()
    text = error.value.strerror  # what the command line shows
    check_named(text, variable, addresses[0])
    assert "\n" not in text


@pytest.mark.parametrize(
    ("local", "gpus", "message"),
    [
        ("1", 2, None),
        (None, 1, None),
        ("2", 2, ("LOCAL_RANK", "0 … 1", "'2'")),
        (None, 2, ("LOCAL_RANK", "0 … 1", "None", "--nproc-per-node=2")),
    ],
)
def test_torch_process_uses_the_gpu_of_its_rank(process, monkeypatch, local, gpus, message):
    """Without a GPU: what torch is asked for."""
    process("torch", LOCAL_RANK=local)
    cuda, asked, module = pytest.importorskip("torch").cuda, [], torch_hosts()
    monkeypatch.delenv("KERAS_TORCH_DEVICE", raising=False)
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(cuda, "set_device", asked.append)
    monkeypatch.setattr(module, "make_group", lambda: None)
    monkeypatch.setattr(module.dist, "init_process_group", lambda kind, **_: asked.append(kind))
    if message is None:
        assert START["torch"]() == (0, 2) and asked == [int(local or 0), "nccl"]
        return
    with raises(ValueError, *message) as error:
        START["torch"]()
    assert "\n" not in str(error.value) and not asked


def test_devices_must_be_all_of_a_host(process):
    pytest.importorskip("tensorflow")
    process("tensorflow")
    with raises(ValueError, "devices", "got 77"):
        backends.start(77)


def test_several_devices_in_one_torch_process_are_refused():
    pytest.importorskip("torch")
    from kbert.training.backends.torch import TorchBackend

    with raises(ValueError, "devices", "torch", "got 2", "torchrun"):
        TorchBackend(2)


def test_tpu_without_name_is_one_line_error(monkeypatch):
    tf = pytest.importorskip("tensorflow")
    monkeypatch.delenv("TPU_NAME", raising=False)
    devices = {"TPU": ["a TPU"]}
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: devices.get(kind, []))
    said = ("'local'", "TPU_NAME")
    with raises(ValueError, *said) as error:
        backends.start()
    assert "TPUs not found" in str(error.value) and "\n" not in str(error.value)


def test_keras_distribution_on_tensorflow_is_refused(monkeypatch):
    import keras

    if keras.backend.backend() == "jax":
        pytest.skip("JAX follows it")
    monkeypatch.setattr(keras.distribution, "distribution", lambda: object())
    with raises(ValueError, "devices=N") as error:
        backends.start()
    assert "\n" not in str(error.value)
