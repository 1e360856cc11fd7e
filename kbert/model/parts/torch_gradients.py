"""Parts of a block on torch on a CPU with gradients of their own, which keep less than autograd's.

Dropout keeps a byte a number, where autograd keeps the scaled mask in the numbers' own type; of
attention its softmax alone is kept, of the activation what it is of. What is left out is computed
again, element by element.

Dimensions at line end: B batch, S sequence, R rows read of it, H hidden size, A heads, D = H/A.
"""

import functools
from collections.abc import Callable

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from kbert.model.parts import torch_products


def dropped(x, rate: float):
    """Return dropout of x, float of any shape."""
    return _Dropped.apply(x, *_kept(x, rate))


def dropped_sum(y, bias, x, rate: float):
    """x + Dropout(y + bias) of y and x (B, S, H)."""
    return _DroppedSum.apply(y, bias, x, *_kept(y, rate))


def attended(shares, vectors, rate: float):
    """Dropout(shares) vectors, (B, A, R, D), of shares (B, A, R, S) and vectors (B, A, S, D)."""
    # the vectors as they stand would keep query and keys beside them, as parts of one product
    return _Attended.apply(shares, vectors.contiguous(), *_kept(shares, rate))


def recomputed(function: Callable) -> Callable:
    """Return the function, of tensors, computed again when its gradient is asked for.

    It draws nothing, takes all that has a gradient as its arguments, and ends with a product.
    """
    return functools.partial(_Recomputed.apply, function)


def _kept(x, rate: float) -> tuple:
    """Return dropout's keep mask, bool of the shape of x, and the scale of the kept numbers.

    The mask has 16 random bits per number, from 64 at a time: torch's own dropout takes four times
    as long. The rate is exact to 2⁻¹⁷, and the scale is that of the exact rate used.
    """
    drawn = x.new_empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = drawn.view(torch.int16)[: x.numel()].view(x.shape)  # −2¹⁵ … 2¹⁵ − 1
    lost = min(round(rate * 2**16), 2**16 - 1)
    return bits >= lost - 2**15, 2**16 / (2**16 - lost)


class _Dropped(Function):
    @staticmethod
    def forward(ctx, x, kept, scale):
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return _left(x, kept).mul_(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (kept,) = ctx.saved_tensors
        return _left(gradient, kept).mul_(ctx.scale), None, None


class _DroppedSum(Function):
    @staticmethod
    def forward(ctx, y, bias, x, kept, scale):
        ctx.save_for_backward(kept)
        ctx.scale, ctx.narrow = scale, bias.dtype
        return torch.add(x, _left(y + bias, kept), alpha=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (kept,) = ctx.saved_tensors
        of_y = _left(gradient, kept).mul_(ctx.scale)
        return of_y, of_y.sum((0, 1), dtype=ctx.narrow), gradient, None, None


class _Attended(Function):
    @staticmethod
    def forward(ctx, shares, vectors, kept, scale):
        ctx.save_for_backward(shares, vectors, kept)
        ctx.scale = scale
        return (_left(shares, kept) @ vectors).mul_(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        shares, vectors, kept = ctx.saved_tensors
        gradient = gradient * ctx.scale
        of_vectors = _left(shares, kept).mT @ gradient
        return _left(gradient @ vectors.mT, kept), of_vectors, None, None


class _Recomputed(Function):
    @staticmethod
    def forward(ctx, function, *tensors):
        ctx.function = function
        ctx.save_for_backward(*tensors)
        return function(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        tensors = [
            one.detach().requires_grad_(needed)
            for one, needed in zip(ctx.saved_tensors, ctx.needs_input_grad[1:], strict=True)
        ]
        with torch.enable_grad(), torch_products.unread():
            again = ctx.function(*tensors)
        needing = [one for one in tensors if one.requires_grad]
        found = iter(torch.autograd.grad(again, needing, gradient))
        return None, *(next(found) if one.requires_grad else None for one in tensors)


def _left(x, kept):
    """x where it is kept, else 0; in memory of its own."""
    return kept.to(x.dtype).mul_(x)
