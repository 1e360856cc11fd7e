"""Concatenation of small weights into one, on TensorFlow.

The call of an XLA program costs more than what it computes for a bias.
"""

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

_SMALL = 1 << 16  # numbers: joining larger ones gains no time, and takes as much memory again


def is_small(weight) -> bool:
    """Return whether a weight is small enough to be worth concatenating with others."""
    return math.prod(weight.shape) <= _SMALL


def move(
    states: Sequence[Sequence[tf.Variable]],
    gradients: Sequence,
    new_moments: Callable,
    new_weight: Callable,
) -> None:
    """Assign weights and their moments, of any shapes, what an optimizer makes of each number.

    Args:
        states: weights, their first and their second moments; float32.
        gradients: of the weights.
        new_moments: of the first and second moment and the gradient, (N,) each: the moments.
        new_weight: of the weight and its new moments, (N,) each: the weight.
    """
    shapes = [weight.shape for weight in states[0]]
    gradient = _as_one(gradients)
    # Not before there are gradients: they would wait beside all that the backward pass keeps.
    with tf.control_dependencies([gradient]):
        weight, *moments = (_as_one(group) for group in states)
    moments = list(new_moments(*moments, gradient))
    new = [new_weight(weight, *moments), *moments]
    for variables, joined in zip(states, new, strict=True):
        parts = tf.split(joined, list(map(math.prod, shapes)))
        for variable, part, shape in zip(variables, parts, shapes, strict=True):
            variable.assign(_shaped(part, shape), read_value=False)


def _as_one(tensors: Sequence):
    return tf.concat([_shaped(one, [-1]) for one in tensors], 0)


def _shaped(x, shape: Sequence[int]):
    """Most of them have one axis: an operation less, of some thousands to trace."""
    return x if len(x.shape) == len(shape) == 1 else tf.reshape(x, shape)
