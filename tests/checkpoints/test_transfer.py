"""Tensors of a checkpoint become arrays of the model's shapes, number by number."""

import ml_dtypes
import numpy as np
import pytest

from kbert.checkpoints import transfer
from kbert.checkpoints.checkpoint import Tensor
from kbert.checkpoints.weight_names import Entry

_SHAPES = [(99, 7), (7, 99), (16, 48), (48, 13), (768, 3), (33, 17), (1, 1), (0, 5), (5, 0), (13,)]
_KINDS = ["<f4", ">f4", "<f2", "<f8", ml_dtypes.bfloat16]


def _read(array: np.ndarray, outputs_first: bool) -> tuple[np.ndarray, list[str]]:
    tensor = Tensor("t", array.shape, str(array.dtype), lambda: array)
    entry = Entry("t", array.shape, outputs_first, "layer", "kernel")
    not_finite: list[str] = []
    return transfer.read_array(tensor, entry, not_finite), not_finite


@pytest.mark.parametrize("outputs_first", [True, False])
@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("shape", _SHAPES)
def test_transposed_reading_equals_numpy(shape, kind, outputs_first):
    array = np.random.default_rng(7).normal(size=shape).astype(kind)
    array.flags.writeable = False  # as a file that is mapped
    found, not_finite = _read(array, outputs_first)
    expected = array.astype("float32").T if outputs_first else array.astype("float32")
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == "float32" and found.flags.c_contiguous and not not_finite


def test_every_bit_of_a_number_is_kept():
    bits = np.random.default_rng(7).integers(0, 2**32, (99, 31), "uint32")
    bits[3, 5], bits[98, 30] = 0x7F80_0001, 0x8000_0000  # a NaN that signals, minus zero
    found, not_finite = _read(bits.view("float32"), True)
    np.testing.assert_array_equal(found.view("uint32"), bits.T)
    assert not_finite == ["t"]
