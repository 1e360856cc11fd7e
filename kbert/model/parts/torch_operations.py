"""The operations of Keras that the fused parts use, by torch itself.

Keras looks for symbolic tensors in the arguments of each call. Where nothing is compiled, these
looks are a hundredth of a step of MiniLM.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional


def reshape(x, shape: Sequence[int]):
    """Do what `keras.ops.reshape` does."""
    return x.reshape(shape)


def cast(x, dtype):
    """Do what `keras.ops.cast` does; the dtype is torch's or a name."""
    return x.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)


def concatenate(tensors: Sequence, axis: int):
    """Do what `keras.ops.concatenate` does."""
    return torch.cat(list(tensors), axis)


def expand_dims(x, axis: int):
    """Do what `keras.ops.expand_dims` does."""
    return x.unsqueeze(axis)


def shape(x) -> tuple[int, ...]:
    """Do what `keras.ops.shape` does."""
    return tuple(x.shape)


def one_hot(ids, classes: int, dtype):
    """Do what `keras.ops.one_hot` does, for ids 0 … classes − 1."""
    return functional.one_hot(torch.as_tensor(ids).long(), classes).to(dtype)
