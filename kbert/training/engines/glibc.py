"""Options of glibc's allocator for free memory: `mallopt(3)`, `malloc_trim(3)`."""

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -3, -4, -8
# what an option is at a process's start, or grows to by itself
USUAL = {TRIM_THRESHOLD: 2**26, MMAP_THRESHOLD: 2**25, MMAP_MAX: 65_536}
_OF_USERS = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def set_options(options: dict[int, int]) -> bool:
    """Set options of this process, by their numbers.

    Returns:
        Whether they are set; not where glibc is not there, or where the user has told it what to
        keep, by a variable of its.
    """
    libc = _glibc()
    if libc is None or _told_by_user():
        return False
    return all([libc.mallopt(option, value) for option, value in options.items()])


def set_usual(*options: int) -> None:
    """Set them back."""
    set_options({option: USUAL[option] for option in options})


def trim() -> bool:
    """Give the system back what is free; whether glibc is there to do it."""
    libc = _glibc()
    if libc is None:
        return False
    libc.malloc_trim(0)
    return True


def _told_by_user() -> bool:
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc." in tunables or not os.environ.keys().isdisjoint(_OF_USERS)


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None  # not musl
