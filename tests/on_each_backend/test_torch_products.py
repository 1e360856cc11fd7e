"""torch's products by oneDNN: NumPy's numbers and gradients, where they are taken and where not."""

import keras
import numpy as np
import pytest
from numpy.testing import assert_allclose

if keras.backend.backend() != "torch":
    pytest.skip("torch's alone", allow_module_level=True)

import torch

from kbert.model.parts import torch_products

pytestmark = pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()),
    reason="this build of torch has not both libraries",
)
AMD, INTEL = {"cpu_name": "AMD EPYC"}, {"cpu_name": "Intel(R) Xeon(R) Processor @ 2.10GHz"}


@pytest.fixture
def taken(monkeypatch):
    """The shapes of oneDNN's products; taken on any processor, for the smallest."""
    found, multiplied = [], torch_products._by_transposed

    def noted(x, y):
        found.append((*x.shape, y.shape[0]))
        return multiplied(x, y)

    monkeypatch.setattr(torch_products, "_by_transposed", noted)
    monkeypatch.setattr(torch_products, "_is_faster_here", lambda: True)
    monkeypatch.setattr(torch_products, "_SMALLEST", 0)
    return found


def numbers(*shape):
    return np.random.default_rng(len(shape) + shape[-1]).standard_normal(shape)


def single(array):
    return torch.tensor(array, dtype=torch.float32)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("strided", [False, True])
def test_products_and_gradients_equal_numpy(transposed, strided, taken):
    """Of factors and gradients that stand in memory in any order, stretched ones too."""
    x, y = numbers(13, 7), numbers(99, 7) if transposed else numbers(7, 99)
    wanted = numbers(13, 99)
    if strided:
        wanted = np.broadcast_to(wanted[:1], wanted.shape)
    given = [single(x), single(y)]
    if strided:
        given = [one.mT.contiguous().mT for one in given]
    given = [one.requires_grad_() for one in given]
    product = torch_products.product(*given, transposed=transposed)
    of_product = single(wanted[:1]).expand(13, 99) if strided else single(wanted)
    of_x, of_y = torch.autograd.grad(product, given, of_product)
    assert_allclose(product.detach(), x @ (y.T if transposed else y), atol=1e-5)
    assert_allclose(of_x, wanted @ (y if transposed else y.T), atol=1e-5)
    assert_allclose(of_y, wanted.T @ x if transposed else x.T @ wanted, atol=1e-5)
    assert taken == [(13, 7, 99), (13, 99, 7), (99, 13, 7) if transposed else (7, 13, 99)]


def test_gradient_of_a_constant_is_not_computed(taken):
    x, y = single(numbers(13, 7)), single(numbers(7, 99)).requires_grad_()
    torch_products.product(x, y).sum().backward()
    assert taken == [(13, 7, 99), (7, 13, 99)]


@pytest.mark.parametrize(
    ("told", "smallest", "dtype", "batched", "enabled", "expected"),
    [
        (AMD, 13 * 7 * 99, "float32", False, True, True),
        (AMD, 13 * 7 * 99 + 1, "float32", False, True, False),
        (AMD, 0, "bfloat16", False, True, False),
        (AMD, 0, "float64", False, True, False),
        (AMD, 0, "float32", True, True, False),
        (AMD, 0, "float32", False, False, False),
        (INTEL, 0, "float32", False, True, False),
        ({}, 0, "float32", False, True, False),
    ],
)
def test_other_products_are_left_to_torch(
    told, smallest, dtype, batched, enabled, expected, monkeypatch
):
    """Small ones, other types, several at once, where oneDNN is switched off, Intel's own."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: told, raising=False)
    monkeypatch.setattr(torch_products, "_SMALLEST", smallest)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", enabled)
    taken = []
    by = torch_products._by_transposed
    monkeypatch.setattr(torch_products, "_by_transposed", lambda *a: taken.append(1) or by(*a))
    torch_products._is_faster_here.cache_clear()
    x, y = (torch.ones(shape, dtype=getattr(torch, dtype)) for shape in ((13, 7), (7, 99)))
    if batched:
        x, y = x[None], y[None]
    try:
        product = torch_products.product(x, y)
    finally:
        torch_products._is_faster_here.cache_clear()
    assert product.shape[-2:] == (13, 99) and float(product.max()) == 7.0
    assert bool(taken) == expected
