"""The operations that TensorFlow would take on a GPU equal their definitions, on a CPU here."""

import itertools

import keras
import numpy as np
import pytest
from helpers.gradients import to_tensor, values_and_gradients

if keras.backend.backend() != "tensorflow":
    pytest.skip("of TensorFlow", allow_module_level=True)

from kbert import ops
from kbert.ops import reference, tensorflow_gpu

SEED = np.array([3, 2**31 - 5], "int32")
TOLERANCES = {"float32": 2e-5, "float16": 6e-3, "bfloat16": 6e-2}
# (batch, heads, queries, keys, size of a head)
SHAPES = [
    *((1, 1, 1, 2, 16), (2, 1, 7, 7, 3), (13, 3, 7, 7, 5), (3, 2, 16, 16, 32), (2, 3, 63, 63, 1)),
    *((1, 2, 65, 65, 7), (2, 1, 1, 64, 16), (2, 2, 5, 70, 9), (2, 1, 77, 130, 11)),
    *((3, 1, 64, 13, 12),),
]


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def mask_of(kind: str, batch: int, queries: int, keys: int):
    """Return bool (B, 1, 1, S) or (B, 1, R, S); the first sequence's queries attend to no key."""
    if kind == "all":
        return None
    shape = batch, 1, queries if kind == "pairs" else 1, keys
    mask = np.random.default_rng(keys).random(shape) < 0.6
    mask[0] = False
    return mask


def compare(found, expected, arrays, positions, dtype):
    values, gradients = values_and_gradients(found, arrays, positions, dtype)
    other_values, other_gradients = values_and_gradients(expected, arrays, positions, dtype)
    pairs = zip(values + gradients, other_values + other_gradients, strict=True)
    for one, other in pairs:
        assert one.shape == other.shape and np.isfinite(one).all()
        tolerance = TOLERANCES[dtype] * max(1, np.abs(other).max())
        np.testing.assert_allclose(one, other, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("shape", "kind"), list(itertools.product(SHAPES, ("all", "keys", "pairs"))), ids=str
)
def test_attention_with_dropout_equals_reference(shape, kind, dtype):
    """The same mask too: dropped probabilities make other values."""
    batch, heads, queries, keys, size = shape
    arrays = [floats(batch, heads, length, size) for length in (queries, keys, keys)]
    dropout = {"rate": 0.3, "seed": to_tensor(SEED)}

    def attend(ops):
        return lambda *given: ops.attention(*given, **dropout)

    arrays.append(mask_of(kind, batch, queries, keys))
    compare(attend(tensorflow_gpu), attend(reference), arrays, [0, 1, 2], dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_attention_without_dropout_equals_reference(dtype):
    arrays = [*(floats(2, 3, 7, 5) for _ in range(3)), mask_of("keys", 2, 7, 7)]
    compare(tensorflow_gpu.attention, reference.attention, arrays, [0, 1, 2], dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [(13, 7, 12), (2, 51, 48), (1, 1, 128)])
def test_layer_norm_equals_reference(shape, dtype):
    arrays = [floats(*shape) + 3, floats(shape[-1]), floats(shape[-1])]

    def normalize(ops):
        return lambda *given: ops.layer_norm(*given, 1e-2)

    compare(normalize(tensorflow_gpu), normalize(reference), arrays, [0, 1, 2], dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_dropout_and_its_gradient_have_the_mask_of_the_reference(dtype):
    def drop(ops):
        return lambda x: ops.dropout(x, 0.3, to_tensor(SEED))

    compare(drop(tensorflow_gpu), drop(reference), [floats(13, 7, 12)], [0], dtype)


def test_gpu_selects_these_operations():
    with ops.compile_for("gpu"):
        assert ops.attention is tensorflow_gpu.attention
        assert ops.linear.__module__ == "kbert.ops.tensorflow"
        assert ops.keep_mask.__module__ == "kbert.ops.reference"
