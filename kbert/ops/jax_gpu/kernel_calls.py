"""Calls of kernels, which are written in Pallas and compiled by Triton."""

from collections.abc import Callable

from jax.experimental import pallas
from jax.experimental.pallas import triton

INTERPRETED = False  # where there is no GPU, for tests


def call_kernel(kernel: Callable, num_stages: int | None = None, **options) -> Callable:
    """Return a kernel as a function of arrays; options as of `pallas.pallas_call`."""
    return pallas.pallas_call(
        kernel,
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=num_stages),
        interpret=INTERPRETED,
        **options,
    )
