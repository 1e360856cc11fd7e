"""LayerNorm, whose gradient reads its input once."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton

from kbert.ops.jax_gpu.kernel_calls import call_kernel

_ROWS = 4  # that `layer_norm` normalizes at a time
_PARTS = 256  # programs of its backward pass, each with sums of its own


def layer_norm(x, gamma, beta, epsilon: float):
    """See `reference.layer_norm`; keeps its input, and each row's scale."""
    flat_x = x.reshape(-1, x.shape[-1])
    y = _layer_norm(flat_x, gamma, beta, epsilon)
    return y.reshape(x.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _layer_norm(x, gamma, beta, epsilon):
    y, _ = _layer_norm_forward(x, gamma, beta, epsilon)
    return y


def _layer_norm_forward(x, gamma, beta, epsilon):
    rows, width = x.shape
    block = pallas.BlockSpec((_ROWS, width), lambda i: (i, 0))
    vector = pallas.BlockSpec((width,), lambda i: (0,))
    normalize = call_kernel(
        functools.partial(_layer_norm_kernel, rows, epsilon),
        grid=(pallas.cdiv(rows, _ROWS),),
        in_specs=[block, vector, vector],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )
    y = normalize(x, gamma, beta)
    return y, (x, gamma, beta)


def _normalized(x, inside, width: int, epsilon: float):
    """Return rows normalized, float32, and what they were multiplied by."""
    x = _wide(x)
    mean = jnp.sum(x, -1, keepdims=True) / width
    centered = jnp.where(inside, x - mean, 0.0)
    variance = jnp.sum(jnp.square(centered), -1, keepdims=True) / width
    scale = jax.lax.rsqrt(variance + epsilon)
    return centered * scale, scale


def _layer_norm_kernel(rows, epsilon, x_ref, gamma_ref, beta_ref, y_ref):
    width = x_ref.shape[1]
    columns, inside = _columns(width)
    row = pallas.program_id(0) * _ROWS
    is_row = row + jnp.arange(_ROWS) < rows
    mask = is_row[:, None] & inside
    x = _load_rows(x_ref, 0, columns, mask)
    gamma = _wide(_load_vector(gamma_ref, columns))
    beta = _wide(_load_vector(beta_ref, columns))

    unit, _ = _normalized(x, inside, width, epsilon)
    y = (unit * gamma + beta).astype(y_ref.dtype)
    triton.store(y_ref.at[:, columns], y, mask=mask)


def _columns(width: int):
    """Return a slice of as many columns as a power of 2, and which of them there are, (1, H')."""
    padded = pallas.next_power_of_2(width)
    inside = jnp.arange(padded) < width
    return pallas.ds(0, padded), inside[None, :]


def _load_rows(ref, row, columns, mask):
    block = ref.at[pallas.ds(row, _ROWS), columns]
    return triton.load(block, mask=mask, other=0.0)


def _load_vector(ref, columns):
    inside = jnp.arange(columns.size) < ref.shape[0]
    vector = triton.load(ref.at[columns], mask=inside, other=0.0)
    return vector[None, :]


def _layer_norm_backward(epsilon, residuals, gradient):
    x, gamma, beta = residuals
    rows, width = x.shape
    parts = min(_PARTS, pallas.cdiv(rows, _ROWS))
    count = pallas.cdiv(rows, parts)
    whole = pallas.BlockSpec((rows, width), lambda i: (0, 0))
    vector = pallas.BlockSpec((width,), lambda i: (0,))
    part = pallas.BlockSpec((None, 2, width), lambda i: (i, 0, 0))
    sums = jax.ShapeDtypeStruct((parts, 2, width), "float32")

    differentiate = call_kernel(
        functools.partial(_layer_norm_backward_kernel, epsilon, count),
        grid=(parts,),
        in_specs=[whole, vector, whole],
        out_specs=(whole, part),
        out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), sums),
    )
    of_x, of_vectors = differentiate(x, gamma, gradient)

    of_gamma, of_beta = of_vectors.sum(0)
    return of_x, of_gamma.astype(gamma.dtype), of_beta.astype(beta.dtype)


_layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


def _layer_norm_backward_kernel(epsilon, count, x_ref, gamma_ref, gradient_ref, of_x_ref,
                                sums_ref):  # fmt: skip
    """Compute the gradients of `count` rows, and their sums for gamma and beta."""
    rows, width = x_ref.shape
    columns, inside = _columns(width)
    gamma = _wide(_load_vector(gamma_ref, columns))
    first = pallas.program_id(0) * count
    end = jnp.minimum(first + count, rows)

    def add_rows(block, sums):
        of_gamma, of_beta = sums
        row = first + block * _ROWS
        is_row = row + jnp.arange(_ROWS) < end
        mask = is_row[:, None] & inside
        x = _load_rows(x_ref, row, columns, mask)
        gradient = _wide(_load_rows(gradient_ref, row, columns, mask))
        unit, scale = _normalized(x, inside, width, epsilon)

        of_x = _input_gradient(gradient * gamma, unit, scale, width)
        block_ref = of_x_ref.at[pallas.ds(row, _ROWS), columns]
        triton.store(block_ref, of_x.astype(of_x_ref.dtype), mask=mask)

        of_gamma = of_gamma + jnp.sum(gradient * unit, 0)
        of_beta = of_beta + jnp.sum(gradient, 0)
        return of_gamma, of_beta

    zeros = jnp.zeros(columns.size, "float32")
    blocks = pallas.cdiv(count, _ROWS)
    sums = jax.lax.fori_loop(0, blocks, add_rows, (zeros, zeros))
    for index, total in enumerate(sums):
        row_ref = sums_ref.at[pallas.ds(index, 1), columns]
        triton.store(row_ref, total[None, :], mask=inside)


def _input_gradient(of_unit, unit, scale, width: int):
    """Return the gradient of rows that were normalized, given that of their normalized numbers."""
    of_mean = jnp.sum(of_unit, -1, keepdims=True) / width
    of_scale = jnp.sum(of_unit * unit, -1, keepdims=True) / width
    return (of_unit - of_mean - unit * of_scale) * scale


def _wide(x):
    return x.astype("float32")
