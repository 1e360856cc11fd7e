"""Memory of the host that a state is copied to, again and again.

The first write to a page of new memory costs the system more than the copy itself, and weights and
moments of base are 1.2 GiB of pages.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_THREADS = min(4, os.cpu_count() or 1)  # NumPy copies without Python's lock


class HostMemory:
    """Memory for arrays; each call of `copies` overwrites the previous one's."""

    def __init__(self):
        self._room: dict[str, np.ndarray] = {}

    def copies(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the same numbers, in this memory, once it returns.

        Args:
            arrays: by name, of any shape, dtype and strides.

        Returns:
            Arrays in C order.
        """
        self._room = {name: self._place(name, array) for name, array in arrays.items()}
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(np.copyto, self._room.values(), arrays.values()))
        return dict(self._room)

    def _place(self, name: str, array: np.ndarray) -> np.ndarray:
        held = self._room.get(name)
        if held is None or (held.shape, held.dtype) != (array.shape, array.dtype):
            return np.empty(array.shape, array.dtype)
        return held
