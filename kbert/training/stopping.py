"""Ctrl-C and SIGTERM as a stop request, which the loop obeys between two steps.

A signal reaches one host, and a callback may stop one alone. If that one stopped, the others would
wait for it in the next step's sums without end; so each host's stop request goes into those
sums, which all hosts read, and all stop after the same step.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple

from kbert.training.time_budget import TimeBudget

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
MOST_AHEAD = 1  # calls of the device that are sent before the metrics of the last one are read


class Stopped(KeyboardInterrupt):
    """A stop by Ctrl-C or SIGTERM; the message says what is saved and how to resume.

    `status` is the exit status of a command that stops: 130 for Ctrl-C, 143 for SIGTERM.
    """

    def __init__(self, message: str, number: int | None = None):
        super().__init__(message)
        self.status = 128 + (number or signal.SIGINT)  # None: another process had the signal


class ProcessFailed(RuntimeError):
    """Another process of the run is gone; the message says how to resume."""


class StopFlags(NamedTuple):
    """Why a process wants the run to end after a step."""

    callback: bool
    signal: bool
    budget: bool = False  # the time budget is used up


NO_STOP = StopFlags(False, False)


class StopRequest:
    """True once there was a signal to stop."""

    signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


class Agreement:
    """Agreement of all hosts on why the run ends, of which this host's signal is `request`.

    `budget` is the run's time budget; None: it has a number of steps.
    """

    def __init__(self, engine, request: StopRequest, budget: TimeBudget | None = None):
        self._engine = engine
        self._budget = budget
        self.request = request
        self._sent = self._received = 0  # calls of the device
        self._known: tuple[int, StopFlags] | None = None  # since the call of that number

    def send(self) -> StopFlags:
        """Return this host's stop flags, which are sent with the next call."""
        self._sent += 1
        return self._own()

    def receive(self, step: int, metrics: list[dict[str, float]]) -> None:
        """Take the sums of the stop flags from the metrics of a call's steps, from `step` on."""
        self._received += 1
        for number, values in enumerate(metrics, step):
            if self._budget is not None:
                self._budget.add(number, values["budget_share"])
            stop_flags = StopFlags(
                callback=values.pop("callback", 0.0) > 0,
                signal=values.pop("signal", 0.0) > 0,
                budget=self._is_spent(number + 1),
            )
            if any(stop_flags) and self._known is None:
                self._known = self._received, stop_flags

    def decide(self, done: int) -> StopFlags:
        """Say why the run ends after the last call; of several hosts each gets the same answer.

        `done` is the number of steps that were sent.
        """
        if self._engine.backend.processes == 1:
            return self._own()._replace(budget=self._is_spent(done))
        # some of them may have begun a call more before they could read the stop requests
        if self._known is None or self._sent < self._known[0] + MOST_AHEAD:
            return NO_STOP
        return self._known[1]

    def agree_now(self) -> StopFlags:
        """Return the same where all hosts are at one place, such as the end of an epoch."""
        return self._engine.backend.any_process(self._own())

    def _is_spent(self, done: int) -> bool:
        return self._budget is not None and self._budget.is_spent(done)

    def _own(self) -> StopFlags:
        return StopFlags(bool(self._engine.model.stop_training), bool(self.request))


@contextlib.contextmanager
def stop_requests(alone: bool = True) -> Iterator[StopRequest]:
    """Set a stop request on SIGINT and SIGTERM within this context; a second signal stops at once.

    Unless the run is `alone`, Python may wait for a process that does not come, and gets no signal:
    the second one then ends the process.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return

    def handle(number, frame):
        if request:
            raise Stopped("stopped at once, by a second signal", number)
        request.signal = number

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        with contextlib.nullcontext() if alone else _exit_on_second_signal():
            yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _exit_on_second_signal() -> Iterator[None]:
    """End the process with the second signal, whatever its main thread waits for."""
    received, wakeup = socket.socketpair()  # Python writes each signal's number at once
    wakeup.setblocking(False)

    def listen():
        count = 0
        number = received.recv(1)
        while number:  # closed once the context has ended
            count += number[0] in _SIGNALS
            if count == 2:
                os._exit(128 + number[0])  # what is on the disk is whole at any moment
            number = received.recv(1)

    listener = threading.Thread(target=listen, daemon=True)
    before = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        wakeup.close()
        listener.join()
        received.close()
