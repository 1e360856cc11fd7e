"""Determinism: first weights from a seed, and operations whose results are the same every time."""

import contextlib
import os
import random
import threading

from kbert.ops.keras_internals import check_seeds_are_pythons

_drawing = threading.RLock()


@contextlib.contextmanager
def seed_weights(seed: int):
    """Draw initial weights from a seed: Keras's initializers ask Python's generator for theirs.

    The generator is the process's, so another thread that draws weights waits for its turn.
    """
    check_seeds_are_pythons()
    with _drawing:
        before = random.getstate()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(before)


def make_deterministic() -> None:
    """Ask the backend for operations whose results are the same bits every time.

    Threads and atomics would add up in another order at each start, and round differently. It holds
    for the process. JAX obeys only before it uses the GPU; torch warns of operations without such a
    form.
    """
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        if tf.config.list_physical_devices("GPU"):  # a CPU's are such; Keras uses less XLA then
            tf.config.experimental.enable_op_determinism()
    elif backend == "torch":
        import torch

        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # PyTorch, "Reproducibility"
        torch.use_deterministic_algorithms(True, warn_only=True)
        # it is for operations that read memory which nobody wrote to: kbert uses none
        torch.utils.deterministic.fill_uninitialized_memory = False
    else:
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_gpu_deterministic_ops" not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_deterministic_ops=true".strip()
