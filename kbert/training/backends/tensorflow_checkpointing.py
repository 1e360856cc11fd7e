"""Gradient checkpointing on TensorFlow: the backward pass written as a loop over segments.

Not by `tf.recompute_grad`: TensorFlow keeps the gradient function of each trace of it, and with it
the graph and its weights, for as long as the process lives.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from kbert.training.gradient_checkpointing import SegmentedModel


def sums_and_gradients(
    model: SegmentedModel,
    inputs: Sequence,
    weights: Sequence[tf.Tensor],
    values_of: Callable,
    loss_of: Callable,
) -> tuple:
    """Return the loss's sums, and its gradient for each weight, None where there is none.

    Args:
        model: whose segments before the heads are computed twice.
        inputs: in the model's order.
        weights: values of the trained weights.
        values_of: returns the values of all variables, by their id, from the weights.
        loss_of: returns the loss and its sums, from the model's outputs in training.
    """
    blocks = [segment for segment in model.segments[1:] if segment.is_block]
    before, heads = [model.segments[0], *blocks], model.segments[1 + len(blocks) :]
    tensors, values, mask = model.given(inputs), values_of(weights), None
    for segment in before:
        tensors |= zip(segment.outputs, model.run(segment, values, tensors, mask), strict=True)
        mask = mask if segment.is_block else model.mask(tensors)
    total = _Total(len(weights))
    read = [key for segment in heads for key in segment.inputs] + model.results
    read = [key for key in dict.fromkeys(read) if key in tensors and _is_float(tensors[key])]
    with tf.GradientTape() as tape:
        given = [tensors[key] for key in read]
        tape.watch([*weights, *given])
        values, found = values_of(weights), dict(tensors)
        for segment in heads:
            found |= zip(segment.outputs, model.run(segment, values, tensors, mask), strict=True)
        loss, sums = loss_of([found[key] for key in model.results])
    total.add(read, tape.gradient(loss, [*weights, *given]))
    for segment in reversed(before):
        of_outputs = [total.of_tensors.get(key) for key in segment.outputs]
        known = [one for one in of_outputs if one is not None]
        read = [key for key in segment.inputs if _is_float(tensors[key])]
        with tf.GradientTape() as tape:
            given = [_after(known[0], tensors[key]) for key in read]
            with tf.control_dependencies(known):
                own = [tf.identity(weight) for weight in weights]
            tape.watch([*own, *given])
            again = tensors | dict(zip(read, given, strict=True))
            masks = [mask] if segment.is_block else []
            outputs = model.run(segment, values_of(own), again, *masks)
        pairs = zip(outputs, of_outputs, strict=True)
        outputs = [output for output, gradient in pairs if gradient is not None]
        total.add(read, tape.gradient(outputs, [*own, *given], output_gradients=known))
    return sums, total.of_weights


class _Total:
    """Gradients so far, of weights and of tensors by their key."""

    def __init__(self, weights: int):
        self.of_weights: list = [None] * weights
        self.of_tensors: dict = {}

    def add(self, keys: Sequence[int], gradients: Sequence) -> None:
        count = len(self.of_weights)
        pairs = zip(self.of_weights, gradients[:count], strict=True)
        self.of_weights = [_sum(before, new) for before, new in pairs]
        for key, new in zip(keys, gradients[count:], strict=True):
            self.of_tensors[key] = _sum(self.of_tensors.get(key), new)


def _sum(one, other):
    if one is None or other is None:
        return other if one is None else one
    return tf.convert_to_tensor(one) + tf.convert_to_tensor(other)


def _after(gradient, x):
    """Return x, once a gradient is computed; else TensorFlow would take the first computation's."""
    first = tf.reshape(gradient, [-1])[0]
    return x + tf.cast(tf.where(first == first, 0.0, float("nan")), x.dtype)


def _is_float(tensor) -> bool:
    return tensor.dtype.is_floating
