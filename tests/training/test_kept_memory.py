"""Freed memory stays with the process while an owner lives, by Linux's own count."""

import subprocess
import sys

import pytest
from helpers.glibc_settings import environment

from kbert.model import devices

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's alone")

# 100 MiB, more than a thread's own heap holds, asked for, written and given back, in a thread and
# in the main one; page faults of each
_PROGRAM = """
import ctypes, gc, resource
from concurrent.futures import ThreadPoolExecutor
from kbert.training.engines import kept_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: huge pages would be few whatever glibc does

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    place = libc.malloc(100 << 20)
    ctypes.memset(place, 1, 100 << 20)
    libc.free(place)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

class Owner: pass

kept_memory.take_one_heap()
with ThreadPoolExecutor(1) as thread:
    def both(): return [thread.submit(faults).result(), faults()]
    print(*both())
    owners = [Owner(), Owner()]
    for owner in owners: kept_memory.keep(owner); kept_memory.keep(owner)
    del owner
    faults()
    print(*both())
    owners.pop(); gc.collect()
    print(*both())
    owners.pop(); gc.collect()
    print(*both())
"""
PAGES = 100 * 256
FEW = PAGES // 20  # others of the process, which a busy machine may have more of


def counts(**variables) -> list[list[int]]:
    """Faults in a thread and in the main one: before, with two owners, with one, with none."""
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=True,
    )
    return [[int(count) for count in line.split()] for line in run.stdout.splitlines()]


def test_freed_memory_is_kept_until_the_last_owner_is_gone():
    before, two, one, none = counts()
    assert min(before) > 0.9 * PAGES, "it stays by itself: the test shows nothing"
    assert max(two) < FEW and max(one) < FEW
    assert min(none) > 0.9 * PAGES


@pytest.mark.parametrize(
    "variables",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        pytest.param({"MALLOC_MMAP_MAX_": "65536"}, marks=pytest.mark.nightly),
        pytest.param({"GLIBC_TUNABLES": "glibc.malloc.mmap_max=65536"}, marks=pytest.mark.nightly),
    ],
)
def test_glibc_settings_of_the_user_win(variables):
    assert min(min(found) for found in counts(**variables)) > 0.9 * PAGES


def test_kept_memory_does_nothing_elsewhere():
    found = counts(GLIBC_TUNABLES="glibc.cpu.x86_data_cache_size=32768")  # not of memory
    assert max(found[1]) < FEW
    from kbert.training.engines import kept_memory

    class Owner:
        pass

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "platform", "darwin")
        owner = Owner()
        kept_memory.keep(owner)
        kept_memory.take_one_heap()
        assert id(owner) not in kept_memory._owners


@pytest.mark.parametrize(
    ("told", "plugins", "alone"),
    [("", [], True), ("cpu", ["cuda12"], True), ("", ["cuda12"], False), ("tpu,cpu", [], False)],
)
def test_one_heap_is_used_by_jax_on_cpu_only(monkeypatch, told, plugins, alone):
    jax = pytest.importorskip("jax")
    before = jax.config.jax_platforms
    monkeypatch.setattr(devices, "entry_points", lambda group: plugins)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)
    jax.config.update("jax_platforms", told)
    try:
        assert devices.jax_has_cpus_alone() is alone
    finally:
        jax.config.update("jax_platforms", before)
