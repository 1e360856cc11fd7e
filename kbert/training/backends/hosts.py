"""The other hosts: whether they are there, before a library waits for them without end."""

import contextlib
import errno
import logging
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kbert.io import json_schema as js

HOST_TIMEOUT_S = 40  # with the start of the libraries less than a minute
JAX_TIMEOUT_S = 120  # with the first exchange of all devices
_TF_CONFIG = "TF_CONFIG"
_CONFIG = js.fields(
    {
        "cluster": js.fields({"worker": js.LIST}),
        "task": js.fields({"type": js.TEXT, "index": js.whole()}),
    }
)
_ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"
_COUNT = "KERAS_DISTRIBUTION_NUM_PROCESSES"
_ID = "KERAS_DISTRIBUTION_PROCESS_ID"


def read_tf_config() -> dict | None:
    """Return TF_CONFIG, checked; None where it is not set or names one worker alone."""
    text = os.environ.get(_TF_CONFIG)
    if not text:
        return None
    try:
        config = js.parse(text, _CONFIG, _TF_CONFIG)
    except ValueError as error:
        raise ValueError(
            'TF_CONFIG must be JSON like {"cluster": {"worker": ["host:port", …]}, "task": '
            f'{{"type": "worker", "index": 0}}}}: {error}'
        ) from None

    workers = config["cluster"]["worker"]
    task = config["task"]
    kind = task["type"]
    index = task["index"]
    if set(config["cluster"]) != {"worker"} or kind != "worker":
        raise ValueError(
            "TF_CONFIG must name workers alone (the first one is the chief), got "
            f"{', '.join(config['cluster'])} and a task of type {kind!r}"
        )
    if index >= len(workers):
        raise ValueError(
            f"TF_CONFIG must give this task an index of 0 … {len(workers) - 1}, got {index!r}"
        )
    if len(workers) == 1:
        return None
    _check_addresses(workers, _TF_CONFIG)
    return config


def wait_for(addresses: list[str], mine: int, timeout_s: float = HOST_TIMEOUT_S) -> None:
    """Wait until all other hosts take connections; a TimeoutError names those that do not."""
    other_hosts = [address for n, address in enumerate(addresses) if n != mine]
    with listen(addresses[mine], _TF_CONFIG):
        absent = _wait_until_reachable(other_hosts, timeout_s)
        if absent:
            raise TimeoutError(
                f"no host answered at {', '.join(absent)} within {timeout_s:.0f} s: start "
                "it with the same list of workers, or take it out of the list"
            )
        time.sleep(1.0)  # for those that ask a moment later


def _wait_until_reachable(addresses: list[str], timeout_s: float) -> list[str]:
    """Wait for hosts; return those that take no connection within the time."""
    end = time.monotonic() + timeout_s
    with ThreadPoolExecutor(len(addresses)) as threads:
        while True:
            answers = threads.map(is_reachable, addresses)  # at once: each may take a second
            pairs = list(zip(addresses, answers, strict=True))
            addresses = [address for address, is_there in pairs if not is_there]
            if not addresses or time.monotonic() > end:
                return addresses
            time.sleep(0.2)


def start_jax(timeout_s: float = JAX_TIMEOUT_S) -> None:
    """`keras.distribution.initialize`, with one line where processes are absent; nothing for one.

    JAX waits for five minutes, then aborts the process, and names nobody. So the others look for
    process 0 first (a TimeoutError without it), and a timer ends a process that waits in JAX for
    longer than `timeout_s`: nothing in Python can break JAX's wait off.
    """
    import keras

    if not os.environ.get(_ADDRESSES):
        return
    first, mine, count = _read_jax_variables()
    way = (
        f"within {timeout_s:.0f} s: start each with {first} as the first of {_ADDRESSES} and its "
        f"own {_ID}, or lower {_COUNT}"
    )
    if mine == 0:
        with listen(first, _ADDRESSES):
            pass  # the port is free: JAX's own message would be many lines
    elif _wait_until_reachable([first], timeout_s):
        raise TimeoutError(f"process 0 ({first}) did not answer {way}")

    def end() -> None:
        text = f"not all of the {count} processes met at {first} {way}"
        logging.getLogger("kbert").error(text)
        sys.stderr.flush()
        os._exit(2)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        keras.distribution.initialize()
    finally:
        timer.cancel()


def _read_jax_variables() -> tuple[str, int, int]:
    """Return the address of process 0, this one's number, and the count of processes."""
    items = os.environ[_ADDRESSES].split(",")
    addresses = [item.strip() for item in items]
    _check_addresses(addresses, _ADDRESSES)
    count = number_in(_COUNT, range(1, sys.maxsize), "a whole number of at least 1")
    mine = number_in(_ID, range(count), f"0 … {count - 1}")
    if len(addresses) not in (1, count):
        raise ValueError(
            f"{_ADDRESSES} must list process 0 alone or all {count} processes, got "
            f"{len(addresses)} addresses"
        )
    return addresses[0], mine, count


def number_in(variable: str, allowed: range, rule: str, instead: str = "") -> int:
    """Return the whole number in a variable of the environment; a ValueError has the rule."""
    text = os.environ.get(variable)
    number = -1
    if text is not None and text.strip().isdecimal():
        number = int(text)
    if number not in allowed:
        raise ValueError(f"{variable} must be {rule}, got {text!r}{instead}")
    return number


def _check_addresses(addresses: list[str], variable: str) -> None:
    """Raise a ValueError for what is no host:port, and for one that stands twice."""
    for address in addresses:
        if not _is_address(address):
            raise ValueError(f"{variable} must name hosts as host:port, got {address!r}")
        if addresses.count(address) > 1:
            raise ValueError(f"{variable} must give each process its own port, got {address} twice")


def _is_address(address) -> bool:
    """Return whether a value is host:port."""
    if not isinstance(address, str):
        return False
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return False
    return 0 < int(port) < 1 << 16


@contextlib.contextmanager
def listen(address: str, variable: str):
    """Open this process's own port for the others."""
    port = int(address.rpartition(":")[2])
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        server = socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except OSError as error:
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        raise OSError(
            error.errno,
            f"{variable} gives this process the address {address}, but its port {why} here: end "
            "the program that listens there, perhaps an old run, or name another port on all hosts",
        ) from None
    with server:
        yield server


def is_reachable(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=1.0):
            return True
    except OSError:
        return False
