"""Memory that is free within a heap goes back to the system while `returned` lasts."""

import ctypes
import subprocess
import sys

import pytest
from helpers.glibc_settings import environment

from kbert.training.engines import glibc, returned_memory

_BETWEEN = """
import ctypes, time
from pathlib import Path
from kbert.training.engines import returned_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def resident():  # MiB of the process that are no file's
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))

before = resident()
size = 60_000  # below glibc's threshold for pages of their own; 115 MiB in all
blocks = [libc.malloc(size) for _ in range(2_001)]
for block in blocks:
    ctypes.memset(block, 1, size)
last = blocks.pop()  # the heap's end stays taken, so that it cannot become shorter
for block in blocks:
    libc.free(block)
print(resident() - before)
with returned_memory.returned():
    for _ in range(100):
        time.sleep(returned_memory._PAUSE)
        if resident() - before < 25:
            break
    print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's alone")
def test_free_memory_between_blocks_is_returned():
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("a libc without malloc_trim")
    command = [sys.executable, "-c", _BETWEEN]
    printed = subprocess.check_output(command, env=environment(), text=True)
    held, left = map(int, printed.split())
    assert held > 90, "glibc gave it back by itself: the test shows nothing"
    assert left < 25


_PROGRAM = """
import ctypes
from kbert.training.engines import returned_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def has_own_pages():  # a bit before each block says whether the system was asked for it alone
    block = libc.malloc(20 << 20)
    before = ctypes.c_size_t.from_address(block - ctypes.sizeof(ctypes.c_size_t)).value
    libc.free(block)
    return bool(before & 2)

libc.free(libc.malloc(30 << 20))  # from here on glibc thinks 20 MiB small
print(has_own_pages())
with returned_memory.returned():
    print(has_own_pages())
print(has_own_pages())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's alone")
def test_large_blocks_get_their_own_pages_meanwhile():
    def said(**variables) -> list[str]:
        command = [sys.executable, "-c", _PROGRAM]
        return subprocess.check_output(command, env=environment(**variables), text=True).split()

    assert said() == ["False", "True", "False"]
    assert said(MALLOC_MMAP_THRESHOLD_=str(2**25)) == ["False"] * 3


def test_returned_memory_does_nothing_elsewhere(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with returned_memory.returned():
        assert not glibc.trim() and not glibc.set_options({glibc.ARENA_MAX: 1})


def test_error_within_returned_memory_is_raised():
    with pytest.raises(ValueError, match="within"), returned_memory.returned():
        raise ValueError("within")
