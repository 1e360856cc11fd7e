"""XLA's flags for tests on JAX: few optimizations, as compiling takes most of the time there.

The tests run once more on JAX without it, in .ci/nightly.
"""

FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
LESS_COMPILING = {"XLA_FLAGS": " ".join(FLAGS)}


def environment_of(backend: str) -> dict[str, str]:
    """The variables with which a process of the tests computes on a backend."""
    return {"KERAS_BACKEND": backend} | (LESS_COMPILING if backend == "jax" else {})
