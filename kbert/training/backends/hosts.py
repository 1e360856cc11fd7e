"""The other hosts: whether they are there, before a library waits for them without end."""

import contextlib
import errno
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from kbert.io import json_schema as js

HOST_TIMEOUT_S = 40  # with the start of the libraries less than a minute
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
_ASKED, _YES, _GO = "there?", "yes", "go"


def tf_config() -> dict | None:
    """Return TF_CONFIG, checked; None where it is not set or names one worker alone."""
    text = os.environ.get(_TF_CONFIG)
    if not text:
        return None
    try:
        found = js.parse(text, _CONFIG, _TF_CONFIG)
    except ValueError as error:
        raise ValueError(
            'TF_CONFIG must be JSON like {"cluster": {"worker": ["host:port", …]}, "task": '
            f'{{"type": "worker", "index": 0}}}}: {error}'
        ) from None
    workers, (kind, index) = found["cluster"]["worker"], map(found["task"].get, ("type", "index"))
    if set(found["cluster"]) != {"worker"} or kind != "worker":
        raise ValueError(
            "TF_CONFIG must name workers alone (the first one is the chief), got "
            f"{', '.join(found['cluster'])} and a task of type {kind!r}"
        )
    if index >= len(workers):
        raise ValueError(
            f"TF_CONFIG must give this task an index of 0 … {len(workers) - 1}, got {index!r}"
        )
    if len(workers) == 1:
        return None
    _check_addresses(workers, _TF_CONFIG)
    return found


def wait_for(addresses: list[str], mine: int, timeout_s: float = HOST_TIMEOUT_S) -> None:
    """Wait until every other host takes connections; this one does so meanwhile.

    A TimeoutError names the hosts that are not there.
    """
    missing = [address for n, address in enumerate(addresses) if n != mine]
    end = time.monotonic() + timeout_s
    with listening(addresses[mine], _TF_CONFIG), ThreadPoolExecutor(len(missing)) as threads:
        while missing:
            there = threads.map(is_there, missing)  # at once: a host that is off takes a second
            missing = [address for address, found in zip(missing, there, strict=True) if not found]
            if missing and time.monotonic() > end:
                raise TimeoutError(
                    f"no host answered at {', '.join(missing)} within {timeout_s:.0f} s: start "
                    "it with the same list of workers, or take it out of the list"
                )
            if missing:
                time.sleep(0.2)
        time.sleep(1.0)  # for those that ask a moment later


def start_jax(timeout_s: float = HOST_TIMEOUT_S) -> None:
    """Call `keras.distribution.initialize`, once all processes are there; nothing for one alone.

    JAX itself waits for five minutes, then aborts, and names nobody. So process 0 calls the roll
    first, at the address where JAX will listen then. A TimeoutError names those that are absent.
    """
    import keras

    if not os.environ.get(_ADDRESSES):
        return
    addresses = [address.strip() for address in os.environ[_ADDRESSES].split(",")]
    _check_addresses(addresses, _ADDRESSES)
    count = number_in(_COUNT, range(1, sys.maxsize), "a whole number of at least 1")
    mine = number_in(_ID, range(count), f"0 … {count - 1}")
    if len(addresses) not in (1, count):
        raise ValueError(
            f"{_ADDRESSES} must list process 0 alone or all {count} processes, got "
            f"{len(addresses)} addresses"
        )
    if mine == 0:
        _call_roll(addresses, count, timeout_s)
    else:
        _answer_roll(addresses[0], mine, timeout_s)
    keras.distribution.initialize()


def _call_roll(addresses: list[str], count: int, timeout_s: float) -> None:
    """Process 0: waits for the others, then tells each that it may go on, or who is absent."""
    end = time.monotonic() + timeout_s
    here: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(listening(addresses[0], _ADDRESSES))
        while len(here) < count - 1 and (left := end - time.monotonic()) > 0:
            server.settimeout(left)
            with contextlib.suppress(OSError, ValueError):  # nobody, or none of ours
                connection = opened.enter_context(server.accept()[0])
                here[_number_from(connection, count)] = connection
        absent = [number for number in range(1, count) if number not in here]
        listed = dict(enumerate(addresses))
        names = [f"process {n}" + (f" ({listed[n]})" if n in listed else "") for n in absent]
        for connection in here.values():
            with contextlib.suppress(OSError):
                connection.sendall(f"{', '.join(names) or _GO}\n".encode())
    if absent:
        raise TimeoutError(_absent(", ".join(names), addresses[0], timeout_s))


def _answer_roll(first: str, mine: int, timeout_s: float) -> None:
    """Any other process: tells process 0 that it is there, and waits until all are."""
    end, answer = time.monotonic() + timeout_s, ""
    while not answer and (left := end - time.monotonic()) > 0:
        with contextlib.suppress(OSError), _connected(first) as connection:
            connection.sendall(f"{mine}\n".encode())
            connection.settimeout(left + 2.0)  # process 0 says who is absent, if it waits as long
            if _line_from(connection) == _ASKED:
                connection.sendall(f"{_YES}\n".encode())
                answer = _line_from(connection)
        if not answer:  # not process 0, or it was ended
            time.sleep(0.2)
    if answer != _GO:
        raise TimeoutError(_absent(answer or f"process 0 ({first})", first, timeout_s))


def _absent(names: str, first: str, timeout_s: float) -> str:
    return (
        f"{names} did not answer within {timeout_s:.0f} s: start it with {first} as the first of "
        f"{_ADDRESSES} and its own {_ID}, or lower {_COUNT}"
    )


def _number_from(connection: socket.socket, count: int) -> int:
    """Return the number that another process says that it has; a ValueError where it says none.

    It is asked back, because what one has sent is still read when it has left.
    """
    connection.settimeout(1.0)
    number = int(_line_from(connection))
    connection.sendall(f"{_ASKED}\n".encode())
    if not 0 < number < count or _line_from(connection) != _YES:
        raise ValueError(number)
    return number


def _line_from(connection: socket.socket) -> str:
    with connection.makefile(encoding="ascii", errors="replace") as file:
        return file.readline(1000).strip()


def number_in(variable: str, allowed: range, rule: str, instead: str = "") -> int:
    """Return the whole number in a variable of the environment.

    A ValueError says by which rule it must be in a range, and `instead`, what to do.
    """
    text = os.environ.get(variable)
    number = int(text) if text and text.strip().isdecimal() else -1
    if number not in allowed:
        raise ValueError(f"{variable} must be {rule}, got {text!r}{instead}")
    return number


def _check_addresses(addresses: list[str], variable: str) -> None:
    """Raise a ValueError for what is no host:port, and for one that stands twice."""
    for address in addresses:
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"{variable} must name hosts as host:port, got {address!r}")
        if addresses.count(address) > 1:
            raise ValueError(f"{variable} must give each process its own port, got {address} twice")


@contextlib.contextmanager
def listening(address: str, variable: str):
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


def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=1.0)


def is_there(address: str) -> bool:
    try:
        with _connected(address):
            return True
    except OSError:
        return False
