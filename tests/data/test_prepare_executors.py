"""`prepare` by executors of others: the same bytes, and one line where they fail."""

import multiprocessing
import os
import signal
import threading
import time
import weakref
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from helpers.corpora import content, prepare_some
from helpers.errors import raises

from kbert.data.corpus import tokenizing
from kbert.data.corpus.preparing import prepare


@pytest.fixture(scope="module")
def processes():
    """Two processes, started anew: what tests have loaded does not bear a fork."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


class Odd(ThreadPoolExecutor):
    """Takes three tasks at a time, ends the first last, and counts the futures that are alive."""

    def __init__(self):
        super().__init__(3)
        self.room, self.alive = threading.Semaphore(3), weakref.WeakSet()
        self.tasks = self.most = 0

    def submit(self, function, *arguments):
        self.room.acquire()
        self.tasks += 1
        future = super().submit(self.late, (0.03, 0.01, 0)[self.tasks % 3], function, *arguments)
        self.alive.add(future)
        self.most = max(self.most, len(self.alive))
        return future

    def late(self, seconds, function, *arguments):
        time.sleep(seconds)
        try:
            return function(*arguments)
        finally:
            self.room.release()


class Failing(ThreadPoolExecutor):
    """Fails from some task on; `how` has the function that a task is then."""

    def __init__(self, after: int, how):
        super().__init__(2)
        self.left, self.how = after, how

    def submit(self, function, *arguments):
        self.left -= 1
        return super().submit(function if self.left > 0 else self.how, *arguments)


def lost(*arguments):
    raise OSError("the worker\nis gone")


@pytest.mark.full
def test_thread_and_process_pools_give_the_same_bytes(corpus, processes, tmp_path):
    with ThreadPoolExecutor(3) as threads:
        for name, executor in (("threads", threads), ("processes", processes)):
            prepare_some(corpus[0], tmp_path / name, executor=executor)
            assert content(tmp_path / name) == corpus[1]
            assert executor.submit(abs, -7).result() == 7  # it stays open


@pytest.mark.full
def test_out_of_order_results_give_the_same_bytes(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizing, "IN_FLIGHT", 11)
    with Odd() as executor:
        prepare_some(corpus[0], tmp_path, executor=executor)
    assert content(tmp_path) == corpus[1]
    assert executor.tasks > 100 and executor.most == 11


@pytest.mark.full
def test_fewer_blocks_of_long_lines_are_in_flight(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizing, "BLOCK", 1 << 10)  # 64 KiB in all
    text = tmp_path / "long.txt"
    text.write_bytes((b"a word and another " * 1_000 + b"\n") * 50)  # a block of 19 kB each
    with Odd() as executor:
        prepare(text, corpus[0] / "vocabulary", tmp_path / "shards", executor=executor)
    assert executor.tasks >= 40 and executor.most == 4


@pytest.mark.full
def test_prepare_resumes_with_another_executor(corpus, processes, tmp_path):
    things = ("a.txt, line ", "OSError", "the worker is gone")
    for after in (60, 50):
        with Failing(after, lost) as executor, raises(RuntimeError, *things) as caught:
            prepare_some(corpus[0], tmp_path, executor=executor)
        assert "\n" not in str(caught.value)
    done = sorted(path.name for path in tmp_path.glob("tokens-*"))
    assert 2 <= len(done) < sum(name.startswith("tokens-") for name in corpus[1])
    prepare_some(corpus[0], tmp_path, executor=processes)
    assert content(tmp_path) == corpus[1]


@pytest.mark.full
def test_dead_worker_is_one_line(corpus, tmp_path):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        worker = executor.submit(os.getpid).result()
        os.kill(worker, signal.SIGSTOP)  # so that it has work when it is killed
        threading.Timer(0.5, os.kill, (worker, signal.SIGKILL)).start()
        with raises(RuntimeError, "a.txt, line 1", "BrokenProcessPool"):
            prepare_some(corpus[0], tmp_path, executor=executor)
        with raises(RuntimeError, "a.txt, line 1", "BrokenProcessPool"):  # no work taken
            prepare_some(corpus[0], tmp_path, executor=executor)


class Silent(Executor):
    """Answers nothing; has what it was asked."""

    def __init__(self):
        self.futures = []
        self.has_work = threading.Event()

    def submit(self, function, *arguments):
        self.futures.append(Future())
        self.has_work.set()
        return self.futures[-1]

    def cancel_first(self):
        """Wait for work, and for its reader, then cancel it."""
        assert self.has_work.wait(60)
        time.sleep(0.3)
        self.futures[0].cancel()


def test_executor_without_an_answer_is_one_line(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizing, "ANSWER_S", 0.1)
    executor = Silent()
    with raises(RuntimeError, "a.txt, line 1", "0.1 seconds"):
        prepare_some(corpus[0], tmp_path, executor=executor)
    assert len(executor.futures) == 64 and all(one.cancelled() for one in executor.futures)


def test_cancelled_work_is_one_line(corpus, tmp_path):
    executor = Silent()
    threading.Thread(target=executor.cancel_first).start()
    with raises(RuntimeError, "a.txt, line 1", "cancelled"):
        prepare_some(corpus[0], tmp_path, executor=executor)


def test_an_error_of_the_text_names_file_and_line(corpus, processes, tmp_path):
    bad, output = tmp_path / "bad.txt", tmp_path / "shards"
    bad.write_bytes(b"fine words\n" * 2_000 + b"not \xff so\n" + b"fine words\n" * 2_000)
    for executor in (processes, ThreadPoolExecutor(2)):
        with raises(ValueError, "bad.txt, line 2001", "UTF-8", "0xff"):
            prepare(bad, corpus[0] / "vocabulary", output, executor=executor, shard_tokens=999)
        assert not output.exists()
    executor.shutdown()


def test_a_worker_with_other_versions_is_refused(corpus, tmp_path, monkeypatch):
    here = tokenizing.software()
    there = here | {"tokenizers": "0.7.0"}
    asked = iter([here, here])  # for the index, and for the workers
    monkeypatch.setattr(tokenizing, "software", lambda *_: next(asked, there))
    tokenizing.unpack.cache_clear()
    versions = (f"tokenizers {here['tokenizers']}", "tokenizers 0.7.0")
    with ThreadPoolExecutor(1) as executor, raises(RuntimeError, *versions):
        prepare_some(corpus[0], tmp_path, executor=executor)


def test_bad_executor_is_refused_before_reading(tmp_path):
    with ThreadPoolExecutor(1) as executor:
        for options, error, things in (
            ({"executor": executor, "processes": 2}, ValueError, ("processes", "executor", 2)),
            ({"executor": "tcp://a:1"}, TypeError, ("executor", "futures.Executor", "str")),
        ):
            with raises(error, *things):
                prepare(tmp_path / "nowhere", tmp_path, tmp_path / "shards", **options)
    assert list(tmp_path.iterdir()) == []
