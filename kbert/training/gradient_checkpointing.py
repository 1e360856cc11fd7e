"""Gradient checkpointing: the graph's encoder blocks are computed again in the backward pass.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174). Only the
tensors between blocks are kept. Keras's own (`keras.RematScope`) keeps the input of each layer, and
on TensorFlow its weights would have no gradient here, where they are arguments.
"""

import itertools
from collections.abc import Callable, Sequence

import keras

from kbert.graph import names
from kbert.model.stateless import stateless
from kbert.ops import keras_internals


class Segment:
    """A part of a functional model.

    Args:
        inputs, outputs: symbolic tensors of the whole model.
        is_block: whether it is an encoder block.

    Attributes:
        model: shares the whole model's layers.
        inputs, outputs, weights: ids of the tensors and of its trainable variables.
    """

    def __init__(self, inputs: Sequence, outputs: Sequence, is_block: bool):
        self.model = keras_internals.model_between(inputs, outputs)
        self.inputs, self.outputs = list(map(id, inputs)), list(map(id, outputs))
        self.weights = list(map(id, self.model.trainable_variables))
        self.is_block = is_block


class SegmentedModel:
    """A functional model as the embeddings, each encoder block, and the heads.

    Args:
        model: with the layer names of `kbert.graph.names`.

    Attributes:
        segments: in order.
    """

    def __init__(self, model: keras.Model):
        layers = {layer.name: layer for layer in model.layers}
        states: list = []
        while (name := names.encoder_output(len(states))) in layers:
            states.append(layers[name].output)
        self._model, self._layers, self._states = model, layers, list(map(id, states))
        self.segments = [Segment(model.inputs, states[:1], False)]
        for before, after in itertools.pairwise(states):
            self.segments.append(Segment([before, *model.inputs], [after], True))
        of_heads = [one for one in model.outputs if id(one) not in self._states]
        if of_heads:
            self.segments.append(Segment([*states, *model.inputs], of_heads, False))

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

        def block(*arguments):
            own = dict(zip([*states, *segment.weights], arguments, strict=True))
            return self._run(segment, values | own, tensors | own, mask)

        arguments = [tensors[one] for one in states] + [values[one] for one in segment.weights]
        return checkpoint(block)(*arguments)
