"""Memory that an update gives back and the next one asks for: kept by the process meanwhile.

torch's tensors and XLA's temporary ones, on JAX, are asked of glibc for each update anew. It hands
pieces so large back to the system at once, and the first write to each page of new memory costs
more than what is written. TensorFlow has an allocator of its own, which keeps what it has.
"""

import ctypes
import os
import sys
import weakref

# glibc's mallopt(3): what each is called there, and how it is at a process's start
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
_USUAL = {_MMAP_MAX: 65_536, _TRIM_THRESHOLD: 2**26}  # the second as large as it grows by itself
_KEPT = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1}
_OWN = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")

_owners: set[int] = set()


def keep(owner) -> None:
    """What is free from now on stays with the process, until the last owner is gone.

    What compiling left goes back first. Nothing where glibc is not there, or where the user has
    told it what to keep, by a variable of its. Not what threads take that glibc has given a heap
    of their own: see `take_one_heap`.

    Args:
        owner: an object, such as an engine.
    """
    if id(owner) in _owners or _told() or not _set(_KEPT):
        return
    _owners.add(id(owner))
    weakref.finalize(owner, _given_up, id(owner)).atexit = False


def take_one_heap() -> None:
    """Threads that start from now on share the process's heap, the only one `keep` goes for.

    For JAX, before it makes its first array: it computes in threads of its own. The same as
    MALLOC_ARENA_MAX=1 in the environment of a process.
    """
    if libc := _glibc():
        libc.mallopt(_ARENA_MAX, 1)


def _told() -> bool:
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc." in tunables or any(name in os.environ for name in _OWN)


def _given_up(owner: int) -> None:
    _owners.discard(owner)
    if not _owners:
        _set(_USUAL)


def _set(values: dict[int, int]) -> bool:
    libc = _glibc()
    if not libc or not all([libc.mallopt(name, value) for name, value in values.items()]):
        return False
    libc.malloc_trim(0)
    return True


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None  # not musl
