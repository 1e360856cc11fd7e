"""Gradients of formulas of `elementwise`, written down: fewer passes over memory than autodiff's.

XLA on a CPU makes a loop, and a tensor in memory, of nearly every sum that autodiff asks for; these
share theirs. What is small and dear is kept from the forward pass, the rest computed again.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A, N = B·S.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from keras import ops

from kbert.model.parts import elementwise


class Written(NamedTuple):
    """A formula and its gradient, both with the formula's settings.

    Attributes:
        forward: of the arguments; the results, and a list of tensors to keep.
        needs: places of the arguments that the gradient needs besides.
        backward: of the arguments needed and the tensors kept, in one list, and of the results'
            gradients; a gradient for each argument, None where there is none.
    """

    forward: Callable
    needs: Sequence[int]
    backward: Callable


def keeping_nothing(formula: Callable) -> Callable:
    """Return the formula as a `Written.forward`."""

    def forward(*arguments, **settings):
        return formula(*arguments, **settings), []

    return forward


def _of_normalized_sum(kept, gradients, *, rate: float, epsilon: float):
    y, bias, x, gamma, seed = kept
    left = elementwise.kept(y, seed, rate) if rate else None
    total = _wide(x) + _dropped(_wide(y) + bias, left, rate)
    of_total, of_gamma, of_beta = _of_norm(total, gamma, gradients[0], epsilon)
    of_y = _rows(_dropped(of_total, left, rate))
    of_bias = ops.sum(of_y, 0)
    shaped = ops.reshape(ops.cast(of_y, y.dtype), ops.shape(y))
    return shaped, of_bias, ops.cast(of_total, x.dtype), of_gamma, of_beta, None


def _of_norm(x, gamma, gradient, epsilon: float):
    """Return LayerNorm's gradients, for x (B, S, H), gamma and beta; x is float32."""
    shape, x, gradient = ops.shape(x), _rows(x), _rows(_wide(gradient))
    centred = x - ops.mean(x, -1, keepdims=True)
    scale = ops.rsqrt(ops.mean(ops.square(centred), -1, keepdims=True) + epsilon)
    unit = centred * scale
    product = gradient * unit  # its sums along both axes are needed
    column = ops.expand_dims(gamma / ops.cast(shape[-1], "float32"), -1)  # (H, 1)
    mean, slope = ops.matmul(gradient, column), ops.matmul(product, column)  # (N, 1) each
    of_x = scale * (gradient * gamma - mean - unit * slope)
    return ops.reshape(of_x, shape), ops.sum(product, 0), ops.sum(gradient, 0)


def _of_split_heads(kept, gradients, *, parts: int, heads: int):
    merged = [elementwise.merged_heads(one) for one in gradients]
    rows = ops.concatenate([_rows(one) for one in merged], 1)  # (N, parts·H)
    return ops.reshape(rows, (*ops.shape(merged[0])[:-1], -1)), ops.sum(_wide(rows), 0)


def of_shares(signed, mask, gradient, *, rate: float):
    """Return the gradient of the scores, from the result of `elementwise.signed_shares`.

    Args:
        signed: float (B, A, S, S).
        mask: the attention mask of that call.
        gradient: the gradient of `elementwise.left_shares`.
    """
    wide = _wide(signed)
    shares = ops.abs(wide)
    of_left = _dropped(_wide(gradient), wide > 0 if rate else None, rate)
    mean = ops.sum(of_left * shares, -1, keepdims=True)
    of_scores = ops.where(mask, shares * (of_left - mean), 0.0)  # some rows see nothing at all
    return ops.cast(of_scores, signed.dtype)


def _of_measured(kept, gradients):
    logits, labels, weights, largest, inverse = kept
    exponentials, _ = elementwise.exponentials(elementwise.counted(logits, weights), largest)
    shares = exponentials * inverse
    factor = ops.expand_dims(weights * gradients[0][0], -1)  # of hits and weights there is none
    of_logits = factor * (shares - elementwise.at_label(ops.ones_like(shares), labels))
    return ops.cast(of_logits, logits.dtype), None, None


def _dropped(x, left, rate: float):
    return x if left is None else ops.where(left, x * (1 / (1 - rate)), 0.0)


def _rows(x):
    """Return (…, H) as (N, H)."""
    return ops.reshape(x, (-1, ops.shape(x)[-1]))


def _wide(x):
    return ops.cast(x, "float32")


WRITTEN: dict[Callable, Written] = {
    elementwise.normalized_sum: Written(
        keeping_nothing(elementwise.normalized_sum), (0, 1, 2, 3, 5), _of_normalized_sum
    ),
    elementwise.split_heads: Written(keeping_nothing(elementwise.split_heads), (), _of_split_heads),
    elementwise.measured: Written(elementwise.measured_and_kept, (0, 1, 2), _of_measured),
}
