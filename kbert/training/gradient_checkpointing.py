"""Gradient checkpointing: the graph's encoder blocks are computed again in the backward pass.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174). Only the
tensors between blocks are kept. Keras's own (`keras.RematScope`) keeps the input of each layer, and
on TensorFlow its weights would have no gradient here, where they are arguments.
"""

import itertools
from collections.abc import Callable, Mapping

import keras
from keras import ops

from kbert.graph import names
from kbert.ops import keras_internals


def call_stateless(model, values: dict, inputs: list, training: bool = True, **options) -> list:
    """Return a functional model's outputs, from the values of its variables by id."""

    def read(variables) -> list:
        """Return each variable's value in its dtype: the given one, else its own."""
        each = [(one, values.get(id(one))) for one in variables]
        return [one.value if new is None else ops.cast(new, one.dtype) for one, new in each]

    states = read(model.trainable_variables), read(model.non_trainable_variables)
    inputs = inputs if isinstance(model.input, list) else inputs[0]  # as it was built
    outputs = model.stateless_call(*states, inputs, training=training, **options)[0]
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def flatten_sequences(inputs: Mapping) -> dict:
    """Return inputs (B, C, S), of C sequences per example, as (B · C, S); others unchanged."""
    return {
        name: array if len(array.shape) < 3 else ops.reshape(array, (-1, ops.shape(array)[-1]))
        for name, array in inputs.items()
    }


class SegmentedModel:
    """A functional model as the embeddings, each encoder block, and the heads."""

    def __init__(self, model: keras.Model):
        self._layers = {layer.name: layer for layer in model.layers}
        states: list = []
        while (name := names.encoder_output(len(states))) in self._layers:
            states.append(self._layers[name].output)
        cut, inputs = keras_internals.model_between, model.inputs
        self._embeddings = cut(inputs, states[:1])
        pairs = itertools.pairwise(states)
        self.blocks = [cut([before, *inputs], [after]) for before, after in pairs]
        # listed once: Keras walks through all layers each time
        self._weights = [list(map(id, block.trainable_variables)) for block in self.blocks]
        self._states, self._outputs = list(map(id, states)), list(map(id, model.outputs))
        of_heads = [one for one in model.outputs if id(one) not in self._states]
        self._heads = cut([*states, *inputs], of_heads) if of_heads else None
        self._of_heads, self._input_names = list(map(id, of_heads)), model.input_names

    def outputs(self, values: dict, inputs: list, checkpoint: Callable) -> list:
        """Return the model's outputs in training, from its variables' values by id."""
        mask = self._mask(dict(zip(self._input_names, inputs, strict=True)))
        masks = [None] * len(inputs)
        states = call_stateless(self._embeddings, values, inputs)
        for block, weights in zip(self.blocks, self._weights, strict=True):

            def run(state, *own, block=block, weights=weights):
                known = values | dict(zip(weights, own, strict=True))
                return call_stateless(block, known, [state, *inputs], mask=[mask, *masks])

            # Weights are arguments: a backend differentiates with respect to these alone.
            states += checkpoint(run)(states[-1], *(values[one] for one in weights))
        outputs = dict(zip(self._states, states, strict=True))
        if self._heads:
            masks = [mask] * len(states) + masks
            of_heads = call_stateless(self._heads, values, [*states, *inputs], mask=masks)
            outputs |= zip(self._of_heads, of_heads, strict=True)
        return [outputs[one] for one in self._outputs]

    def _mask(self, inputs: dict):
        # Not the mask that Keras sets on the embeddings: JAX's tensors lose it in a gradient.
        if names.PACKED_TEXTS in inputs:
            of_texts = [None, None, inputs[names.PACKED_TEXTS]]
            return self._layers[names.POSITION_EMBEDDING].compute_mask(of_texts)
        return self._layers[names.TOKEN_EMBEDDING].compute_mask(inputs[names.TOKEN_IDS])[0]
