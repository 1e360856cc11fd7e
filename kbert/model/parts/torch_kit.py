"""Fused operations for torch: its own functions, each one operation with a gradient.

torch compiles nothing here. Dropout uses torch's own random generator, which the engine seeds.
"""

import functools
from collections.abc import Callable

import torch
from torch.nn import functional

from kbert.model import layers as kl
from kbert.model.parts import elementwise, torch_gradients, torch_operations, torch_products

_ACTIVATIONS: dict[Callable, Callable] = {
    kl.gelu: functional.gelu,
    kl.gelu_tanh: functools.partial(functional.gelu, approximate="tanh"),
}


_LARGE = 2**22  # numbers that are computed again for a gradient rather than kept, on a CPU
_LONG = 64  # tokens from which on scores that are never written down are worth it, on a CPU

ops = torch_operations
matmul = torch_products.product


def part(formula: Callable, **settings) -> Callable:
    """Return a function with the same result as a formula of `elementwise`."""
    return functools.partial(_OWN.get(formula, formula), **settings)


def attended(rate: float) -> Callable:
    """Attention of query, keys, vectors (B, A, S, D), mask and seed: (B, S, H)."""

    def call(query, keys, vectors, mask, seed):
        # not in training: nobody tried its gradient where all keys of a query are masked
        inferring = not (rate or torch.is_grad_enabled()) and query.device.type == "cpu"
        if inferring and min(query.shape[2], keys.shape[2]) >= _LONG:
            attend = functional.scaled_dot_product_attention
            return _merged_heads(attend(query, keys, vectors, mask, scale=1.0))
        shares = _probabilities(matmul(query, keys, transposed=True), mask)
        if rate and _has_own_gradients(shares):
            return _merged_heads(torch_gradients.attended(shares, vectors, rate))
        return _merged_heads(matmul(functional.dropout(shares, rate), vectors))

    return call


def recomputed(function: Callable) -> Callable:
    """Return the function, of a tensor and weights.

    Where it is large, computed again for its gradient.
    """
    again = torch_gradients.recomputed(function)

    def call(x, *weights):
        worth = x.numel() >= _LARGE and _has_own_gradients(x)
        return (again if worth else function)(x, *weights)

    return call


def vectors(table, ids):
    """Return (B, S, H) of table (T, H) and ids (B, S)."""
    return functional.embedding(torch.as_tensor(ids, device=table.device), table)


def rows_at(x, places):
    """Return (B, R, H) of x (B, S, H) and places (B, R)."""
    return torch.take_along_dim(x, torch.as_tensor(places, device=x.device)[..., None].long(), 1)


def vectors_and_table(table, ids, dtype: str):
    """Return vectors of ids, and the table in a dtype.

    The vectors' gradient is added into the table's.

    As it stands, torch makes a second dense gradient of the vectors', and a third of the two.
    """
    ids = torch.as_tensor(ids, device=table.device)
    return _VectorsAndTable.apply(table, ids, getattr(torch, dtype))


class _VectorsAndTable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, ids, dtype):
        ctx.save_for_backward(ids)
        return functional.embedding(ids, table), table.to(dtype)

    @staticmethod
    def backward(ctx, of_vectors, of_table):
        (ids,) = ctx.saved_tensors
        rows = of_vectors.flatten(0, 1)
        return of_table.to(of_vectors.dtype).index_add(0, ids.flatten(), rows), None, None


def _normalized_sum(y, bias, x, gamma, beta, seed, *, rate, epsilon):
    if rate and _has_own_gradients(y):
        total = torch_gradients.dropped_sum(y, bias, x, rate)
    else:
        total = x + functional.dropout(y + bias, rate)
    return _normalized(total, gamma, beta, epsilon).to(x.dtype)


def _normalized_embeddings(tokens, segments, positions, gamma, beta, seed, *, rate, epsilon, dtype):
    total = _dropped(tokens + segments + positions, rate)
    return _normalized(total, gamma, beta, epsilon).to(getattr(torch, dtype))


def _normalized(x, gamma, beta, epsilon):
    return functional.layer_norm(x, gamma.shape, gamma, beta, epsilon)


def _probabilities(scores, mask):
    """Write over the scores: filled, they and their gradient, 0 there anyway, would be copied."""
    # half of the lowest number: a masked score is finite in every dtype, and its share is 0
    least = torch.where(mask, 0.0, torch.finfo(scores.dtype).min / 2).to(scores.dtype)
    return scores.add_(least).softmax(-1)


def _split_heads(x, bias, *, parts: int, heads: int):
    # unbind, whose gradient is one copy: a part that is indexed has one as large as all parts
    each = (x + bias).to(x.dtype).unflatten(-1, (parts, heads, -1))  # (B, S, parts, A, D)
    return each.permute(2, 0, 3, 1, 4).unbind()


def _merged_heads(x):
    return x.transpose(1, 2).flatten(2)  # (B, A, S, D) -> (B, S, H)


def _activated(x, bias, *, activation):
    return _ACTIVATIONS.get(activation, activation)((x + bias).to(x.dtype))


def _measured(logits, labels, weights):
    wide = torch.where((weights > 0)[..., None], logits.float(), 0.0)
    losses = functional.cross_entropy(
        wide.flatten(0, -2), labels.flatten().long(), reduction="none"
    )
    hits = (wide.argmax(-1) == labels).float()
    return torch.stack([weights.flatten() @ losses, (weights * hits).sum(), weights.sum()])


def _dropped_of_seed(x, seed, rate):
    return _dropped(x, rate)


def _dropped(x, rate):
    if rate and _has_own_gradients(x):
        return torch_gradients.dropped(x, rate)
    return functional.dropout(x, rate)


def _has_own_gradients(x) -> bool:
    return x.device.type == "cpu"  # where none is asked for too: GradCache's passes draw alike


_OWN: dict[Callable, Callable] = {
    elementwise.dropped: _dropped_of_seed,
    elementwise.normalized_sum: _normalized_sum,
    elementwise.normalized_embeddings: _normalized_embeddings,
    elementwise.split_heads: _split_heads,
    elementwise.activated: _activated,
    elementwise.measured: _measured,
}
