"""`--dask ADDRESS`: the workers of a Dask cluster, as an executor, while a command needs them."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from kbert.data.corpus.tokenizing import IN_FLIGHT
from kbert.io import extras

CONNECT_S = 10.0


@contextlib.contextmanager
def executor_at(address: str | None) -> Iterator[Executor | None]:
    """Give the executor of the scheduler at tcp://host:port; None without an address.

    A ConnectionError says that no scheduler answers there.
    """
    if address is None:
        yield None
        return
    client = _open_client(address)
    with _Waiting(client) as executor, client:  # closed first, the client ends what is waited for
        if not client.nthreads():
            logging.getLogger("kbert").warning("%s has no workers yet: waiting for some", address)
        yield executor


def _open_client(address: str):
    """A client of Dask, which says nothing itself: what it would say is in the command's error."""
    extras.require("--dask", "dask", "distributed")
    from distributed import Client

    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        future: Future = Future()
        # A thread of its own: Dask waits far longer for what takes a connection and says nothing
        arguments = (future, Client, address)
        thread = threading.Thread(target=_connect, args=arguments, daemon=True)
        thread.start()
        return future.result(CONNECT_S + 1)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"--dask must be the address of a Dask scheduler that answers within {CONNECT_S:g} "
            f"seconds, got {address!r}: {str(error) or 'no answer'}"
        ) from None


def _connect(future: Future, client, address: str) -> None:
    try:
        future.set_result(client(address, timeout=CONNECT_S, set_as_default=False))
    except Exception as error:  # for whoever waits
        future.set_exception(error)


class _Waiting(ThreadPoolExecutor):
    """Has the client's workers compute, a thread each waits for what Dask calls a future.

    `client.get_executor()` has futures that end wrong, or never, where a worker or the scheduler
    dies while a result is on its way (distributed 2026.8).
    """

    def __init__(self, client):
        super().__init__(IN_FLIGHT)
        self._client = client

    def submit(self, function, /, *arguments, **options):
        # no block comes twice: pure would hash each for nothing
        future = self._client.submit(function, *arguments, pure=False, **options)
        return super().submit(future.result)
