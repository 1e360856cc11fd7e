"""Memory of the host for many arrays, in pages of 2 MiB where the system gives them.

The first write to a page of new memory costs the system more than a copy into it; base's weights
are 107,000 pages of 4 KiB, or 210 of 2 MiB. NumPy asks for large ones from 4 MiB on, which leaves
out a kernel of 768 × 768.
"""

import contextlib
import math
import mmap
import threading

import numpy as np

_PAGE = 2**21
_PIECE = 16 * _PAGE
_ALIGNMENT = 64  # bytes: at such an address every backend takes an array without a copy


class LargePages:
    """Memory for arrays, in pieces of 32 MiB; a piece is freed with the last array in it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._piece, self._next = np.empty(0, "u1"), 0

    def empty(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array, float32, not filled, its address a multiple of 64; from any thread."""
        size = math.prod(shape) * 4
        with self._lock:
            if self._next + size > self._piece.size:
                self._piece, self._next = _piece(max(size, _PIECE)), 0
            start = self._next
            self._next += -(-size // _ALIGNMENT) * _ALIGNMENT
            piece = self._piece
        return piece[start : start + size].view("float32").reshape(shape)


def _piece(size: int) -> np.ndarray:
    """Allocate memory from a page's start on."""
    whole = -(-size // _PAGE) * _PAGE
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux; shared memory, Python's default, has 4 KiB
        memory = mmap.mmap(-1, whole + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a kernel without large pages
            memory.madvise(mmap.MADV_HUGEPAGE)
        space = np.frombuffer(memory, "u1")
    else:
        space = np.empty(whole + _PAGE, "u1")
    start = -space.ctypes.data % _PAGE
    return space[start : start + whole]
