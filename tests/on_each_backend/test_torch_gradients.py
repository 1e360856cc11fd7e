"""torch's own gradients beside numerical ones, and what they keep."""

import keras
import pytest

if keras.backend.backend() != "torch":
    pytest.skip("torch's alone", allow_module_level=True)

import torch
from test_fused_parts import HEADS, engine_of, furthest, gradients_of
from test_fused_parts import batch as batch_of_head
from torch.autograd.graph import saved_tensors_hooks

from kbert.model.parts import torch_gradients, torch_kit, torch_products


def of_the_same_draw(function):
    """gradcheck asks for it many times."""

    def call(*tensors):
        torch.manual_seed(7)
        return function(*tensors)

    return call


def tensors(*shapes, dtype=torch.float64):
    torch.manual_seed(3)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def second_of_block(y, bias, kernel):
    activated = torch.nn.functional.gelu(y + bias)
    return torch_products.product(activated.reshape(-1, 5), kernel).reshape(3, 4, 7)


CASES = {
    "dropped": (lambda x: torch_gradients.dropped(x, 0.4), [(3, 5, 7)]),
    "sum": (lambda *of: torch_gradients.dropped_sum(*of, 0.4), [(3, 4, 7), (7,), (3, 4, 7)]),
    "attended": (lambda *of: torch_gradients.attended(*of, 0.4), [(2, 3, 4, 5), (2, 3, 5, 7)]),
    "recomputed": (torch_gradients.recomputed(second_of_block), [(3, 4, 5), (5,), (5, 7)]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_equal_numerical_ones(name):
    function, shapes = CASES[name]
    assert torch.autograd.gradcheck(of_the_same_draw(function), tensors(*shapes))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients_have_the_types_of_their_arguments(name, dtype):
    function, shapes = CASES[name]
    given = tensors(*shapes, dtype=dtype)
    result = function(*given)
    assert result.dtype == dtype
    of_given = torch.autograd.grad(result.sum(), given)
    assert [(one.dtype, one.shape) for one in of_given] == [(dtype, one.shape) for one in given]


def test_frozen_weights_need_no_gradient():
    y, bias, kernel = tensors((3, 4, 5), (5,), (5, 7))
    again = torch_gradients.recomputed(second_of_block)
    expected = torch.autograd.grad(second_of_block(y, bias, kernel).sum(), y)
    found = torch.autograd.grad(again(y, bias.detach(), kernel.detach()).sum(), y)
    torch.testing.assert_close(found, expected)


def kept(function, *given) -> int:
    """Bytes that stay in memory for the gradient, the arguments' own apart."""
    seen = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(*given)
    assert result.requires_grad
    own = {one.untyped_storage().data_ptr() for one in given}
    return sum(size for place, size in seen.items() if place not in own)


def test_dropout_keeps_one_byte_per_number():
    (x,) = tensors((13, 7, 99), dtype=torch.float32)
    assert kept(lambda x: torch_gradients.dropped(x, 0.1), x) == x.numel()
    bias = torch.zeros(99, requires_grad=True)
    assert kept(lambda *of: torch_gradients.dropped_sum(*of, 0.1), x, bias, x) == x.numel()


def test_attention_keeps_its_probs_and_no_other_values():
    shares, parts = tensors((2, 3, 11, 11), (2, 11, 3, 3, 7), dtype=torch.float32)
    *_, vectors = parts.permute(2, 0, 3, 1, 4).unbind()
    own = shares.numel() + 4 * vectors.numel()
    assert kept(lambda *of: torch_gradients.attended(*of, 0.1), shares, vectors) == own


def test_recomputed_operations_keep_nothing_for_the_gradient(monkeypatch):
    given = tensors((3, 4, 5), (5,), (5, 7))
    again = torch_gradients.recomputed(second_of_block)
    assert kept(second_of_block, *given) > 0
    assert kept(again, *given) == 0
    shapes, multiplied = [], torch_products._multiplied
    monkeypatch.setattr(
        torch_products, "_multiplied", lambda *of: shapes.append(of[0].shape) or multiplied(*of)
    )
    result = again(*given)
    assert torch.equal(result, second_of_block(*given)) and not shapes
    result.sum().backward()
    assert shapes == [(12, 7), (5, 12)]  # of the activated, of the kernel


def test_products_are_computed_when_they_are_read(monkeypatch):
    x, y = tensors((3, 5), (5, 7))
    with torch_products.unread():
        expected = x @ y
        unread = torch_products.product(x, y)
        assert unread.shape == expected.shape and unread.requires_grad
    assert torch.equal(torch_products.product(x, y), expected)
    found = torch.autograd.grad(unread.sum(), [x, y])
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), [x, y]))


@pytest.mark.parametrize(
    "head",
    [head if head == "tokens" else pytest.param(head, marks=pytest.mark.full) for head in HEADS],
)
def test_gradients_with_recomputation_equal_the_layers(head, monkeypatch):
    monkeypatch.setattr(torch_kit, "_LARGE", 0)
    calls, again = [], torch_gradients.recomputed
    monkeypatch.setattr(
        torch_gradients, "recomputed", lambda function: calls.append(head) or again(function)
    )
    found = engine_of(head).gradients(batch_of_head(head), 0)
    assert calls and furthest(gradients_of(head, fused=False), found) < 2e-5
