"""Processes that were forked after their parent had used a backend.

A fork copies the memory and one thread. The threads of TensorFlow and JAX, and those of torch's
operations on a CPU, are then missing in the child: an operation waits for them and never returns.
"""

import logging
import os

_logger = logging.getLogger("kbert")
_first_user: list[int] = []  # id of the process in which kbert used the backend first


def check_process() -> None:
    """Remember the process that uses the backend first; raise a RuntimeError in a fork of it.

    NumPy computes there as before; torch with one thread, which needs no other: the log says so
    once.
    """
    process = os.getpid()
    if not _first_user:
        _first_user.append(process)
    if _first_user[0] == process:
        return
    import keras

    backend = keras.backend.backend()
    if backend == "numpy":  # has no threads, or its BLAS starts them anew
        return
    if backend != "torch":
        raise RuntimeError(
            f"this process was forked after its parent had used kbert on {backend}, and a fork "
            f"does not copy {backend}'s threads: the call would never return. Load the model after "
            "the fork (gunicorn: without --preload), or start processes by 'spawn'"
        )
    import torch

    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        _logger.warning(
            "this process was forked after its parent had used kbert: torch computes with one "
            "thread here. To use more, load the model after the fork"
        )
    _first_user[0] = process
