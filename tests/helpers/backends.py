"""Settings of the tests on JAX and torch: variables of their processes, rounds of their tests."""

import pytest

# Few optimizations, since compiling takes most of JAX's time in the tests. The nightly round runs
# them once more without these flags.
XLA_FLAGS = " ".join(
    (
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
    )
)
NO_MARK = pytest.mark.skipif(False, reason="")  # a test and one of its cases can both take it


def environment_of(backend: str) -> dict[str, str]:
    """Return the variables with which a process of the tests computes on a backend."""
    return {"KERAS_BACKEND": backend} | ({"XLA_FLAGS": XLA_FLAGS} if backend == "jax" else {})


def full_on(*backends: str):
    """Return the mark of the full round on these backends, for a test or one of its cases."""
    return mark_on(backends, pytest.mark.full)


def nightly_on(*backends: str):
    """Return the mark of the nightly round on these backends, for a test or one of its cases."""
    return mark_on(backends, pytest.mark.nightly)


def mark_on(backends: tuple[str, ...], mark):
    import keras

    return mark if keras.backend.backend() in backends else NO_MARK
