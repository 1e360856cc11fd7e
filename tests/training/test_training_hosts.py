"""Absent hosts and bad variables are one line, before a library waits."""

import contextlib
import json
import socket
import threading
import time

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


@pytest.mark.parametrize(
    ("number", "listed", "named"),
    [
        (0, True, "process 1 ({1}) did not answer"),
        (0, False, "process 1 did not answer"),
        (1, True, "process 0 ({0}) did not answer"),
        (1, False, "process 0 ({0}) did not answer"),
    ],
)
def test_absent_jax_process_is_named(jax_process, addresses, number, listed, named):
    jax_process(number, None if listed else addresses[0])
    with pytest.raises(TimeoutError) as error:
        hosts.start_jax(timeout_s=0.3)
    assert str(error.value).startswith(named.format(*addresses))
    assert addresses[0] in str(error.value) and "\n" not in str(error.value)


@pytest.mark.full
def test_all_processes_continue_or_hear_who_is_absent(addresses):
    first = addresses[0]

    def roll(count: int, numbers: list[int], patience: float) -> list[str]:
        said: dict[int, str] = {}

        def answer(number):
            try:
                hosts._answer_roll(first, number, patience)
                said[number] = "went on"
            except TimeoutError as error:
                said[number] = str(error).split(" within")[0]

        threads = [threading.Thread(target=answer, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        try:
            hosts._call_roll([first], count, patience)
            said[0] = "went on"
        except TimeoutError as error:
            said[0] = str(error).split(" within")[0]
        for thread in threads:
            thread.join(30)
        return [said[number] for number in sorted(said)]

    assert roll(3, [1, 2], 20) == ["went on"] * 3
    assert roll(4, [1, 3], 1.5) == ["process 2 did not answer"] * 3  # at the same port again


@pytest.mark.parametrize("pause", [0, 0.5])
def test_foreign_connections_do_not_count(addresses, pause):
    place = ("127.0.0.1", int(addresses[0].split(":")[1]))

    def others():
        with contextlib.ExitStack() as opened:
            for text in (b"GET / HTTP/1.1\r\n", b"2\n"):  # no number, too high
                connection = socket.create_connection(place, timeout=5)
                opened.enter_context(connection).sendall(text)
            with socket.create_connection(place, timeout=5) as connection:
                connection.sendall(b"1\n")  # and leaves, before the true process 1 is there
            time.sleep(pause)
            hosts._answer_roll(addresses[0], 1, 30)

    timer = threading.Timer(0.3, others)
    timer.start()
    hosts._call_roll(addresses[:1], 2, 30)
    timer.join(30)
    assert not timer.is_alive()


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
        hosts.tf_config()
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
