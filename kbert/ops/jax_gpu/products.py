"""Products of two matrices, look-ups with a gradient in one order, and dropout.

Dimensions as in `kbert.ops.reference`; N = B·S.
"""

import functools

import jax
import jax.numpy as jnp

from kbert.ops import jax as jax_ops
from kbert.ops import reference

_SORTED_ROWS = 128  # of a block in which `_add_rows` adds rows by a product


def linear(x, kernel, bias=None):
    """See `reference.linear`; all products are of two matrices.

    The bias is added in float32, by the kernel that reads y: cuBLAS would need a cast of its own.
    """
    rows = x.reshape(-1, x.shape[-1])
    y = _linear(rows, jnp.asarray(kernel))
    y = y.reshape(*x.shape[:-1], -1)
    if bias is None:
        return y
    bias = jnp.asarray(bias).astype("float32")
    biased = y.astype("float32") + bias
    return biased.astype(y.dtype)


@jax.custom_vjp
def _linear(x, kernel):
    y, _ = _linear_forward(x, kernel)
    return y


def _linear_forward(x, kernel):
    y = jnp.matmul(x, kernel.astype(x.dtype))
    return y, (x, kernel)


def _linear_backward(residuals, gradient):
    x, kernel = residuals
    of_x = jnp.matmul(gradient, kernel.astype(x.dtype).T)
    of_kernel = jnp.matmul(x.T, gradient)
    return of_x, of_kernel.astype(kernel.dtype)


_linear.defvjp(_linear_forward, _linear_backward)


def project_heads(x, kernels, biases):
    """See `reference.project_heads`; products of two matrices."""
    heads = []
    for kernel, bias in zip(kernels, biases, strict=True):
        shape = kernel.shape
        if bias is not None:
            bias = jnp.asarray(bias).reshape(-1)
        flat_kernel = jnp.asarray(kernel).reshape(shape[0], -1)
        y = linear(x, flat_kernel, bias)
        y = y.reshape(*x.shape[:2], *shape[1:])
        heads.append(jnp.moveaxis(y, 2, 1))
    return heads


def embedding_lookup(table, ids):
    """See `reference.embedding_lookup`; the gradient is added up in one order, see `_add_rows`."""
    if table.shape[0] <= 16:
        return jax_ops.embedding_lookup(table, ids)
    embeddings, _ = _lookup_and_table(jnp.asarray(table), ids, table.dtype)
    return embeddings


def embedding_lookup_and_table(table, ids, dtype: str):
    """See `reference.embedding_lookup_and_table`; one dense gradient, see `_add_rows`."""
    embeddings, table = _lookup_and_table(jnp.asarray(table), ids, dtype)
    return embeddings.astype(dtype), table


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _lookup_and_table(table, ids, dtype):
    return jnp.take(table, ids, axis=0), table.astype(dtype)


def _lookup_backward(dtype, ids, gradients):
    of_rows, of_table = gradients
    rows = of_rows.reshape(-1, of_rows.shape[-1])
    table = of_table.astype(rows.dtype)
    return _add_rows(table, ids.reshape(-1), rows), None


_lookup_and_table.defvjp(
    lambda table, ids, dtype: (_lookup_and_table(table, ids, dtype), ids), _lookup_backward
)


def _add_rows(table, ids, rows):
    """Return table (T, H) plus rows (N, H) at their ids (N,), the same bits every time.

    A scatter that adds would add rows in any order, and XLA's deterministic one sorts all N·H
    numbers. Here the ids are sorted, and a scatter writes each row of the table once.
    """
    size, width = table.shape
    ids, rows = _sort_by_id(ids, rows, no_id=size)
    sums = _sum_equal_ids(ids, rows)

    ids = ids.reshape(-1)
    is_last = ids != jnp.append(ids[1:], size + 1)
    no_row = size + 1 + jnp.arange(len(ids))  # behind the table, another one for each
    indices = jnp.where(is_last, ids, no_row)
    sums = sums.reshape(-1, width).astype(table.dtype)
    return table.at[indices].add(sums, mode="drop", unique_indices=True)


def _sort_by_id(ids, rows, no_id: int) -> tuple:
    """Return ids and rows in the order of the ids, in blocks; the last one is filled by `no_id`."""
    spare = -len(ids) % _SORTED_ROWS
    ids = jnp.pad(ids, (0, spare), constant_values=no_id)
    rows = jnp.pad(rows, ((0, spare), (0, 0)))
    order = jnp.argsort(ids)
    sorted_ids = ids[order].reshape(-1, _SORTED_ROWS)
    sorted_values = rows[order].reshape(-1, _SORTED_ROWS, rows.shape[1])
    return sorted_ids, sorted_values


def _sum_equal_ids(ids, rows):
    """Return for each row the sum of the rows with its id, in its block and in earlier ones."""
    is_equal = ids[:, :, None] == ids[:, None]  # (blocks, rows, rows)
    sums = _multiply_exactly(is_equal, rows, "float32")  # of each row's equals in its block

    # An id that goes on from earlier blocks is the last one of those, and the first one here.
    blocks = jnp.arange(len(ids))
    first_ids = ids[:, :1]
    is_same_id = first_ids == ids[:, -1]
    is_earlier = blocks[:, None] > blocks
    goes_on = is_same_id & is_earlier
    earlier = _multiply_exactly(goes_on, sums[:, -1], "float32")
    earlier = earlier[:, None]  # (blocks, 1, H)
    has_first_id = ids == first_ids
    return sums + jnp.where(has_first_id[..., None], earlier, 0.0)


def _multiply_exactly(chosen, x, dtype):
    """Return chosen @ x in a dtype, for bool `chosen`: TF32 would round x."""
    chosen = chosen.astype(x.dtype)
    return jnp.matmul(chosen, x, precision="highest", preferred_element_type=dtype)


def gather_positions(x, positions):
    """See `reference.gather_positions`; the gradient is a product, no scatter."""
    return _gather_positions(x, positions, x.shape[1])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _gather_positions(x, positions, length):
    return jnp.take_along_axis(x, positions[..., None], 1)


def _gather_backward(length, positions, gradient):
    is_chosen = jnp.arange(length)[:, None] == positions[:, None]  # (B, S, M)
    of_x = _multiply_exactly(is_chosen, gradient, gradient.dtype)
    return of_x, None


_gather_positions.defvjp(
    lambda x, positions, length: (_gather_positions(x, positions, length), positions),
    _gather_backward,
)


def dropout(x, rate: float, seed):
    """See `reference.dropout`; the backward pass draws the mask again, so that none is kept."""
    if not rate:
        return x
    return _dropout(x, seed, rate)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _dropout(x, seed, rate):
    return reference.dropout(x, rate, seed)


def _dropout_backward(rate, seed, gradient):
    # XLA would see that both masks are equal, and keep one.
    again = jax.lax.optimization_barrier(seed)
    return reference.dropout(gradient, rate, again), None


_dropout.defvjp(lambda x, seed, rate: (_dropout(x, seed, rate), seed), _dropout_backward)
