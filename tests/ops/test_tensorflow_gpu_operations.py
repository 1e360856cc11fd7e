"""The operations that TensorFlow would take on a GPU equal their definitions, on a CPU here.

JAX's kernels are compared on more shapes in test_jax_gpu_operations.py.
"""

import functools
import importlib.util
import sys

import keras
import numpy as np
import pytest
from helpers.errors import logged
from helpers.gradients import TOLERANCES, compare_operations, to_tensor
from helpers.marks import full

if keras.backend.backend() != "tensorflow":
    pytest.skip("of TensorFlow", allow_module_level=True)
pytest.importorskip("jax")

import tensorflow as tf

from kbert import ops
from kbert.ops import reference, tensorflow_gpu
from kbert.ops import tensorflow as tensorflow_ops
from kbert.ops.jax_gpu import kernel_calls

SEED = np.array([3, 2**31 - 5], "int32")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr(kernel_calls, "INTERPRETED", True)
    tensorflow_gpu.convert.cache_clear()
    yield
    tensorflow_gpu.convert.cache_clear()


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def mask_of(batch: int, queries: int, keys: int):
    """Return bool (B, 1, R, S); the first sequence's queries attend to no key."""
    mask = np.random.default_rng(keys).random((batch, 1, queries, keys)) < 0.6
    mask[0] = False
    return mask


def compare(call, arrays, positions, dtype="float32"):
    """Compare values and gradients of an operation; `call` takes the module of operations first."""
    both = [functools.partial(call, module) for module in (tensorflow_gpu, reference)]
    compare_operations(*both, arrays, positions, dtype)


def attend(ops, query, key, value, mask):
    """With dropout, and the same of its mask: dropped probabilities make other values."""
    return ops.attention(query, key, value, mask, rate=0.3, seed=to_tensor(SEED))


@pytest.mark.full
@pytest.mark.parametrize(("lengths", "dtype"), [((5, 70), "float32"), ((7, 7), "bfloat16")])
def test_attention_with_dropout_equals_reference(lengths, dtype):
    queries, keys = lengths
    arrays = [floats(2, 3, length, 16) for length in (queries, keys, keys)]
    compare(attend, [*arrays, mask_of(2, queries, keys)], [0, 1, 2], dtype)


def project_and_attend(ops, queries, x, *parameters):
    kernels, biases = parameters[:3], parameters[3:] or [None] * 3
    return ops.self_attention(x, kernels, biases, queries=queries)


@pytest.mark.parametrize(
    ("size", "with_biases"),
    [
        pytest.param(16, True, marks=pytest.mark.full),
        pytest.param(16, False, marks=pytest.mark.full),
        (12, True),  # heads that no kernel has: TensorFlow's own
    ],
)
def test_self_attention_equals_reference(size, with_biases):
    """The bias of keys has no gradient, only what rounding leaves."""
    arrays = [floats(2, 3, 24), floats(2, 7, 24), *(floats(24, 3, size) / 5 for _ in range(3))]
    arrays += [floats(3, size) for _ in range(3)] if with_biases else []
    with ops.compile_for("gpu"):
        compare(project_and_attend, arrays, [*range(5), *([5, 7] if with_biases else [])])


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_linear_equals_reference(dtype):
    arrays = [floats(13, 7, 12), floats(12, 5), floats(5)]
    compare(lambda ops, *given: ops.linear(*given), arrays, [0, 1, 2], dtype)
    compare(lambda ops, *given: ops.linear(*given), arrays[:2], [0, 1], dtype)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", full("bfloat16")])
def test_layer_norm_equals_reference(dtype):
    arrays = [floats(13, 7, 12) + 3, floats(12), floats(12)]
    compare(lambda ops, *given: ops.layer_norm(*given, 1e-2), arrays, [0, 1, 2], dtype)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", full("bfloat16")])
def test_lookups_equal_reference(dtype):
    """Equal ids lie in several blocks of sorted ones; the second table has few rows."""
    ids = np.random.default_rng(3).integers(0, 17, (2, 290)).astype("int32")
    positions = ids[:, :5] % 7

    def look_up(ops, table, small, x):
        both = ops.embedding_lookup_and_table(table, to_tensor(ids), "float32")
        others = [ops.embedding_lookup(one, to_tensor(ids % 3)) for one in (table, small)]
        return [*both, *others, ops.gather_positions(x, to_tensor(positions))]

    arrays = [floats(99, 5), floats(3, 5), floats(2, 7, 12)]
    compare(look_up, arrays, [0, 1, 2], dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_dropout_and_its_gradient_have_the_mask_of_the_reference(dtype):
    def drop(ops, x):
        return ops.dropout(x, 0.3, to_tensor(SEED))

    compare(drop, [floats(13, 7, 12)], [0], dtype)


def test_where_a_size_is_unknown_operations_are_those_of_a_cpu():
    """Keras's `fit` traces a step for batches of any size."""
    x, gamma, beta = floats(13, 7, 12), floats(12), floats(12)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 12])])
    def normalize(x):
        return tensorflow_gpu.layer_norm(x, gamma, beta, 1e-2)

    expected = reference.layer_norm(to_tensor(x), to_tensor(gamma), to_tensor(beta), 1e-2)
    np.testing.assert_allclose(normalize(x), expected, atol=2e-5)
    assert not [one for one in _operations(normalize.get_concrete_function()) if "Xla" in one]


def _operations(function) -> set:
    """Return the types of the operations of a graph and of the functions that it calls."""
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for one in graph.library.function for node in one.node_def)]
    return {node.op for node in nodes}


def test_gpu_selects_these_operations():
    with ops.compile_for("gpu"):
        assert ops.attention is tensorflow_gpu.attention
        assert ops.cross_entropy.__module__ == "kbert.ops.tensorflow"
        assert ops.keep_mask.__module__ == "kbert.ops.reference"


@pytest.mark.parametrize(
    ("lacks", "says"),
    [
        ("jax", "pip install jax"),
        ("jax2tf", "jax.experimental.jax2tf"),
        ("a GPU", "No FFI handler"),  # this machine has none, so that a kernel for one does not run
    ],
)
def test_without_jax_or_its_kernels_operations_are_tensorflows(lacks, says, monkeypatch):
    """One line says why."""
    monkeypatch.setattr(kernel_calls, "INTERPRETED", False)
    monkeypatch.setattr(ops, "find_device", lambda: "gpu")
    if lacks == "jax":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    if lacks == "jax2tf":  # as in another version of JAX
        monkeypatch.delitem(sys.modules, "kbert.ops.tensorflow_gpu")
        monkeypatch.delattr("jax.experimental.jax2tf")
        monkeypatch.setitem(sys.modules, "jax.experimental.jax2tf", None)
    for one in (ops.select, ops.has_jax_kernels):
        monkeypatch.setattr(ops, one.__name__, functools.cache(one.__wrapped__))
    with logged(says) as messages:
        assert ops.attention is tensorflow_ops.attention
        assert ops.layer_norm is tensorflow_ops.layer_norm
    assert len(messages) == 1
