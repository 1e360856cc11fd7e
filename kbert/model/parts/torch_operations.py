"""The operations of Keras that the fused parts use, by torch itself.

Keras looks for symbolic tensors in the arguments of each call. Where nothing is compiled, these
looks are a hundredth of an update of MiniLM.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional


def reshape(x, shape: Sequence[int]):
    """As `keras.ops.reshape`."""
    return x.reshape(shape)


def cast(x, dtype):
    """As `keras.ops.cast`; the dtype is torch's or a name."""
    return x.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)


def concatenate(tensors: Sequence, axis: int):
    """As `keras.ops.concatenate`."""
    return torch.cat(list(tensors), axis)


def expand_dims(x, axis: int):
    """As `keras.ops.expand_dims`."""
    return x.unsqueeze(axis)


def shape(x) -> tuple[int, ...]:
    """As `keras.ops.shape`."""
    return tuple(x.shape)


def one_hot(ids, classes: int, dtype):
    """As `keras.ops.one_hot`, of ids 0 … classes − 1."""
    return functional.one_hot(torch.as_tensor(ids).long(), classes).to(dtype)
