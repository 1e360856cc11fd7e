"""Operations of `kbert.ops.reference` for JAX on GPUs: attention and LayerNorm compiled by Triton.

Attention keeps no scores and no probabilities (FlashAttention, Dao et al. 2022, arXiv 2205.14135).
Its backward pass draws the dropout mask again, by the reference's hash, so that a step stays a
function of its seed; cuDNN's attention counts its calls instead. All other products are of two
matrices, so that XLA transposes nothing and adds biases in cuBLAS.

Dimensions as in `kbert.ops.reference`; N = B·S.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton

from kbert.ops import jax as jax_ops
from kbert.ops import reference

SIZES = (16, 32, 64, 128)  # of heads; Triton's blocks are powers of 2
_HEADS = "query", "key", "value"
_BLOCK = 64  # queries or keys of a tile
_ROWS = 4  # that `layer_norm` normalizes at a time
_SORTED_ROWS = 128  # of a block in which `_add_rows` adds rows by a product
_PARTS = 256  # programs of its backward pass, each with sums of its own
INTERPRETED = False  # where there is no GPU, for tests


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
        groups = [(queries, kernels[:1], biases[:1]), (x, kernels[1:], biases[1:])]

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
    return _self_attention(joined, _as_int8(mask), seed, rate, kernels[0].shape[1:])


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
    return _self_attention_forward(groups, mask, seed, rate, shape)[0]


def _self_attention_forward(groups, mask, seed, rate, shape):
    heads = []
    for x, kernel, bias in groups:
        y = linear(x, kernel)
        if bias is not None:
            y = y + bias  # in cuBLAS: attention reads the sum
        heads.append(y.reshape(*x.shape[:2], -1, *shape))

    context, residuals = _attention_forward(heads, mask, seed, rate)
    return context.reshape(*context.shape[:2], -1), (groups, residuals)


def _self_attention_backward(rate, shape, residuals, gradient):
    groups, of_attention = residuals
    gradient = gradient.reshape(*gradient.shape[:2], *shape)
    of_heads, sums_of_heads = _attention_gradients(rate, of_attention, gradient)

    of_groups = []
    for (x, kernel, bias), of_y, sums in zip(groups, of_heads, sums_of_heads, strict=True):
        of_y = of_y.reshape(-1, kernel.shape[1])
        of_x = jnp.matmul(of_y, kernel.T).reshape(x.shape)
        of_kernel = jnp.matmul(x.reshape(-1, x.shape[-1]).T, of_y)
        of_bias = None
        if bias is not None:
            of_bias = sums.sum((0, 1)).reshape(-1).astype(bias.dtype)
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
    return _attention_forward(heads, mask, seed, rate)[0]


def _attention_forward(heads, mask, seed, rate):
    sizes = _Sizes.from_heads(heads, rate)
    batch, rows, _, count, size = heads[0].shape

    inputs = sizes.heads(heads) | {"mask": mask, "seed": seed}
    in_specs = sizes.head_specs(of_block=True) | sizes.mask_specs(mask)
    context = jax.ShapeDtypeStruct((batch, rows, count, size), heads[0].dtype)
    of_rows = jax.ShapeDtypeStruct((batch, count, rows), "float32")
    outputs = {"context": context, "highest": of_rows, "total": of_rows}
    out_specs = sizes.row_specs(of_block=True)

    blocks = pallas.cdiv(sizes.rows, _BLOCK), batch, count
    results = _call(_attention_kernel, sizes, blocks, inputs, in_specs, outputs, out_specs)
    return results["context"], (heads, {"mask": mask, "seed": seed, **results})


def _attention_gradients(rate, residuals, gradient) -> tuple[list, list]:
    """Return the gradients of the heads, and each one's sums over blocks of rows."""
    heads, saved = residuals
    sizes = _Sizes.from_heads(heads, rate)

    inputs = sizes.heads(heads) | saved | {"gradient": gradient}
    in_specs = sizes.head_specs(of_block=False) | sizes.mask_specs(inputs["mask"])
    in_specs |= sizes.row_specs(of_block=False)
    in_specs["gradient"] = in_specs["context"]

    outputs: dict = {"heads": [], "sums": []}
    out_specs: dict = {"heads": [], "sums": []}
    for array in heads:
        batch, length, *shape = array.shape
        sums_shape = batch, pallas.cdiv(length, _BLOCK), *shape
        outputs["heads"].append(jax.ShapeDtypeStruct(array.shape, array.dtype))
        outputs["sums"].append(jax.ShapeDtypeStruct(sums_shape, "float32"))
        out_specs["heads"].append(_part_spec((None, _BLOCK, shape[0], None, sizes.size)))
        out_specs["sums"].append(_part_spec((None, None, shape[0], None, sizes.size)))

    blocks = pallas.cdiv(max(sizes.rows, sizes.columns), _BLOCK), batch, sizes.head_count
    results = _call(_attention_gradient_kernel, sizes, blocks, inputs, in_specs, outputs, out_specs)
    return results["heads"], results["sums"]


def _part_spec(block: tuple) -> pallas.BlockSpec:
    """Return the spec of a block of the rows of one sequence and head, all its parts."""
    return pallas.BlockSpec(block, lambda i, b, h: (b, i, 0, h, 0))


def _attention_backward(rate, residuals, gradient):
    return _attention_gradients(rate, residuals, gradient)[0], None, None


_attention.defvjp(_attention_forward, _attention_backward)


def _call(kernel, sizes, grid, inputs, in_specs, outputs, out_specs):
    specs_of_inputs = {}
    for name, array in inputs.items():
        specs_of_inputs[name] = None if array is None else in_specs[name]
    return pallas.pallas_call(
        functools.partial(kernel, sizes),
        grid=grid,
        in_specs=[specs_of_inputs],
        out_specs=out_specs,
        out_shape=outputs,
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=INTERPRETED,
    )(inputs)


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
        return {name: heads[n] for name, (n, _) in zip(_HEADS, self.places, strict=True)}

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

        return specs | {"mask": pallas.BlockSpec((None, None, *shape), index)}

    def scores(self, query, key, mask_ref, row, column):
        """Return the masked scores of a tile, float32; -inf behind the last key."""
        query = query * jnp.asarray(self.size**-0.5, query.dtype)
        scores = _product(query, key.T)

        columns = column + jnp.arange(_BLOCK)
        inside = (columns < self.columns)[None, :]
        if mask_ref is not None:
            rows = jnp.minimum(row + jnp.arange(_BLOCK), mask_ref.shape[0] - 1)
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
        return jnp.where(keep, probs * (1 / (1 - self.rate)), 0.0)


def _load(ref, start, end: int):
    """Load a tile of (rows, D) or (rows,); zeros from row `end` on."""
    inside = start + jnp.arange(_BLOCK) < end
    rows = pallas.ds(start, _BLOCK)
    if len(ref.shape) == 1:
        return triton.load(ref.at[rows], mask=inside, other=0.0)
    return triton.load(ref.at[rows, :], mask=inside[:, None], other=0.0)


def _store(ref, x, left):
    """Store the first `left` rows of a tile."""
    inside = jnp.arange(_BLOCK).reshape(-1, *[1] * (x.ndim - 1)) < left
    triton.store(ref, x.astype(ref.dtype), mask=inside)


def _product(x, y):
    return triton.dot(x, y, allow_tf32=False)


def _attention_kernel(sizes, inputs, outputs):
    """Compute the contexts of a block of queries, their highest scores and softmax's sums."""
    row = pallas.program_id(0) * _BLOCK
    head = pallas.program_id(1) * sizes.head_count + pallas.program_id(2)
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
    context = context * change[:, None] + _product(dropped.astype(value.dtype), value)
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
    _store(outputs["heads"][array].at[:, part, :], x[:, None], end - start)
    outputs["sums"][array][part, :] = jnp.sum(x, 0)[None]


def _tile_gradients(sizes, inputs, head, query, key, value, row, column):
    """Return a tile's probabilities after dropout, and the gradients of scores and contexts."""
    gradient = _load(inputs["gradient"], row, sizes.rows)
    context = _load(inputs["context"], row, sizes.rows)
    highest = _load(inputs["highest"], row, sizes.rows)
    total = _load(inputs["total"], row, sizes.rows)
    total = jnp.where(total > 0, total, 1.0)  # 0 behind the last row

    scores = sizes.scores(query, key, inputs["mask"], row, column)
    probs = jnp.exp(scores - highest[:, None]) / total[:, None]
    dropped = sizes.drop(probs, inputs["seed"], head, row, column)

    mean = jnp.sum(_wide(gradient) * _wide(context), -1)
    of_scores = dropped * _product(gradient, value.T) - probs * mean[:, None]
    of_scores = jnp.where(scores > reference.LOWEST, of_scores * sizes.size**-0.5, 0.0)
    return dropped.astype(query.dtype), of_scores.astype(query.dtype), gradient


def dropout(x, rate: float, seed):
    """See `reference.dropout`; the backward pass draws the mask again, so that none is kept."""
    return _dropout(x, seed, rate) if rate else x


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _dropout(x, seed, rate):
    return reference.dropout(x, rate, seed)


def _dropout_backward(rate, seed, gradient):
    # XLA would see that both masks are equal, and keep one.
    return reference.dropout(gradient, rate, jax.lax.optimization_barrier(seed)), None


_dropout.defvjp(lambda x, seed, rate: (_dropout(x, seed, rate), seed), _dropout_backward)


def linear(x, kernel, bias=None):
    """See `reference.linear`; all products are of two matrices.

    The bias is added in float32, by the kernel that reads y: cuBLAS would need a cast of its own.
    """
    rows = x.reshape(-1, x.shape[-1])
    y = _linear(rows, jnp.asarray(kernel)).reshape(*x.shape[:-1], -1)
    if bias is None:
        return y
    return (_wide(y) + _wide(jnp.asarray(bias))).astype(y.dtype)


@jax.custom_vjp
def _linear(x, kernel):
    return _linear_forward(x, kernel)[0]


def _linear_forward(x, kernel):
    return jnp.matmul(x, kernel.astype(x.dtype)), (x, kernel)


def _linear_backward(residuals, gradient):
    x, kernel = residuals
    of_x = jnp.matmul(gradient, kernel.astype(x.dtype).T)
    return of_x, jnp.matmul(x.T, gradient).astype(kernel.dtype)


_linear.defvjp(_linear_forward, _linear_backward)


def embedding_lookup(table, ids):
    """See `reference.embedding_lookup`; the gradient is added up in one order, see `_add_rows`."""
    if table.shape[0] <= 16:
        return jax_ops.embedding_lookup(table, ids)
    return _lookup_and_table(jnp.asarray(table), ids, table.dtype)[0]


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
    return _add_rows(of_table.astype(rows.dtype), ids.reshape(-1), rows), None


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
    goes_on = (ids[:, :1] == ids[:, -1]) & (blocks[:, None] > blocks)
    earlier = _multiply_exactly(goes_on, sums[:, -1], "float32")[:, None]  # (blocks, 1, H)
    return sums + jnp.where((ids == ids[:, :1])[..., None], earlier, 0.0)


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
    return _multiply_exactly(is_chosen, gradient, gradient.dtype), None


_gather_positions.defvjp(
    lambda x, positions, length: (_gather_positions(x, positions, length), positions),
    _gather_backward,
)


def project_heads(x, kernels, biases):
    """See `reference.project_heads`; products of two matrices."""
    heads = []
    for kernel, bias in zip(kernels, biases, strict=True):
        shape = kernel.shape
        if bias is not None:
            bias = jnp.asarray(bias).reshape(-1)
        y = linear(x, jnp.asarray(kernel).reshape(shape[0], -1), bias)
        heads.append(jnp.moveaxis(y.reshape(*x.shape[:2], *shape[1:]), 2, 1))
    return heads


def layer_norm(x, gamma, beta, epsilon: float):
    """See `reference.layer_norm`; keeps its input, and each row's scale."""
    return _layer_norm(x.reshape(-1, x.shape[-1]), gamma, beta, epsilon).reshape(x.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _layer_norm(x, gamma, beta, epsilon):
    return _layer_norm_forward(x, gamma, beta, epsilon)[0]


def _layer_norm_forward(x, gamma, beta, epsilon):
    rows, width = x.shape
    block = pallas.BlockSpec((_ROWS, width), lambda i: (i, 0))
    vector = pallas.BlockSpec((width,), lambda i: (0,))
    y = pallas.pallas_call(
        functools.partial(_layer_norm_kernel, rows, epsilon),
        grid=(pallas.cdiv(rows, _ROWS),),
        in_specs=[block, vector, vector],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=triton.CompilerParams(num_warps=4),
        interpret=INTERPRETED,
    )(x, gamma, beta)
    return y, (x, gamma, beta)


def _normalized(x, inside, width: int, epsilon: float):
    """Return rows normalized, float32, and what they were multiplied by."""
    x = _wide(x)
    centered = jnp.where(inside, x - jnp.sum(x, -1, keepdims=True) / width, 0.0)
    variance = jnp.sum(jnp.square(centered), -1, keepdims=True) / width
    scale = jax.lax.rsqrt(variance + epsilon)
    return centered * scale, scale


def _layer_norm_kernel(rows, epsilon, x_ref, gamma_ref, beta_ref, y_ref):
    width = x_ref.shape[1]
    columns, inside = _columns(width)
    row = pallas.program_id(0) * _ROWS
    mask = (row + jnp.arange(_ROWS) < rows)[:, None] & inside
    x = _load_rows(x_ref, 0, columns, mask)
    gamma = _wide(_load_vector(gamma_ref, columns))
    beta = _wide(_load_vector(beta_ref, columns))

    unit, _ = _normalized(x, inside, width, epsilon)
    y = (unit * gamma + beta).astype(y_ref.dtype)
    triton.store(y_ref.at[:, columns], y, mask=mask)


def _columns(width: int):
    """Return a slice of as many columns as a power of 2, and which of them there are, (1, H')."""
    padded = pallas.next_power_of_2(width)
    return pallas.ds(0, padded), (jnp.arange(padded) < width)[None, :]


def _load_rows(ref, row, columns, mask):
    return triton.load(ref.at[pallas.ds(row, _ROWS), columns], mask=mask, other=0.0)


def _load_vector(ref, columns):
    inside = jnp.arange(columns.size) < ref.shape[0]
    return triton.load(ref.at[columns], mask=inside, other=0.0)[None, :]


def _layer_norm_backward(epsilon, residuals, gradient):
    x, gamma, beta = residuals
    rows, width = x.shape
    parts = min(_PARTS, pallas.cdiv(rows, _ROWS))
    whole = pallas.BlockSpec((rows, width), lambda i: (0, 0))
    part = pallas.BlockSpec((None, 2, width), lambda i: (i, 0, 0))
    sums = jax.ShapeDtypeStruct((parts, 2, width), "float32")

    of_x, of_vectors = pallas.pallas_call(
        functools.partial(_layer_norm_backward_kernel, epsilon, pallas.cdiv(rows, parts)),
        grid=(parts,),
        in_specs=[whole, pallas.BlockSpec((width,), lambda i: (0,)), whole],
        out_specs=(whole, part),
        out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), sums),
        compiler_params=triton.CompilerParams(num_warps=4),
        interpret=INTERPRETED,
    )(x, gamma, gradient)

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
        mask = (row + jnp.arange(_ROWS) < end)[:, None] & inside
        x = _load_rows(x_ref, row, columns, mask)
        gradient = _wide(_load_rows(gradient_ref, row, columns, mask))
        unit, scale = _normalized(x, inside, width, epsilon)

        of_x = _input_gradient(gradient * gamma, unit, scale, width)
        block_ref = of_x_ref.at[pallas.ds(row, _ROWS), columns]
        triton.store(block_ref, of_x.astype(of_x_ref.dtype), mask=mask)

        return of_gamma + jnp.sum(gradient * unit, 0), of_beta + jnp.sum(gradient, 0)

    zeros = jnp.zeros(columns.size, "float32")
    blocks = pallas.cdiv(count, _ROWS)
    sums = jax.lax.fori_loop(0, blocks, add_rows, (zeros, zeros))
    for index, total in enumerate(sums):
        triton.store(sums_ref.at[pallas.ds(index, 1), columns], total[None, :], mask=inside)


def _input_gradient(of_unit, unit, scale, width: int):
    """Return the gradient of rows that were normalized, given that of their normalized numbers."""
    of_mean = jnp.sum(of_unit, -1, keepdims=True) / width
    of_scale = jnp.sum(of_unit * unit, -1, keepdims=True) / width
    return (of_unit - of_mean - unit * of_scale) * scale


def _wide(x):
    return x.astype("float32")
