"""torch's versions of `kbert.ops.reference`: its own operations; torch compiles nothing.

Dropout on a CPU draws from a generator that the layer's seed starts. On a GPU, where reading the
seed would make the host wait, and under `torch.compile`, it draws from torch's own generator:
whoever trains seeds that for each micro-batch.

Dimensions as in `kbert.ops.reference`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from keras import ops
from torch.autograd.function import once_differentiable
from torch.nn import functional

from kbert.ops import keras_internals
from kbert.ops.activations import gelu, gelu_tanh


def linear(x, kernel, bias=None):
    """See `reference.linear`; the product adds the bias."""
    return _product(x, kernel.to(x.dtype), bias)


def project_heads(x, kernels: Sequence, biases: Sequence) -> list:
    """See `reference.project_heads`; one product of all kernels side by side."""
    _, heads, size = kernels[0].shape
    kernel = torch.cat([kernel.flatten(1) for kernel in kernels], 1)
    bias = None
    if biases[0] is not None:
        biases = [ops.convert_to_tensor(bias) for bias in biases]
        bias = torch.cat([bias.flatten() for bias in biases])

    y = linear(x, kernel, bias)
    y = y.unflatten(-1, (len(kernels), heads, size))  # (B, S, 3, A, D)
    # unbind, whose gradient is one copy: a part that is indexed has one as large as all parts
    return list(y.permute(2, 0, 3, 1, 4).unbind())


def attention(query, key, value, mask=None, rate: float = 0.0, seed=None):
    """See `reference.attention`; torch's fused attention, but for dropout on a CPU."""
    scale = query.shape[-1] ** -0.5
    if mask is not None:  # a query without a key becomes 0 and attends to all: equal probabilities
        attends = mask.any(-1, keepdim=True)
        scale = attends.to(query.dtype) * scale
        masked = attends & ~mask
        zeros = query.new_zeros(masked.shape)
        mask = zeros.masked_fill(masked, torch.finfo(query.dtype).min / 2)
    query = query * scale

    if rate and draws_by_seed(query):
        scores = query @ key.mT
        if mask is not None:
            scores = scores.add_(mask)
        probs = scores.softmax(-1)
        keep, keep_scale = _draw(probs, rate, seed)
        # contiguous: as a view it would keep query and key in memory too
        context = _Attention.apply(probs, value.contiguous(), keep, keep_scale)
    else:
        attend = functional.scaled_dot_product_attention
        context = attend(query, key, value, mask, dropout_p=rate, scale=1.0)
    return context.transpose(1, 2).flatten(2)  # (B, A, R, D) -> (B, R, A·D)


class _Attention(torch.autograd.Function):
    """Product of the probabilities after dropout with the values; keeps a byte per number."""

    @staticmethod
    def forward(ctx, probs, value, keep, scale):
        ctx.save_for_backward(probs, value, keep)
        ctx.scale = scale
        return (_keep(probs, keep) @ value).mul_(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        probs, value, keep = ctx.saved_tensors
        gradient = gradient * ctx.scale
        dropped_probs = _keep(probs, keep)
        of_value = dropped_probs.mT @ gradient
        of_probs = _keep(gradient @ value.mT, keep)
        return of_probs, of_value, None, None


def bias_activation(x, bias, activation: Callable):
    x = x + ops.cast(bias, x.dtype)
    if activation is gelu:
        return functional.gelu(x)
    if activation is gelu_tanh:
        return functional.gelu(x, approximate="tanh")
    return activation(x)


def dense(x, kernel, bias, activation: Callable):
    """See `reference.dense`; without gradients one operation, where products are oneDNN's."""
    left = x.flatten(0, -2)
    right = kernel.to(x.dtype).mT
    formulas = {gelu: "none", gelu_tanh: "tanh"}  # torch's names: no approximation
    formula = formulas.get(activation)
    if formula is None or torch.is_grad_enabled() or not _onednn_is_faster(left, right):
        return bias_activation(linear(x, kernel), bias, activation)
    bias = ops.cast(bias, x.dtype)
    y = ONEDNN_LINEAR(left, right, bias, "gelu", [], formula)
    return y.unflatten(0, x.shape[:-1])


def dropout(x, rate: float, seed):
    """See `reference.dropout`; on a CPU the rate is a multiple of 2⁻¹⁶, below 1."""
    if not rate:
        return x
    if not draws_by_seed(x):
        return functional.dropout(x, rate)
    keep, scale = _draw(x, rate, seed)
    return _Dropout.apply(x, keep, scale)


class _Dropout(torch.autograd.Function):
    """Dropout that keeps a byte per number, where torch's own keeps the scaled mask."""

    @staticmethod
    def forward(ctx, x, keep, scale):
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return _keep(x, keep).mul_(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (keep,) = ctx.saved_tensors
        return _keep(gradient, keep).mul_(ctx.scale), None, None


def draws_by_seed(x) -> bool:
    """Return whether dropout draws from the layer's seed: eager on a CPU, see the module."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def _draw(x, rate: float, seed) -> tuple:
    """Return a keep mask for x, from 16 bits per number, and the scale of the exact rate."""
    low, high = seed.tolist()
    number = (low ^ high * 0x9E3779B9) % 2**32
    generator = torch.Generator().manual_seed(number)

    count = x.numel()
    size = -(-count // 4)  # 64 bits each, for four numbers of x
    integers = torch.empty(size, dtype=torch.int64)
    integers.random_(-(2**63), None, generator=generator)
    bits = integers.view(torch.int16)[:count]  # −2¹⁵ … 2¹⁵ − 1

    dropped = min(round(rate * 2**16), 2**16 - 1)
    keep = bits.view(x.shape) >= dropped - 2**15
    scale = 2**16 / (2**16 - dropped)
    return keep, scale


def _keep(x, keep):
    """Return x, with 0 where it is dropped, in memory of its own."""
    return keep.to(x.dtype).mul_(x)


def layer_norm(x, gamma, beta, epsilon: float):
    gamma = ops.cast(gamma, "float32")
    beta = ops.cast(beta, "float32")
    y = functional.layer_norm(x.float(), gamma.shape, gamma, beta, epsilon)
    return y.to(x.dtype)


def embedding_lookup(table, ids):
    return functional.embedding(ids, table)


def embedding_lookup_and_table(table, ids, dtype: str):
    """See `reference.embedding_lookup_and_table`; one dense gradient instead of three."""
    dtype = getattr(torch, dtype)
    embeddings, table = _LookupAndTable.apply(table, ids, dtype)
    return embeddings.to(dtype), table


class _LookupAndTable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, ids, dtype):
        ctx.save_for_backward(ids)
        ctx.set_materialize_grads(False)  # None for a table that no head asks for
        ctx.shape, ctx.dtype = table.shape, table.dtype
        return functional.embedding(ids, table), table.to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, lookup_gradient, table_gradient):
        (ids,) = ctx.saved_tensors
        if table_gradient is None:
            total = ids.new_zeros(ctx.shape, dtype=ctx.dtype)
        else:
            total = table_gradient.to(ctx.dtype, copy=True)

        if lookup_gradient is not None:
            total.index_add_(0, ids.flatten(), lookup_gradient.flatten(0, -2))
        return total, None, None


def tied_logits(x, table, bias):
    """See `reference.tied_logits`; the product adds the bias."""
    return _product(x, table, bias, transposed=True)


def gather_positions(x, positions):
    indices = positions[..., None].long()
    return torch.take_along_dim(x, indices, 1)


def cross_entropy(logits, labels, weights):
    counts = weights > 0
    wide = torch.where(counts[..., None], logits.float(), 0.0)
    labels = torch.where(counts, labels, 0).long()
    flat_logits = wide.flatten(0, -2)
    flat_labels = labels.flatten()
    losses = functional.cross_entropy(flat_logits, flat_labels, reduction="none")
    hits = (wide.argmax(-1) == labels).float()
    loss = weights.flatten() @ losses
    num_hits = (weights * hits).sum()
    total = weights.sum()
    return torch.stack([loss, num_hits, total])


# Products. torch multiplies matrices of float32 by MKL, which does not use the AVX-512 of AMD's
# processors. oneDNN does, and torch has its product under this name alone. Without AVX-512 (Zen 3)
# MKL takes an eighth less time (benchmarks/LOG.md).
ONEDNN_LINEAR: Any = keras_internals.onednn_product()
# In multiplications: below, oneDNN prepares itself for longer than MKL takes for the product.
SMALLEST_PRODUCT = 2**21


def _product(x, matrix, bias=None, transposed: bool = False):
    """Return x (…, in) times matrix (in, out), or (out, in) if transposed, plus bias (out,)."""
    left = x.flatten(0, -2)
    if bias is not None:
        bias = ops.cast(bias, x.dtype)
    right = matrix.mT if transposed else matrix
    if _onednn_is_faster(left, right.mT):
        y = _Product.apply(left, matrix, bias, transposed)
    elif bias is None:
        y = left @ right
    else:
        y = torch.addmm(bias, left, right)
    return y.unflatten(0, x.shape[:-1])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix, bias, transposed):
        ctx.save_for_backward(x, matrix)
        ctx.transposed = transposed
        right = matrix if transposed else matrix.mT
        return ONEDNN_LINEAR(x, right, bias, "none", [], "")

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        x, matrix = ctx.saved_tensors
        needs_x, needs_matrix, needs_bias, _ = ctx.needs_input_grad
        of_x = of_matrix = of_bias = None
        if needs_x:
            right = matrix.mT if ctx.transposed else matrix
            of_x = _multiply(gradient, right)
        if needs_matrix:
            left, right = (gradient, x) if ctx.transposed else (x, gradient)
            of_matrix = _multiply(left.mT, right.mT)
        if needs_bias:
            of_bias = gradient.sum(0)
        return of_x, of_matrix, of_bias, None


def _multiply(x, y):
    """Return x yᵀ."""
    if _onednn_is_faster(x, y):
        return ONEDNN_LINEAR(x, y, None, "none", [], "")
    return x @ y.mT


def _onednn_is_faster(x, y) -> bool:
    """Return whether oneDNN computes x yᵀ in less time; x (N, in), y (out, in)."""
    return (
        x.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and x.dtype == y.dtype == torch.float32
        and x.numel() * len(y) >= SMALLEST_PRODUCT
        and torch.backends.mkldnn.enabled
        and has_unused_avx512()
    )


@functools.cache
def has_unused_avx512() -> bool:
    """Return whether MKL leaves AVX-512 unused, on AMD, and torch has oneDNN's product as well."""
    has_both = torch.backends.mkl.is_available() and ONEDNN_LINEAR is not None
    get_capabilities = getattr(torch.cpu, "get_capabilities", dict)  # not before torch 2.10
    capabilities: dict = get_capabilities()
    name = capabilities.get("cpu_name", "")
    return has_both and "AMD" in name and capabilities.get("avx512_f", False)
