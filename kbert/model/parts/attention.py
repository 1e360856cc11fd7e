"""Attention with its own gradient, which keeps one tensor of the scores' size.

Autodiff keeps two, the scores and what dropout left of their softmax, and computes softmax and
dropout again. Here the softmax is kept, and its signs say what was dropped. The sums are those of
FlashAttention (Dao et al. 2022, arXiv 2205.14135, appendix B.2), which keeps neither.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kbert.model.parts import elementwise
from kbert.model.parts.written_gradients import of_shares


class Attention:
    """Dropout(softmax(query keysᵀ)) vectors, heads side by side, and its gradient.

    Args:
        rate: of the dropout.
        compiled: makes a function of one of `elementwise` or `written_gradients` and its settings.
        matmul: of x and y, each (B, A, …, …), and whether x and y are to be transposed.
    """

    def __init__(self, rate: float, compiled: Callable, matmul: Callable):
        self._compiled, self._matmul = compiled, matmul
        self._signed = compiled(elementwise.signed_shares, rate=rate)
        self._left = compiled(elementwise.left_shares, rate=rate)
        self._of_shares = compiled(of_shares, rate=rate)
        self._merged = compiled(elementwise.merged_heads)

    def forward(self, query, keys, vectors, mask, seed) -> tuple[Any, tuple]:
        """Context (B, S, H), and what `backward` needs.

        Args:
            query, keys, vectors: float (B, A, S, D); the query is scaled.
            mask: bool (B, 1, 1, S), or (B, 1, S, S).
            seed: see `elementwise.random_bits`.
        """
        signed = self._signed(self._matmul(query, keys, False, True), mask, seed)
        context = self._matmul(self._left(signed), vectors, False, False)  # (B, A, S, D)
        return self._merged(context), (query, keys, vectors, mask, signed)

    def backward(self, kept: Sequence, gradient) -> tuple:
        """Return gradients of query, keys, vectors and, None, of mask and seed."""
        query, keys, vectors, mask, signed = kept
        gradient = self._compiled(elementwise.own_heads, heads=query.shape[1])(gradient)
        of_left = self._matmul(gradient, vectors, False, True)  # (B, A, S, S)
        of_vectors = self._matmul(self._left(signed), gradient, True, False)
        of_scores = self._of_shares(signed, mask, of_left)
        of_query = self._matmul(of_scores, keys, False, False)
        of_keys = self._matmul(of_scores, query, True, False)
        return of_query, of_keys, of_vectors, None, None
