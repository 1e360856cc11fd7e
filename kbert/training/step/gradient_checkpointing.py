"""Gradient checkpointing: the graph's encoder blocks are computed again in the backward pass.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174). Only the
tensors between blocks are kept. Keras's own (`keras.RematScope`) keeps the input of each layer, and
on TensorFlow its weights would have no gradient here, where they are arguments.
"""

import itertools
from collections.abc import Callable

import keras

from kbert.graph import names
from kbert.model.stateless import call_stateless
from kbert.ops import keras_internals


class SegmentedModel:
    """A functional model as the embeddings, each encoder block, and the heads."""

    def __init__(self, model: keras.Model):
        self._layers = {layer.name: layer for layer in model.layers}
        self._input_names = model.input_names
        states = self._find_states()
        self._states = _list_ids(states)
        self._outputs = _list_ids(model.outputs)

        cut = keras_internals.model_between
        inputs = model.inputs
        self._embeddings = cut(inputs, states[:1])
        self.blocks = []
        for before, after in itertools.pairwise(states):
            self.blocks.append(cut([before, *inputs], [after]))
        # listed once: Keras walks through all layers each time
        self._weights = [_list_ids(block.trainable_variables) for block in self.blocks]
        of_heads = [output for output in model.outputs if id(output) not in self._states]
        self._heads = None
        if of_heads:
            self._heads = cut([*states, *inputs], of_heads)
        self._of_heads = _list_ids(of_heads)

    def _find_states(self) -> list:
        """Return the graph's embeddings and the output of each encoder block."""
        states: list = []
        name = names.encoder_output(0)
        while name in self._layers:
            states.append(self._layers[name].output)
            name = names.encoder_output(len(states))
        return states

    def outputs(self, values: dict, inputs: list, checkpoint: Callable) -> list:
        """Return the model's outputs in training, from its variables' values by id."""
        named = dict(zip(self._input_names, inputs, strict=True))
        mask = self._mask(named)
        input_masks = [None] * len(inputs)

        states = call_stateless(self._embeddings, values, inputs)
        weights_of_blocks = zip(self.blocks, self._weights, strict=True)
        for block, weights in weights_of_blocks:

            def run(state, *arrays, block=block, weights=weights):
                known = values | dict(zip(weights, arrays, strict=True))
                block_inputs = [state, *inputs]
                masks = [mask, *input_masks]
                return call_stateless(block, known, block_inputs, mask=masks)

            # Weights are arguments: a backend differentiates with respect to these alone.
            arrays = [values[weight] for weight in weights]
            checkpointed_run = checkpoint(run)
            states += checkpointed_run(states[-1], *arrays)

        outputs = dict(zip(self._states, states, strict=True))
        if self._heads:
            state_masks = [mask] * len(states)
            masks = state_masks + input_masks
            head_inputs = [*states, *inputs]
            of_heads = call_stateless(self._heads, values, head_inputs, mask=masks)
            outputs |= zip(self._of_heads, of_heads, strict=True)
        return [outputs[output] for output in self._outputs]

    def _mask(self, inputs: dict):
        # Not the mask that Keras sets on the embeddings: JAX's tensors lose it in a gradient.
        if names.PACKED_TEXTS in inputs:
            layer = self._layers[names.POSITION_EMBEDDING]
            texts = inputs[names.PACKED_TEXTS]
            return layer.compute_mask([None, None, texts])

        layer = self._layers[names.TOKEN_EMBEDDING]
        mask, _ = layer.compute_mask(inputs[names.TOKEN_IDS])
        return mask


def _list_ids(objects) -> list[int]:
    return [id(item) for item in objects]
