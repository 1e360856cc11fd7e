"""The other hosts: whether they are there, before a library waits for them without end."""

import json
import os
import socket
import time

PATIENCE_S = 50


def tf_config() -> dict | None:
    """TF_CONFIG, checked; None where it is not set or names one worker alone.

    Raises:
        ValueError: it is no JSON, names no workers, or not this one.
    """
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        found = json.loads(text)
        workers = found["cluster"]["worker"]
        index = found["task"]["index"]
        kind = found["task"]["type"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            'TF_CONFIG must be JSON like {"cluster": {"worker": ["host:port", …]}, "task": '
            f'{{"type": "worker", "index": 0}}}}, got {text!r}'
        ) from None
    if set(found["cluster"]) != {"worker"} or kind != "worker":
        raise ValueError(
            "TF_CONFIG must name workers alone (the first one is the chief), got "
            f"{', '.join(found['cluster'])} and a task of type {kind!r}"
        )
    if not isinstance(index, int) or not 0 <= index < len(workers):
        raise ValueError(
            f"TF_CONFIG must give this task an index of 0 … {len(workers) - 1}, got {index!r}"
        )
    return found if len(workers) > 1 else None


def wait_for(addresses: list[str], mine: int, patience_s: float = PATIENCE_S) -> None:
    """Waits until every other host takes connections; this one does so meanwhile.

    Raises:
        TimeoutError: the hosts that are not there, by name.
    """
    missing = [address for n, address in enumerate(addresses) if n != mine]
    end = time.monotonic() + patience_s
    with _listening(addresses[mine]):
        while missing:
            missing = [address for address in missing if not _is_there(address)]
            if missing and time.monotonic() > end:
                raise TimeoutError(
                    f"no host answered at {', '.join(missing)} within {patience_s:.0f} s: start "
                    "it with the same list of workers, or take it out of the list"
                )
            if missing:
                time.sleep(0.2)
        time.sleep(1.0)  # for those that ask a moment later


class _listening:
    """This host's own port, open for the questions of the others."""

    def __init__(self, address: str):
        self.port = int(address.rsplit(":", 1)[1])

    def __enter__(self):
        self.server = socket.create_server(("", self.port), reuse_port=False)
        return self

    def __exit__(self, *_):
        self.server.close()


def _is_there(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=1.0):
            return True
    except OSError:
        return False
