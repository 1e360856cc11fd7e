"""Dropout's rate, and the independence of its masks, by statistics."""

import keras
import numpy as np
import pytest
from helpers.errors import raises
from helpers.gradients import to_numpy, to_tensor

from kbert.ops import reference

SHAPE = (61, 127, 33)
COUNT = int(np.prod(SHAPE))


def mask_of(selected, rate: float, seed, shape=SHAPE) -> np.ndarray:
    """Return 1 where a number is kept, else 0."""
    seed = to_tensor(np.array(seed, "int32"))
    return np.sign(to_numpy(selected.dropout(keras.ops.ones(shape), rate, seed)))


def correlation(one, other) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropped_fraction_is_the_rate(rate, selected):
    kept = mask_of(selected, rate, [1, 2])
    deviation = np.sqrt(rate * (1 - rate) / COUNT)
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation + 2**-17
    for axis in range(3):  # and along each axis
        other = tuple({0, 1, 2} - {axis})
        spread = 6 * np.sqrt(rate * (1 - rate) / (COUNT / SHAPE[axis]))
        assert np.abs(kept.mean(other) - (1 - rate)).max() < spread


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_dropout_keeps_the_expected_value(rate, selected):
    dropped = selected.dropout(keras.ops.ones(SHAPE), rate, to_tensor(np.array([1, 2], "int32")))
    assert abs(to_numpy(dropped).mean() - 1) < 5 * np.sqrt(rate / (1 - rate) / COUNT)


@pytest.mark.parametrize("rate", [2**-20, 0.1, 1 - 2**-18])
def test_rate_is_rounded_to_16_bits(rate, selected):
    """The scale is that of the rounded rate; JAX's rate, of 31 bits, is exact."""
    dropped = to_numpy(
        selected.dropout(keras.ops.ones((1000, 1000)), rate, to_tensor(np.array([1, 2], "int32")))
    )
    if keras.backend.backend() != "jax":
        rate = min(round(rate * 2**16), 2**16 - 1) / 2**16
    np.testing.assert_allclose(dropped[dropped > 0], 1 / (1 - rate), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "mixed_float16"])
@pytest.mark.parametrize("kind", ["dropout", "attention"])
def test_rate_with_a_scale_beyond_float16_is_refused(kind, dtype):
    from kbert.model.layers.encoder import Dropout, MultiHeadAttention

    def build(rate):
        if kind == "dropout":
            return Dropout(rate, dtype=dtype)
        return MultiHeadAttention(4, 6, dropout=rate, dtype=dtype)

    layer = build(1 - 2**-15)
    x = 1 + np.arange(5 * 7 * 24, dtype="float32").reshape(5, 7, 24) % 2
    assert np.isfinite(to_numpy(layer(x, training=True))).all()
    for rate in [1.0] if dtype == "float32" else [0.99999, 1.0]:
        with raises(ValueError, "rate", "below 1", "float16", "0.99"):
            build(rate)


def test_masks_of_other_seeds_are_independent(selected):
    seeds = [[1, 2], [2, 2], [1, 3], [2, 1], [1 + 2**16, 2], [2**31 - 1, 2**31 - 1]]
    masks = [mask_of(selected, 0.3, seed) for seed in seeds]
    bound = 5 / np.sqrt(COUNT)
    for number, one in enumerate(masks):
        assert all(abs(correlation(one, other)) < bound for other in masks[:number])


def test_neighbors_in_a_mask_are_independent(selected):
    kept = mask_of(selected, 0.3, [1, 2])
    bound = 5 / np.sqrt(COUNT)
    for axis in range(3):
        assert abs(correlation(*(np.take(kept, n, axis) for n in (range(30), range(1, 31))))) < (
            bound * np.sqrt(SHAPE[axis] / 30)
        )


def test_mask_is_a_function_of_the_seed(selected):
    one, again = (mask_of(selected, 0.3, [7, 11]) for _ in range(2))
    np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.75])
@pytest.mark.parametrize("seed", [[0, 1], [7, 11], [-1, -(2**31)], [2**31 - 1, 2**30]])
def test_keep_mask_equals_numpy_in_uint32(rate, seed):
    """The same bits on three backends: each is compared with NumPy's uint32."""
    found = reference.keep_mask((13, 1027), rate, to_tensor(np.array(seed, "int32")))
    words = keep_words(13 * 1027, np.array(seed, "int32").view("uint32"))
    expected = (words >> 1) >= int(rate * 2**31)
    np.testing.assert_array_equal(to_numpy(found), expected.reshape(13, 1027))


def keep_words(count: int, seed: np.ndarray) -> np.ndarray:
    """Return lowbias32 of the positions, uint32, with the seed in two halves."""
    factors = np.array([0x7FEB352D, 0x7FEB352D, 0x846CA68B], "uint32")
    x = np.arange(count, dtype="uint32") * np.uint32(0x9E3779B9) ^ seed[0]
    x = (x ^ x >> 16) * factors[0] ^ seed[1]
    x = (x ^ x >> 15) * factors[1]
    x = (x ^ x >> 15) * factors[2]
    return x ^ x >> 16
