"""torch's products by oneDNN: NumPy's numbers and gradients, where they are taken and where not."""

import keras
import numpy as np
import pytest
from numpy.testing import assert_allclose

if keras.backend.backend() != "torch":
    pytest.skip("torch's alone", allow_module_level=True)

import torch

from kbert.ops import reference
from kbert.ops import torch as operations
from kbert.ops.activations import activation

pytestmark = pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()),
    reason="this build of torch has not both libraries",
)
AMD = {"cpu_name": "AMD EPYC", "avx512_f": True}
ZEN_3 = {"cpu_name": "AMD EPYC", "avx512_f": False}
INTEL = {"cpu_name": "Intel(R) Xeon(R) Processor @ 2.10GHz", "avx512_f": True}


@pytest.fixture
def shapes(monkeypatch):
    """The shapes of oneDNN's products, (rows, in, out)."""
    found, multiply = [], operations.ONEDNN_LINEAR

    def record(x, y, *others):
        found.append((*x.shape, y.shape[0]))
        return multiply(x, y, *others)

    monkeypatch.setattr(operations, "ONEDNN_LINEAR", record)
    return found


@pytest.fixture
def any_product(monkeypatch):
    """oneDNN is taken on any processor, for the smallest product."""
    monkeypatch.setattr(operations, "has_unused_avx512", lambda: True)
    monkeypatch.setattr(operations, "SMALLEST_PRODUCT", 0)


def numbers(*shape):
    return np.random.default_rng(len(shape) + shape[-1]).standard_normal(shape)


def single(array):
    return torch.tensor(array, dtype=torch.float32)


@pytest.mark.usefixtures("any_product")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("strided", [False, True])
def test_products_and_gradients_equal_numpy(transposed, strided, shapes):
    """Of factors and gradients that stand in memory in any order, stretched ones too."""
    x, y = numbers(13, 7), numbers(99, 7) if transposed else numbers(7, 99)
    gradient, bias = numbers(13, 99), numbers(99)
    if strided:
        gradient = np.broadcast_to(gradient[:1], gradient.shape)
    given = [single(x), single(y)]
    if strided:
        given = [one.mT.contiguous().mT for one in given]
    given = [one.requires_grad_() for one in (*given, single(bias))]
    multiply = operations.tied_logits if transposed else operations.linear
    product = multiply(*given)
    of_product = single(gradient[:1]).expand(13, 99) if strided else single(gradient)
    of_x, of_y, of_bias = torch.autograd.grad(product, given, of_product)
    assert_allclose(product.detach(), x @ (y.T if transposed else y) + bias, atol=1e-5)
    assert_allclose(of_x, gradient @ (y if transposed else y.T), atol=1e-5)
    assert_allclose(of_y, gradient.T @ x if transposed else x.T @ gradient, atol=1e-5)
    assert_allclose(of_bias, gradient.sum(0), atol=1e-5)
    assert shapes == [(13, 7, 99), (13, 99, 7), (99, 13, 7) if transposed else (7, 13, 99)]


@pytest.mark.usefixtures("any_product")
def test_gradient_of_a_constant_is_not_computed(shapes):
    x, y = single(numbers(13, 7)), single(numbers(7, 99)).requires_grad_()
    operations.linear(x, y).sum().backward()
    assert shapes == [(13, 7, 99), (7, 13, 99)]


@pytest.mark.usefixtures("any_product")
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "relu"])
def test_dense_without_gradients_equals_its_definition(hidden_act, shapes):
    given = [single(numbers(*shape)) for shape in ((13, 5, 7), (7, 99), (99,))]
    wanted = reference.dense(*given, activation(hidden_act))
    with torch.no_grad():
        assert_allclose(operations.dense(*given, activation(hidden_act)), wanted, atol=1e-5)
    assert shapes == [(13 * 5, 7, 99)]


@pytest.mark.parametrize(
    ("capabilities", "smallest", "dtype", "enabled", "expected"),
    [
        (AMD, 13 * 7 * 99, "float32", True, True),
        (AMD, 13 * 7 * 99 + 1, "float32", True, False),
        (AMD, 0, "bfloat16", True, False),
        (AMD, 0, "float64", True, False),
        (AMD, 0, "float32", False, False),
        (ZEN_3, 0, "float32", True, False),
        (INTEL, 0, "float32", True, False),
        ({}, 0, "float32", True, False),
    ],
)
def test_other_products_are_left_to_torch(
    capabilities, smallest, dtype, enabled, expected, monkeypatch, shapes
):
    """Small ones, other types, where oneDNN is switched off, AMD's without AVX-512, Intel's own."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    monkeypatch.setattr(operations, "SMALLEST_PRODUCT", smallest)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", enabled)
    operations.has_unused_avx512.cache_clear()
    x, y = (torch.ones(shape, dtype=getattr(torch, dtype)) for shape in ((13, 7), (7, 99)))
    try:
        product = operations.linear(x, y)
    finally:
        operations.has_unused_avx512.cache_clear()
    assert product.shape == (13, 99) and float(product.max()) == 7.0
    assert bool(shapes) == expected
