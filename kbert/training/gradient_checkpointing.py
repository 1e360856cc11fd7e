"""Gradient checkpointing: the graph's encoder blocks are computed again in the backward pass.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174). Only the
tensors between blocks are kept. Keras's own (`keras.RematScope`) keeps the input of each layer, and
on TensorFlow its weights would have no gradient here, where they are arguments.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras

from kbert.graph import names
from kbert.model.stateless import stateless
from kbert.ops import keras_internals


class Segment(NamedTuple):
    """A part of a functional model.

    Attributes:
        model: shares the model's layers.
        inputs, outputs: ids of the whole model's symbolic tensors.
        weights: its trainable variables.
        is_block: whether it is an encoder block.
    """

    model: Any
    inputs: list[int]
    outputs: list[int]
    weights: list
    is_block: bool


class SegmentedModel:
    """A functional model as the embeddings, each encoder block, and the heads.

    Args:
        model: with the layer names of `kbert.graph.names`.

    Attributes:
        segments: in order.
    """

    def __init__(self, model: keras.Model):
        layers = {layer.name: layer for layer in model.layers}
        self._states: list[int] = []  # ids of the embeddings' and each block's output
        while (name := names.encoder_output(len(self._states))) in layers:
            self._states.append(id(layers[name].output))
        self._model, self._layers = model, layers
        self.segments = _split(model, self._states)

    def outputs(self, values: dict, inputs: Sequence, checkpoint: Callable) -> list:
        """Return the model's outputs in training.

        Args:
            values: of its variables, by their id.
            inputs: in the model's order.
            checkpoint: returns a function of float tensors whose backward pass computes it again.
        """
        tensors = dict(zip(map(id, self._model.inputs), inputs, strict=True))
        mask = self._mask(dict(zip(self._model.input_names, inputs, strict=True)))
        for segment in self.segments:
            if segment.is_block:
                found = self._checkpointed(checkpoint, segment, values, tensors, mask)
            else:
                found = self._run(segment, values, tensors, mask)
            tensors |= zip(segment.outputs, found, strict=True)
        return [tensors[id(one)] for one in self._model.outputs]

    def _mask(self, inputs: dict):
        # Not the mask that Keras sets on the embeddings: JAX's tensors lose it in a gradient.
        if names.PACKED_TEXTS in inputs:
            of_texts = [None, None, inputs[names.PACKED_TEXTS]]
            return self._layers[names.POSITION_EMBEDDING].compute_mask(of_texts)
        return self._layers[names.TOKEN_EMBEDDING].compute_mask(inputs[names.TOKEN_IDS])[0]

    def _run(self, segment: Segment, values: dict, tensors: dict, mask) -> list:
        """Return a segment's outputs in training, from its inputs among the tensors."""
        given = [tensors[one] for one in segment.inputs]
        masks = [mask if one in self._states else None for one in segment.inputs]
        return stateless(segment.model, values, given, mask=masks)

    def _checkpointed(self, checkpoint, segment: Segment, values: dict, tensors: dict, mask):
        # Weights are arguments: a backend differentiates with respect to these alone.
        states = [one for one in segment.inputs if one in self._states]
        weights = [id(weight) for weight in segment.weights]

        def block(*arguments):
            own = dict(zip([*states, *weights], arguments, strict=True))
            return self._run(segment, values | own, tensors | own, mask)

        arguments = [tensors[one] for one in states] + [values[one] for one in weights]
        return checkpoint(block)(*arguments)


def _split(model: keras.Model, states: Sequence[int]) -> list[Segment]:
    """Cut a functional model after each state."""
    calls = [call for call in keras_internals.calls(model) if call.sources]
    made_by = {id(tensor): call for call in calls for tensor in call.outputs}
    numbers: dict[int, int] = {}  # the segment of each operation, by its id

    def assign(call: keras_internals.Calls | None, number: int) -> None:
        if call and id(call.operation) not in numbers:
            numbers[id(call.operation)] = number
            for tensor in call.inputs:
                assign(made_by.get(id(tensor)), number)

    for number, state in enumerate(states):
        assign(made_by[state], number)
    of_segments: list[list] = [[] for _ in range(len(states) + 1)]
    for call in calls:
        of_segments[numbers.get(id(call.operation), len(states))].append(call)
    segments = []
    for number, own in enumerate(of_segments):
        others = [call for part in of_segments if part is not own for call in part]
        read_later = {id(tensor) for call in others for tensor in call.inputs}
        read_later |= {id(tensor) for tensor in model.outputs}
        made = {id(tensor): tensor for call in own for tensor in call.outputs}
        read = {id(tensor): tensor for call in own for tensor in call.inputs}
        inputs = {key: tensor for key, tensor in read.items() if key not in made}
        outputs = {key: tensor for key, tensor in made.items() if key in read_later}
        if own:
            part = keras_internals.model_between(list(inputs.values()), list(outputs.values()))
            is_block = 0 < number < len(states)
            segments.append(
                Segment(part, list(inputs), list(outputs), part.trainable_variables, is_block)
            )
    return segments
