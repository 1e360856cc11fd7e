"""Matrix products of torch on a CPU, by oneDNN where torch's own are not the fastest.

torch multiplies matrices of float32 by MKL, which on other makers' processors than Intel's leaves
half of their speed unused; oneDNN, which torch multiplies bfloat16 by, does not look at the maker.
Its product of float32 is an operation of torch's compiler alone, `mkldnn::_linear_pointwise`.
"""

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import Any

import torch

from kbert.model.keras_internals import onednn_product

_by_transposed: Any = onednn_product()  # x yᵀ
_SMALLEST = 2**21  # multiplications; below, what oneDNN prepares takes longer than MKL's all
_are_read = contextvars.ContextVar("are_read", default=True)


def product(x, y, transposed: bool = False):
    """x y, or x yᵀ, of tensors of any device and dtype."""
    is_unread = x.ndim == y.ndim == 2 and not _are_read.get()
    if is_unread or _is_for_onednn(x, y, y.shape[-2 if transposed else -1]):
        return _Product.apply(x, y, transposed)
    return torch.matmul(x, y.mT if transposed else y)


@contextlib.contextmanager
def unread() -> Iterator[None]:
    """Compute only shapes and gradients of matrix products in this context, not their numbers.

    The gradient needs only the products' factors.
    """
    before = _are_read.set(False)
    try:
        yield
    finally:
        _are_read.reset(before)


def _is_for_onednn(x, y, width: int) -> bool:
    return (
        x.ndim == y.ndim == 2
        and x.dtype == y.dtype == torch.float32
        and x.device.type == y.device.type == "cpu"
        and x.numel() * width >= _SMALLEST
        and torch.backends.mkldnn.enabled
        and _is_faster_here()
    )


@functools.cache
def _is_faster_here() -> bool:
    has_both = torch.backends.mkl.is_available() and _by_transposed is not None
    told: dict = getattr(torch.cpu, "get_capabilities", dict)()  # not before torch 2.10
    return has_both and "AMD" in told.get("cpu_name", "")


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, transposed):
        ctx.save_for_backward(x, y)
        ctx.transposed = transposed
        y = y if transposed else y.mT
        return _multiplied(x, y) if _are_read.get() else x.new_empty(len(x), len(y))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        of_x = of_y = None
        if ctx.needs_input_grad[0]:
            of_x = _multiplied(gradient, y.mT if ctx.transposed else y)
        if ctx.needs_input_grad[1]:
            factors = (gradient, x) if ctx.transposed else (x, gradient)
            of_y = _multiplied(*(factor.mT for factor in factors))
        return of_x, of_y, None


def _multiplied(x, y):
    """x yᵀ."""
    return _by_transposed(x, y) if _is_for_onednn(x, y, y.shape[-2]) else torch.matmul(x, y.mT)
