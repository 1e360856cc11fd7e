"""States are written while training goes on: one at a time, none lost, errors raised."""

import errno
import threading
from types import SimpleNamespace

import pytest

from kbert.training.loop.saver import Saver


class Engine:
    """One number as its state."""

    def __init__(self):
        self.number, self.barriers = 0, 0
        self.state = SimpleNamespace(all=lambda: {"number": self.number})

    def barrier(self):
        self.barriers += 1


class Disk:
    """A run's folder that writes once it may."""

    current_path, resume_command, chief = "RUN", "kbert go on", True

    def __init__(self):
        self.may, self.begun, self.written = threading.Event(), threading.Event(), []
        self.error = None

    def save_state(self, arrays, done, *, score):
        self.begun.set()
        assert self.may.wait(10)
        if self.error:
            raise self.error
        self.written.append((arrays["number"], done, score))

    def check_not_moved(self):
        pass

    def close(self):
        self.written.append("closed")


@pytest.fixture
def disk():
    found = Disk()
    yield found
    found.may.set()


@pytest.fixture
def engine():
    return Engine()


def test_training_continues_while_a_state_is_written(engine, disk):
    saver = Saver(engine, disk, None)
    saver.save(4, 0.5, beside=True)
    assert disk.begun.wait(10)
    engine.number = 7  # an update
    saver.check()
    assert (saver.saved, disk.written, engine.barriers) == (None, [], 0)
    disk.may.set()
    saver.save(8, None)  # waits for the one before, and for itself
    assert disk.written == [(0, 4, 0.5), (7, 8, None)] and saver.saved == 8
    assert engine.barriers == 1


def test_begun_save_is_not_repeated(engine, disk):
    saver = Saver(engine, disk, 4)
    saver.save(4, None, beside=True)
    disk.may.set()
    saver.save(9, None, beside=True)
    saver.save(9, None)
    assert disk.written == [(0, 9, None)] and saver.saved == 9


def test_close_waits_for_the_begun_save(engine, disk):
    saver = Saver(engine, disk, 4)
    saver.save(5, None, beside=True)
    threading.Timer(0.1, disk.may.set).start()
    saver.close()
    assert disk.written == [(0, 5, None), "closed"]


@pytest.mark.parametrize("how", ["check", "save"])
def test_write_error_is_raised_with_the_way_to_resume(engine, disk, how):
    saver = Saver(engine, disk, 4)
    disk.error = OSError(errno.ENOSPC, "No space left on device", "the file")
    disk.may.set()
    saver.save(8, None, beside=True)
    with pytest.raises(OSError) as error:
        if how == "save":
            saver.save(12, None, beside=True)
        while True:
            saver.check()
    assert error.value.errno == errno.ENOSPC and error.value.filename == "the file"
    assert error.value.strerror == (
        "No space left on device. The last good state is from step 4 in RUN. Free space, "
        "then resume: kbert go on"
    )
    assert saver.saved == 4


def test_last_good_state_is_known_once_written(engine, disk):
    saver = Saver(engine, disk, 4)
    saver.save(8, None, beside=True)
    threading.Timer(0.1, disk.may.set).start()
    assert saver.last_good() == "The last good state is from step 8 in RUN"


def test_only_the_chief_copies_its_state(engine, disk):
    disk.chief, engine.state = False, None
    disk.save_state = lambda arrays, done, score: disk.written.append((arrays, done))
    Saver(engine, disk, None).save(3, None)
    assert disk.written == [({}, 3)] and engine.barriers == 1


def test_saver_without_folder_saves_nothing(engine):
    saver = Saver(engine, None, None)
    saver.save(3, None)
    saver.check()
    saver.close()
    assert saver.last_good() == "Nothing is saved without a run folder" and engine.barriers == 0
