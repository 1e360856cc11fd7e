"""Attention that keeps no scores and no probabilities.

FlashAttention, Dao et al. 2022, arXiv 2205.14135. Its backward pass draws the dropout mask again,
by the reference's hash, so that a step stays a function of its seed; cuDNN's attention counts its
calls instead.

Dimensions as in `kbert.ops.reference`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton

from kbert.ops import jax as jax_ops
from kbert.ops import reference
from kbert.ops.jax_gpu.kernel_calls import call_kernel
from kbert.ops.jax_gpu.products import linear, project_heads

SIZES = (16, 32, 64, 128)  # of heads; Triton's blocks are powers of 2
_HEADS = "query", "key", "value"
_BLOCK = 64  # queries or keys of a tile


def attention(query, key, value, mask=None, rate: float = 0.0, seed=None):
    """See `reference.attention`; heads of other sizes than `SIZES` as on a CPU."""
    if query.shape[-1] not in SIZES:
        return jax_ops.attention(query, key, value, mask, rate, seed)
    heads = [jnp.moveaxis(x, 1, 2)[:, :, None] for x in (query, key, value)]  # (B, S, 1, A, D)
    context = _attention(heads, _as_int8(mask), seed, rate)
    return context.reshape(*context.shape[:2], -1)


def self_attention(x, kernels, biases, mask=None, rate: float = 0.0, seed=None, queries=None):
    """See `reference.self_attention`; all projections of the same input are one product."""
    groups = [(x, kernels, biases)]
    if queries is not None:
        of_queries = (queries, kernels[:1], biases[:1])
        of_keys_and_values = (x, kernels[1:], biases[1:])
        groups = [of_queries, of_keys_and_values]

    if kernels[0].shape[-1] not in SIZES:
        heads = []
        for group in groups:
            heads += project_heads(*group)
        query, key, value = heads
        return attention(query, key, value, mask, rate, seed)

    joined = []
    for array, kernels_of_group, biases_of_group in groups:
        kernel = _join(kernels_of_group, x.dtype)
        bias = _join(biases_of_group, x.dtype)
        joined.append((array, kernel, bias))
    shape = kernels[0].shape[1:]
    return _self_attention(joined, _as_int8(mask), seed, rate, shape)


def _join(arrays, dtype):
    """Return arrays (…, A, D) side by side, (…, n·A·D); None of None."""
    if arrays[0] is None:
        return None
    flat = []
    for array in arrays:
        array = jnp.asarray(array).astype(dtype)
        flat.append(array.reshape(*array.shape[:-2], -1))
    return jnp.concatenate(flat, -1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _self_attention(groups: list, mask, seed, rate, shape):
    """Return (B, R, A·D). A group is an input, and what `_join` made of its kernels and biases."""
    context, _ = _self_attention_forward(groups, mask, seed, rate, shape)
    return context


def _self_attention_forward(groups, mask, seed, rate, shape):
    heads = []
    for x, kernel, bias in groups:
        y = linear(x, kernel)
        if bias is not None:
            y = y + bias  # in cuBLAS: attention reads the sum
        heads.append(y.reshape(*x.shape[:2], -1, *shape))

    context, residuals = _attention_forward(heads, mask, seed, rate)
    context = context.reshape(*context.shape[:2], -1)
    return context, (groups, residuals)


def _self_attention_backward(rate, shape, residuals, gradient):
    groups, of_attention = residuals
    gradient = gradient.reshape(*gradient.shape[:2], *shape)
    of_heads, sums_of_heads = _attention_gradients(rate, of_attention, gradient)

    of_groups = []
    for (x, kernel, bias), of_y, sums in zip(groups, of_heads, sums_of_heads, strict=True):
        of_y = of_y.reshape(-1, kernel.shape[1])
        of_x = jnp.matmul(of_y, kernel.T).reshape(x.shape)
        flat_x = x.reshape(-1, x.shape[-1])
        of_kernel = jnp.matmul(flat_x.T, of_y)
        of_bias = None
        if bias is not None:
            total = sums.sum((0, 1))
            of_bias = total.reshape(-1).astype(bias.dtype)
        of_groups.append((of_x, of_kernel, of_bias))
    return of_groups, None, None


_self_attention.defvjp(_self_attention_forward, _self_attention_backward)


def _as_int8(mask):
    return None if mask is None else mask.astype("int8")


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _attention(heads: list, mask, seed, rate):
    """Return (B, R, A, D) of query, key and value, and an int8 mask.

    `heads` are the arrays in which they lie side by side, (B, S, parts, A, D): one to three.
    """
    context, _ = _attention_forward(heads, mask, seed, rate)
    return context


def _attention_forward(heads, mask, seed, rate):
    sizes = _Sizes.from_heads(heads, rate)
    batch, rows, _, count, size = heads[0].shape

    inputs = sizes.heads(heads)
    inputs |= {"mask": mask, "seed": seed}
    in_specs = sizes.head_specs(of_block=True)
    in_specs |= sizes.mask_specs(mask)
    dtype = heads[0].dtype
    context = jax.ShapeDtypeStruct((batch, rows, count, size), dtype)
    of_rows = jax.ShapeDtypeStruct((batch, count, rows), "float32")
    outputs = {"context": context, "highest": of_rows, "total": of_rows}
    out_specs = sizes.row_specs(of_block=True)

    blocks = pallas.cdiv(sizes.rows, _BLOCK), batch, count
    results = _call(_attention_kernel, sizes, blocks, inputs, in_specs, outputs, out_specs)
    saved = {"mask": mask, "seed": seed, **results}
    return results["context"], (heads, saved)


def _attention_gradients(rate, residuals, gradient) -> tuple[list, list]:
    """Return the gradients of the heads, and each one's sums over blocks of rows."""
    heads, saved = residuals
    sizes = _Sizes.from_heads(heads, rate)

    inputs = sizes.heads(heads) | saved | {"gradient": gradient}
    in_specs = sizes.head_specs(of_block=False)
    in_specs |= sizes.mask_specs(inputs["mask"])
    in_specs |= sizes.row_specs(of_block=False)
    in_specs["gradient"] = in_specs["context"]

    outputs: dict = {"heads": [], "sums": []}
    out_specs: dict = {"heads": [], "sums": []}
    for array in heads:
        batch, length, *shape = array.shape
        sums_shape = batch, pallas.cdiv(length, _BLOCK), *shape
        of_heads = jax.ShapeDtypeStruct(array.shape, array.dtype)
        sums = jax.ShapeDtypeStruct(sums_shape, "float32")
        outputs["heads"].append(of_heads)
        outputs["sums"].append(sums)
        block_of_heads = (None, _BLOCK, shape[0], None, sizes.size)
        block_of_sums = (None, None, shape[0], None, sizes.size)
        out_specs["heads"].append(_part_spec(block_of_heads))
        out_specs["sums"].append(_part_spec(block_of_sums))

    longest = max(sizes.rows, sizes.columns)
    blocks = pallas.cdiv(longest, _BLOCK), batch, sizes.head_count
    results = _call(_attention_gradient_kernel, sizes, blocks, inputs, in_specs, outputs, out_specs)
    return results["heads"], results["sums"]


def _part_spec(block: tuple) -> pallas.BlockSpec:
    """Return the spec of a block of the rows of one sequence and head, all its parts."""
    return pallas.BlockSpec(block, lambda i, b, h: (b, i, 0, h, 0))


def _attention_backward(rate, residuals, gradient):
    of_heads, _ = _attention_gradients(rate, residuals, gradient)
    return of_heads, None, None


_attention.defvjp(_attention_forward, _attention_backward)


def _call(kernel, sizes, grid, inputs, in_specs, outputs, out_specs):
    specs_of_inputs = {}
    for name, array in inputs.items():
        specs_of_inputs[name] = None if array is None else in_specs[name]
    call = call_kernel(
        functools.partial(kernel, sizes),
        num_stages=2,
        grid=grid,
        in_specs=[specs_of_inputs],
        out_specs=out_specs,
        out_shape=outputs,
    )
    return call(inputs)


class _Ops:
    """What `reference.keep_at` uses of `keras.ops`, by JAX on any backend of Keras."""

    bitwise_and = staticmethod(jnp.bitwise_and)
    bitwise_xor = staticmethod(jnp.bitwise_xor)
    right_shift = staticmethod(jnp.right_shift)
    cast = staticmethod(lambda x, dtype: jnp.asarray(x, dtype))


class _Sizes(NamedTuple):
    """The sizes of an attention, and the parts of its arrays that one program reads or writes.

    Rows are queries and columns are keys. The grid is (block of rows or columns, sequence, head).
    """

    head_count: int  # A
    rows: int  # R
    columns: int  # S
    size: int  # D
    rate: float
    places: tuple  # of query, key and value: the number of the array, and of its part

    @classmethod
    def from_heads(cls, heads: list, rate: float):
        _, rows, _, count, size = heads[0].shape
        columns = heads[-1].shape[1]
        places: list[tuple[int, int]] = []
        for n, array in enumerate(heads):
            places += [(n, part) for part in range(array.shape[2])]
        return cls(count, rows, columns, size, rate, tuple(places))

    def heads(self, heads: list) -> dict:
        """Return the array of each of query, key and value."""
        arrays = {}
        for name, (number, _) in zip(_HEADS, self.places, strict=True):
            arrays[name] = heads[number]
        return arrays

    def head_specs(self, of_block: bool) -> dict:
        """Return the specs of all keys and values, and of a block's queries, or of all."""

        def spec(length, part, is_blocked):
            def index(i, b, h):
                return b, (i if is_blocked else 0), part, h, 0

            return pallas.BlockSpec((None, length, None, None, self.size), index)

        query, key, value = [part for _, part in self.places]
        return {
            "query": spec(_BLOCK if of_block else self.rows, query, of_block),
            "key": spec(self.columns, key, False),
            "value": spec(self.columns, value, False),
        }

    def row_specs(self, of_block: bool) -> dict:
        """Return the specs of contexts and sums of a block's queries, or of all."""
        rows = _BLOCK if of_block else self.rows

        def context_index(i, b, h):
            return b, (i if of_block else 0), h, 0

        def sums_index(i, b, h):
            return b, h, (i if of_block else 0)

        context = pallas.BlockSpec((None, rows, None, self.size), context_index)
        sums = pallas.BlockSpec((None, None, rows), sums_index)
        return {"context": context, "highest": sums, "total": sums}

    def mask_specs(self, mask) -> dict:
        """Return the specs of the mask of a sequence and head, and of the seed."""
        specs = {"seed": pallas.BlockSpec((2,), lambda i, b, h: (0,))}
        if mask is None:
            return specs
        batch, heads, *shape = mask.shape

        def index(i, b, h):
            i_batch = b if batch > 1 else 0
            i_head = h if heads > 1 else 0
            return i_batch, i_head, 0, 0

        specs["mask"] = pallas.BlockSpec((None, None, *shape), index)
        return specs

    def scores(self, query, key, mask_ref, row, column):
        """Return the masked scores of a tile, float32; -inf behind the last key."""
        query = query * jnp.asarray(self.size**-0.5, query.dtype)
        scores = _product(query, key.T)

        columns = column + jnp.arange(_BLOCK)
        inside = (columns < self.columns)[None, :]
        if mask_ref is not None:
            last = mask_ref.shape[0] - 1
            rows = jnp.minimum(row + jnp.arange(_BLOCK), last)
            tile = mask_ref.at[rows[:, None], columns[None, :]]
            mask = triton.load(tile, mask=inside, other=0)
            scores = jnp.where(mask != 0, scores, reference.LOWEST)
        return jnp.where(inside, scores, -jnp.inf)

    def drop(self, probs, seed_ref, head, row, column):
        """Drop numbers of a tile as `reference.dropout`; head: of those of all sequences."""
        if not self.rate:
            return probs
        rows = head * self.rows + row + jnp.arange(_BLOCK)
        columns = column + jnp.arange(_BLOCK)
        index = rows[:, None] * self.columns + columns[None, :]
        keep = reference.keep_at(index, self.rate, seed_ref[0], seed_ref[1], _Ops)
        scaled = probs * (1 / (1 - self.rate))
        return jnp.where(keep, scaled, 0.0)


def _load(ref, start, end: int):
    """Load a tile of (rows, D) or (rows,); zeros from row `end` on."""
    inside = start + jnp.arange(_BLOCK) < end
    rows = pallas.ds(start, _BLOCK)
    if len(ref.shape) == 1:
        return triton.load(ref.at[rows], mask=inside, other=0.0)
    return triton.load(ref.at[rows, :], mask=inside[:, None], other=0.0)


def _store(ref, x, left):
    """Store the first `left` rows of a tile."""
    axes = [1] * (x.ndim - 1)
    inside = jnp.arange(_BLOCK).reshape(-1, *axes) < left
    triton.store(ref, x.astype(ref.dtype), mask=inside)


def _product(x, y):
    return triton.dot(x, y, allow_tf32=False)


def _attention_kernel(sizes, inputs, outputs):
    """Compute the contexts of a block of queries, their highest scores and softmax's sums."""
    row = pallas.program_id(0) * _BLOCK
    sequence = pallas.program_id(1)
    head = sequence * sizes.head_count + pallas.program_id(2)
    left = sizes.rows - row
    query = _load(inputs["query"], 0, left)

    def add_keys(block, sums):
        return _add_tile(sizes, inputs, head, query, row, block * _BLOCK, sums)

    context = jnp.zeros((_BLOCK, sizes.size), "float32")
    highest = jnp.full((_BLOCK,), -jnp.inf, "float32")
    total = jnp.zeros((_BLOCK,), "float32")
    blocks = pallas.cdiv(sizes.columns, _BLOCK)
    sums = jax.lax.fori_loop(0, blocks, add_keys, (context, highest, total))

    context, highest, total = sums
    _store(outputs["context"].at[...], context / total[:, None], left)
    _store(outputs["highest"].at[...], highest, left)
    _store(outputs["total"].at[...], total, left)


def _add_tile(sizes, inputs, head, query, row, column, sums) -> tuple:
    """Add a block of keys to the sums of a block of queries, scaled to the new highest scores.

    Milakov & Gimelshein 2018, arXiv 1805.02867: the softmax is computed in one pass.
    """
    context, highest, total = sums
    key = _load(inputs["key"], column, sizes.columns)
    value = _load(inputs["value"], column, sizes.columns)

    scores = sizes.scores(query, key, inputs["mask"], row, column)
    higher = jnp.maximum(highest, jnp.max(scores, -1))
    probs = jnp.exp(scores - higher[:, None])
    change = jnp.exp(highest - higher)
    total = total * change + jnp.sum(probs, -1)

    dropped = sizes.drop(probs, inputs["seed"], head, row, column)
    added = _product(dropped.astype(value.dtype), value)
    context = context * change[:, None] + added
    return context, higher, total


def _attention_gradient_kernel(sizes, inputs, outputs):
    """Compute the gradients of a block of keys and values, and of the same block of queries."""
    block = pallas.program_id(0)
    start = block * _BLOCK
    head = pallas.program_id(1) * sizes.head_count + pallas.program_id(2)
    row_blocks = pallas.cdiv(sizes.rows, _BLOCK)
    column_blocks = pallas.cdiv(sizes.columns, _BLOCK)

    @pallas.when(block < column_blocks)
    def _():
        of_key, of_value = _sum_key_gradients(sizes, inputs, head, start, row_blocks)
        _store_gradient(sizes, outputs, 1, of_key, start, sizes.columns)
        _store_gradient(sizes, outputs, 2, of_value, start, sizes.columns)

    @pallas.when(block < row_blocks)
    def _():
        of_query = _sum_query_gradients(sizes, inputs, head, start, column_blocks)
        _store_gradient(sizes, outputs, 0, of_query, start, sizes.rows)


def _sum_key_gradients(sizes, inputs, head, column, row_blocks) -> tuple:
    """Return the gradients of a block of keys and of values: sums over all blocks of queries."""
    tile = functools.partial(_tile_gradients, sizes, inputs, head)
    key = _load(inputs["key"], column, sizes.columns)
    value = _load(inputs["value"], column, sizes.columns)

    def add_queries(block, sums):
        of_key, of_value = sums
        row = block * _BLOCK
        query = _load(inputs["query"], row, sizes.rows)
        probs, of_scores, gradient = tile(query, key, value, row, column)
        of_key = of_key + _product(of_scores.T, query)
        of_value = of_value + _product(probs.T, gradient)
        return of_key, of_value

    zeros = jnp.zeros((_BLOCK, sizes.size), "float32")
    return jax.lax.fori_loop(0, row_blocks, add_queries, (zeros, zeros))


def _sum_query_gradients(sizes, inputs, head, row, column_blocks):
    """Return the gradient of a block of queries: a sum over all blocks of keys."""
    tile = functools.partial(_tile_gradients, sizes, inputs, head)
    query = _load(inputs["query"], row, sizes.rows)

    def add_keys(block, of_query):
        column = block * _BLOCK
        key = _load(inputs["key"], column, sizes.columns)
        value = _load(inputs["value"], column, sizes.columns)
        _, of_scores, _ = tile(query, key, value, row, column)
        return of_query + _product(of_scores, key)

    zeros = jnp.zeros((_BLOCK, sizes.size), "float32")
    return jax.lax.fori_loop(0, column_blocks, add_keys, zeros)


def _store_gradient(sizes, outputs, number: int, x, start, end: int):
    """Store a block of query's, key's or value's gradient (number 0, 1 or 2), and its sums."""
    array, part = sizes.places[number]
    part = pallas.ds(part, 1)
    block = outputs["heads"][array].at[:, part, :]
    _store(block, x[:, None], end - start)
    outputs["sums"][array][part, :] = jnp.sum(x, 0)[None]


def _tile_gradients(sizes, inputs, head, query, key, value, row, column):
    """Return a tile's probabilities after dropout, and the gradients of scores and contexts."""
    gradient = _load(inputs["gradient"], row, sizes.rows)
    context = _load(inputs["context"], row, sizes.rows)
    highest = _load(inputs["highest"], row, sizes.rows)
    total = _load(inputs["total"], row, sizes.rows)
    total = jnp.where(total > 0, total, 1.0)  # 0 behind the last row

    scores = sizes.scores(query, key, inputs["mask"], row, column)
    powers = jnp.exp(scores - highest[:, None])
    probs = powers / total[:, None]
    dropped = sizes.drop(probs, inputs["seed"], head, row, column)

    products = gradient.astype("float32") * context.astype("float32")
    mean = jnp.sum(products, -1)
    of_dropped = _product(gradient, value.T)
    of_scores = dropped * of_dropped - probs * mean[:, None]
    scaled = of_scores * sizes.size**-0.5
    of_scores = jnp.where(scores > reference.LOWEST, scaled, 0.0)

    dropped = dropped.astype(query.dtype)
    of_scores = of_scores.astype(query.dtype)
    return dropped, of_scores, gradient
