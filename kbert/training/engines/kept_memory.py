"""Memory that a step frees and the next one needs: the process keeps it in between.

torch's tensors and XLA's temporary ones, on JAX, are asked of glibc for each step again. It hands
pieces so large back to the system at once, and the first write to each page of new memory costs
more than what is written. TensorFlow has an allocator of its own, which keeps what it has.
"""

import os
import weakref

from kbert.training.engines import glibc

_owners: set[int] = set()


def keep(owner) -> None:
    """Keep freed memory in the process from now on, until the last owner is gone.

    Memory left over from compilation is returned first. This does nothing where `glibc.set_options`
    does nothing, nor for threads to which glibc has given a heap of their own: see `take_one_heap`.

    Args:
        owner: an object, such as an engine.
    """
    if id(owner) in _owners:
        return
    if glibc.set_options({glibc.MMAP_MAX: 0, glibc.TRIM_THRESHOLD: 2**31 - 1}):
        glibc.trim()
        _owners.add(id(owner))
        weakref.finalize(owner, _given_up, id(owner)).atexit = False


def take_one_heap() -> None:
    """Threads that start from now on share the process's heap, the only one `keep` goes for.

    For JAX, before it makes its first array: it computes in threads of its own. The same as
    MALLOC_ARENA_MAX=1 in the environment of a process, where another number stands.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        glibc.set_options({glibc.ARENA_MAX: 1})


def _given_up(owner: int) -> None:
    _owners.discard(owner)
    if not _owners:
        glibc.set_usual(glibc.MMAP_MAX, glibc.TRIM_THRESHOLD)
        glibc.trim()
