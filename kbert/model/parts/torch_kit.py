"""What the fused parts are made of on torch: its own functions, each one operation with a gradient.

torch compiles nothing here. Its dropout draws from its own generator, which the engine seeds.
"""

import functools
from collections.abc import Callable

import torch
from torch.nn import functional

from kbert.model import layers as kl
from kbert.model.parts import elementwise, plain_kit

_ACTIVATIONS: dict[Callable, Callable] = {
    kl.gelu: functional.gelu,
    kl.gelu_tanh: functools.partial(functional.gelu, approximate="tanh"),
}


recomputed = plain_kit.recomputed


def part(formula: Callable, **settings) -> Callable:
    """What gives the same as a formula of `elementwise`."""
    return functools.partial(_OWN.get(formula, formula), **settings)


def attended(rate: float) -> Callable:
    """Attention of query, keys, vectors (B, A, S, D), mask and seed: (B, S, H)."""

    def call(query, keys, vectors, mask, seed):
        shares = _attention_weights(matmul(query, keys, transposed=True), mask, rate)
        return elementwise.merged_heads(matmul(shares, vectors))

    return call


def matmul(x, y, transposed: bool = False):
    """x y, or x yᵀ."""
    return torch.matmul(x, y.mT if transposed else y)


def vectors(table, ids):
    """(B, S, H) of table (T, H) and ids (B, S)."""
    return functional.embedding(torch.as_tensor(ids, device=table.device), table)


def rows_at(x, places):
    """(B, R, H) of x (B, S, H) and places (B, R)."""
    return torch.take_along_dim(x, torch.as_tensor(places, device=x.device)[..., None].long(), 1)


def vectors_and_table(table, ids, dtype: str):
    """Vectors of ids, and the table in a dtype; the vectors' gradient is added into the table's.

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
    total = x + _dropped(y + bias, rate)
    return _normalized(total, gamma, beta, epsilon).to(x.dtype)


def _normalized_embeddings(tokens, segments, positions, gamma, beta, seed, *, rate, epsilon, dtype):
    total = _dropped(tokens + segments + positions, rate)
    return _normalized(total, gamma, beta, epsilon).to(getattr(torch, dtype))


def _normalized(x, gamma, beta, epsilon):
    return functional.layer_norm(x, gamma.shape, gamma, beta, epsilon)


def _attention_weights(scores, mask, rate):
    wide = scores.masked_fill(torch.logical_not(mask), torch.finfo(scores.dtype).min)
    return _dropped(wide.softmax(-1), rate)


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
    """torch's dropout; on a CPU of 16 bits a number, as torch's own takes four times as long.

    64 random bits at a time are for four numbers. The rate is exact to 2⁻¹⁷, and what is kept is
    scaled by the one that it is.
    """
    if x.device.type != "cpu" or not rate:
        return functional.dropout(x, rate)
    drawn = x.new_empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = drawn.view(torch.int16)[: x.numel()].view(x.shape)  # −2¹⁵ … 2¹⁵ − 1
    dropped = min(round(rate * 2**16), 2**16 - 1)
    kept = (bits >= dropped - 2**15).to(x.dtype)
    return x * kept.mul_(2**16 / (2**16 - dropped))


_OWN: dict[Callable, Callable] = {
    elementwise.dropped: _dropped_of_seed,
    elementwise.normalized_sum: _normalized_sum,
    elementwise.normalized_embeddings: _normalized_embeddings,
    elementwise.activated: _activated,
    elementwise.measured: _measured,
}
