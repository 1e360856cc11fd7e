"""The operations that JAX would take on a GPU, interpreted on a CPU, equal their definitions."""

import itertools

import keras
import numpy as np
import pytest
from helpers.marks import full

if keras.backend.backend() != "jax":
    pytest.skip("of JAX", allow_module_level=True)

import jax
import jax.numpy as jnp

from kbert import ops
from kbert.ops import jax_gpu, reference
from kbert.ops.jax_gpu import kernel_calls

pytestmark = pytest.mark.full  # kernels that are interpreted
SEED = np.array([3, 2**31 - 5], "int32")
TOLERANCES = {"float32": 3e-5, "float16": 0.05, "bfloat16": 0.15}
# (batch, heads, queries, keys, size of a head): below, at and above the tiles of 64, odd and even
SHAPES = [
    *(
        (1, 1, 1, 2, 16),
        (2, 1, 7, 7, 16),
        (13, 3, 7, 7, 16),
        (3, 2, 16, 16, 32),
        (2, 3, 63, 63, 16),
    ),
    *((2, 2, 64, 64, 16), (1, 2, 65, 65, 32), (2, 1, 127, 127, 16), (1, 2, 128, 128, 64)),
    *((1, 1, 129, 129, 128), (2, 1, 1, 64, 16), (2, 2, 5, 70, 32), (1, 3, 21, 128, 64)),
    *((2, 1, 77, 130, 16), (3, 1, 64, 13, 16)),
]
# An interpreted kernel takes XLA seconds to compile, so most are left to the night.
ROUNDS = {
    ((1, 2, 65, 65, 32), "pairs"): [],
    ((13, 3, 7, 7, 16), "keys"): [pytest.mark.full],
    ((1, 3, 21, 128, 64), "keys"): [pytest.mark.full],
}
CASES = [
    pytest.param(*case, id=str(case), marks=ROUNDS.get(case, [pytest.mark.nightly]))
    for case in itertools.product(SHAPES, ("keys", "pairs"))
]
random = np.random.default_rng(17)
INITIAL_STATE = random.bit_generator.state


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    random.bit_generator.state = INITIAL_STATE  # whichever tests ran before
    monkeypatch.setattr(kernel_calls, "INTERPRETED", True)
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def floats(*shape, dtype="float32"):
    return jnp.asarray(random.standard_normal(shape), dtype)


def mask_of(kind: str, batch: int, queries: int, keys: int):
    """Return bool (B, 1, 1, S) or (B, 1, R, S); the first sequence's queries attend to no key."""
    mask = random.random((batch, 1, queries if kind == "pairs" else 1, keys)) < 0.6
    mask[0] = False
    return jnp.asarray(mask)


def compare(found, expected, arrays: list, dtype: str) -> None:
    """Compare the values of two functions, and their gradients by all arrays.

    The expected ones are computed in float32 from the same numbers: in 16 bits, the gradient
    of the key bias, which is zero, is made of the definition's own rounding.
    """
    precise = [array.astype("float32") for array in arrays]
    one, of_one = jax.vjp(found, *arrays)
    other, of_other = jax.vjp(expected, *precise)
    gradient = floats(*one.shape, dtype=one.dtype)
    gradients = zip(of_one(gradient), of_other(gradient.astype(other.dtype)), strict=True)
    pairs = [(one, other), *gradients]
    for ours, theirs in pairs:
        ours, theirs = (np.asarray(x, "float32") for x in (ours, theirs))
        assert ours.shape == theirs.shape
        tolerance = TOLERANCES[dtype] * max(1, np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, atol=tolerance)


@pytest.mark.parametrize(("shape", "kind"), CASES)
def test_attention_with_dropout_equals_reference(shape, kind):
    """The same mask too: dropped probabilities make other values."""
    batch, heads, queries, keys, size = shape
    rows = queries, keys, keys
    arrays = [floats(batch, heads, length, size) for length in rows]
    given = mask_of(kind, batch, queries, keys), 0.3, jnp.asarray(SEED)
    compare(
        lambda *arrays: jax_gpu.attention(*arrays, *given),
        lambda *arrays: reference.attention(*arrays, *given),
        arrays,
        "float32",
    )


@pytest.mark.parametrize(
    ("has_bias", "rate", "dtype", "queries"),
    [
        full(True, 0.3, "float32", None),
        full(True, 0.3, "float16", None),
        full(True, 0.3, "bfloat16", 5),
        full(False, 0.0, "float32", 67),
    ],
)
def test_self_attention_equals_reference(has_bias, rate, dtype, queries):
    batch, length, heads, size = 3, 70, 2, 16
    inputs = [floats(batch, one, 13, dtype=dtype) for one in (length, queries) if one]
    weights = [floats(13, heads, size) / 4 for _ in range(3)]
    weights += [floats(heads, size) for _ in range(3)] * has_bias
    dropout = mask_of("keys", batch, length, length), rate, jnp.asarray(SEED)

    def split(arrays):
        x, *given = arrays
        own = given.pop(0) if queries else None
        return x, given[:3], given[3:] or [None] * 3, own

    def expected(*arrays):
        x, kernels, biases, own = split(arrays)
        return reference.self_attention(x, kernels, biases, *dropout, own)

    def found(*arrays):
        x, kernels, biases, own = split(arrays)
        return jax_gpu.self_attention(x, kernels, biases, *dropout, own)

    compare(found, expected, [*inputs, *weights], dtype)


def test_head_of_another_size_equals_reference():
    arrays = [floats(2, 3, 7, 12) for _ in range(3)]
    compare(jax_gpu.attention, reference.attention, arrays, "float32")


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((13, 7, 12), "float32"), ((2, 517, 48), "bfloat16"), ((1, 1, 128), "float32")],
)
def test_layer_norm_equals_reference(shape, dtype):
    arrays = [floats(*shape, dtype=dtype) + 3, floats(shape[-1]), floats(shape[-1])]
    compare(
        lambda *arrays: jax_gpu.layer_norm(*arrays, 1e-2),
        lambda *arrays: reference.layer_norm(*arrays, 1e-2),
        arrays,
        dtype,
    )


def test_linear_and_project_heads_equal_reference():
    x, kernel, bias = floats(13, 7, 12), floats(12, 5), floats(5)
    compare(jax_gpu.linear, reference.linear, [x, kernel, bias], "float32")
    compare(jax_gpu.linear, reference.linear, [x, kernel], "float32")
    weights = [floats(12, 3, 4), floats(3, 4)]

    def values(ops):
        return lambda x, kernel, bias: ops.project_heads(x, [kernel], [bias])[0]

    compare(values(jax_gpu), values(reference), [x, *weights], "float32")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("counts", "tokens"),  # how often each id stands there; ids are added up in blocks of 128
    [([3, 0, 1, 3], 99), ([256, 0, 128, 70], 99), ([1, 300, 2, 129, 78], 99), ([250, 30], 3)],
)
def test_lookups_equal_reference(counts, tokens, dtype):
    table = floats(tokens, 5, dtype=dtype)
    ids = random.permutation(np.repeat(np.arange(len(counts), dtype="int32"), counts))
    ids = jnp.asarray(ids[None])

    def look_up(ops):
        def values(table):
            x, whole = ops.embedding_lookup_and_table(table, ids, "float32")
            return jnp.concatenate([x[0], ops.embedding_lookup(table, ids)[0], whole])

        return values

    compare(look_up(jax_gpu), look_up(reference), [table], dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gathered_positions_equal_reference(dtype):
    positions = jnp.asarray(random.integers(0, 7, (13, 5)), "int32")
    compare(
        lambda x: jax_gpu.gather_positions(x, positions),
        lambda x: reference.gather_positions(x, positions),
        [floats(13, 7, 12, dtype=dtype)],
        dtype,
    )


def test_dropout_and_its_gradient_have_the_mask_of_the_reference():
    x, seed = floats(13, 7, 12), jnp.asarray(SEED)
    compare(
        lambda x: jax_gpu.dropout(x, 0.3, seed),
        lambda x: reference.dropout(x, 0.3, seed),
        [x],
        "float32",
    )


def test_gpu_selects_these_operations():
    with ops.compile_for("gpu"):
        assert ops.self_attention is jax_gpu.self_attention
        assert ops.cross_entropy.__module__ == "kbert.ops.jax"
        assert ops.bias_activation.__module__ == "kbert.ops.reference"
