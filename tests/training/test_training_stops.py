"""A stop that one host alone sees ends all hosts after the same step; without a backend."""

import contextlib
import itertools
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import raises

from kbert.data import training_batch
from kbert.data.training_batch import TrainingBatch
from kbert.graph import names
from kbert.training import time_budget
from kbert.training.engine import Engine
from kbert.training.loop import loop
from kbert.training.loop.history import LoopPlan
from kbert.training.stopping import StopFlags, Stopped, StopRequest, stop_requests
from kbert.training.time_budget import TimeBudget

STEPS, EPOCH, HOSTS = 23, 7, 3


class Meeting:
    """Adds up what all hosts bring; a host that does not come is an error for the others."""

    def __init__(self):
        self.barrier, self.brought = threading.Barrier(HOSTS), {}

    def total(self, host: int, numbers) -> np.ndarray:
        self.brought[host] = np.array(numbers, float)
        self.barrier.wait(5)
        total = sum(self.brought.values())
        self.barrier.wait(5)
        return total


class HostsBackend:
    """One of several hosts that meet: what a loop asks of a `Backend`."""

    processes = replicas = HOSTS
    local = 1

    def __init__(self, meeting: Meeting, process: int):
        self.meeting, self.process = meeting, process

    def any_process(self, stop_flags):
        return StopFlags(*(self.meeting.total(self.process, stop_flags) > 0).tolist())

    def is_process_failure(self, error):
        return False

    def leave(self):
        return


class Host(Engine):
    """An engine whose updates are nothing but their sums over the hosts."""

    def __init__(self, meeting: Meeting, process: int, ahead: int, together: int = 1):
        self.steps_per_execution, self.backend = together, HostsBackend(meeting, process)
        self.ahead = ahead
        self.step = SimpleNamespace(accumulation_steps=1)
        self.state = SimpleNamespace(all=dict, use_averages=lambda: None)
        self.model = SimpleNamespace(stop_training=False)

    def update(self, batch, step, stop_flags):
        sums = self.backend.meeting.total(self.backend.process, [step, *stop_flags])
        assert sums[0] == HOSTS * step  # all are at the same update
        return {"loss": 1.0, "finite": 1.0} | dict(zip(StopFlags._fields, sums[1:], strict=True))

    def updates(self, batches, step, stop_flags, budget_fractions=None):
        sent = [self.update(batch, step + place, stop_flags) for place, batch in enumerate(batches)]
        own = budget_fractions or [0.0] * len(batches)
        shares = self.backend.meeting.total(self.backend.process, own)
        for metrics, share in zip(sent, shares, strict=True):
            metrics["budget_share"] = share
        return lambda: sent


class PlainCallbacks:
    """Tells the callbacks what happens, without a compiled model."""

    def __init__(self, callbacks, engine, batch, **params):
        import keras

        self._list = keras.callbacks.CallbackList(list(callbacks), model=engine.model, **params)

    def tell(self, event, *arguments):
        getattr(self._list, event)(*arguments)


class Saved:
    """A run folder in memory."""

    path = resume_command = "RUN"

    def __init__(self, chief: bool):
        self.states, self.chief = [], chief
        self.log = lambda *_: None
        self.close = lambda: None
        self.begin = lambda step: []

    def save_state(self, arrays, done, score):
        if self.chief:
            self.states.append(done)


class Batches(training_batch.Batches):
    batch_size, fingerprint = HOSTS, {}

    def batch(self, step, part=slice(None)):
        return TrainingBatch({names.TOKEN_IDS: np.zeros((HOSTS, 5), "int32")}, {}, {}).select(part)


def stops(
    monkeypatch, host: int, kind: str, at: int, ahead: tuple[int, ...], together: int = 1
) -> list[tuple]:
    """How each host ends, and the states it saved, where one is told to stop after `at` updates."""
    import keras

    local, meeting, ends = threading.local(), Meeting(), [None] * HOSTS

    @contextlib.contextmanager
    def stop_requests(alone):
        assert not alone
        local.asked = StopRequest()
        yield local.asked

    monkeypatch.setattr(loop, "stop_requests", stop_requests)
    monkeypatch.setattr(loop, "Callbacks", PlainCallbacks)

    def run(number: int) -> None:
        engine, saved = Host(meeting, number, ahead[number], together), Saved(number == 0)
        update = engine.update

        def told(batch, step, stop_flags):
            if number == host and step + 1 == at:
                if kind == "signal":
                    local.asked.signal = 15
                else:
                    engine.model.stop_training = True
            return update(batch, step, stop_flags)

        def at_end(epoch, logs):
            if (
                number == host
                and kind == "callback at an epoch's end"
                and (epoch + 1) * EPOCH == at
            ):
                engine.model.stop_training = True

        if kind != "callback at an epoch's end":
            engine.update = told
        callback = keras.callbacks.LambdaCallback(on_epoch_end=at_end)
        try:
            history = loop.train(
                engine,
                Batches(),
                LoopPlan(STEPS, evaluate_every=EPOCH),
                run=saved,
                progress=False,
                callbacks=[callback],
            )
            ends[number] = history.stopped, saved.states
        except Stopped as stopped:
            ends[number] = str(stopped), saved.states

    threads = [threading.Thread(target=run, args=(number,)) for number in range(HOSTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return ends


@pytest.mark.parametrize("ahead", [(0, 0, 0), (1, 1, 1), (1, 0, 1)])
@pytest.mark.parametrize("host", range(HOSTS))
@pytest.mark.parametrize(
    ("kind", "at", "after"),
    [
        ("signal", 3, 5),  # told with the next update's sums, read one later
        ("signal", 6, 7),  # at an epoch's end at once
        ("signal", 7, 7),
        ("callback", 3, 5),
        ("callback at an epoch's end", 14, 14),
    ],
)
def test_all_hosts_stop_after_the_same_step(monkeypatch, kind, at, after, host, ahead):
    ends = stops(monkeypatch, host, kind, at, ahead)
    why = f"stopped after step {after} of {STEPS} and saved. To resume: RUN"
    if "callback" in kind:
        why = f"a callback stopped it after step {after}"
    assert ends == [(why, [0, after] if number == 0 else []) for number in range(HOSTS)]


@pytest.mark.parametrize("ahead", [(0, 0, 0), (1, 0, 1)])
@pytest.mark.parametrize(
    ("together", "at", "after"),
    [
        (2, 8, 12),  # told with the call of updates 9 and 10, read a call later
        (3, 3, 7),  # a call of 3, one of 3, and the one that the epoch's end cuts off
        (5, 8, 14),
    ],
)
def test_hosts_stop_at_the_end_of_a_call(monkeypatch, together, at, after, ahead):
    ends = stops(monkeypatch, 1, "signal", at, ahead, together)
    why = f"stopped after step {after} of {STEPS} and saved. To resume: RUN"
    assert ends == [(why, [0, after] if number == 0 else []) for number in range(HOSTS)]


@pytest.mark.parametrize("ahead", [(0, 0, 0), (1, 1, 1), (1, 0, 1)])
def test_all_hosts_end_with_the_time_budget(monkeypatch, ahead):
    """The first one has the clock: ten steps and a half fit, the others know it a step later."""
    clock = itertools.count(step=3600 / 10.5)
    own_time = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(time_budget, "time", own_time)
    monkeypatch.setattr(loop, "stop_requests", lambda alone: contextlib.nullcontext(StopRequest()))
    meeting, ends = Meeting(), [None] * HOSTS

    def run(number: int) -> None:
        evaluated = []

        def evaluate() -> dict[str, float]:
            evaluated.append(budget.fractions[-1])
            return {"loss": 0.5}

        saved = Saved(number == 0)
        budget = TimeBudget(1, record=(lambda *_: None) if number == 0 else None)
        plan = LoopPlan(STEPS, evaluate, budget=budget)
        engine = Host(meeting, number, ahead[number])
        history = loop.train(engine, Batches(), plan, run=saved, progress=False)
        last = history.updates[-1]
        ends[number] = last["step"], last["val_loss"], history.stopped, evaluated

    with ThreadPoolExecutor(HOSTS) as threads:
        list(threads.map(run, range(HOSTS)))
    assert ends[0][:3] == (11, 0.5, None)
    assert ends == [ends[0]] * HOSTS
    assert ends[0][3] == [pytest.approx(10 / 10.5)]


@pytest.mark.parametrize("host", range(HOSTS))
def test_error_on_one_host_waits_for_no_other(monkeypatch, messages, host):
    engine = Host(meeting := Meeting(), host, ahead=0)
    meeting.total = lambda host, numbers: HOSTS * np.array(numbers, float)  # of the updates
    begun, left = [], []
    engine.backend.any_process = begun.append  # a barrier
    engine.backend.leave = lambda: left.append(host)

    class Vanishing(Batches):
        def batch(self, step, part=slice(None)):
            if step == 3:
                raise OSError(5, "the disk is gone")
            return super().batch(step, part)

    saved = Saved(chief=host == 0)
    with raises(OSError, "the disk is gone"):
        loop.train(engine, Vanishing(), LoopPlan(STEPS), run=saved, progress=False)
    assert len(begun) == 1  # at the first state, and never again
    assert left == [host]
    assert saved.states == ([0, 3] if host == 0 else [])
    assert any("step 3" in line for line in messages) == (host == 0)


STUCK = """
import ctypes
from kbert.training.stopping import stop_requests
mutex, library = ctypes.create_string_buffer(64), ctypes.CDLL(None)
with stop_requests(alone=False):
    library.pthread_mutex_lock(mutex)
    print("waits", flush=True)
    library.pthread_mutex_lock(mutex)
"""


def test_second_signal_ends_a_waiting_host():
    """In a library that no signal wakes, as in a sum over hosts."""
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_stops_this_process_at_once(second):
    """A run of one process: the first signal is a wish, the second an error where it comes."""
    before = signal.getsignal(signal.SIGINT)
    said = ("second signal",)
    with raises(Stopped, *said) as stopped, stop_requests() as request:
        assert not request
        signal.raise_signal(signal.SIGINT)
        assert request and request.signal == signal.SIGINT
        signal.raise_signal(second)
    assert stopped.value.status == 128 + second
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("loss", "states"), [(0.7, [23]), (0.5, [23]), (0.3, [14, 23])])
def test_resumed_run_keeps_its_best_score(monkeypatch, loss, states):
    """Begun again after update 7, whose loss was 0.5: a worse one of update 14 is not saved."""
    engine, saved = Host(Meeting(), 0, ahead=0), Saved(chief=True)
    engine.backend.meeting.total = lambda host, numbers: HOSTS * np.array(numbers, float)
    saved.begin = lambda step: [{"step": step, "val_loss": 0.5}]
    losses = iter((loss, 0.9, 0.9))
    plan = LoopPlan(STEPS, lambda: {"loss": next(losses)}, evaluate_every=EPOCH)
    loop.train(engine, Batches(), plan, run=saved, start=EPOCH, progress=False)
    assert saved.states == states
