"""A functional model as its embeddings, each encoder block, and its heads.

Blocks that are alike are traced once, as a function of their weights: TensorFlow then traces base's
first and last block, in place of twelve.

Gradient checkpointing computes the blocks again in the backward pass, and keeps only the tensors
between them: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174).
Keras's own (`keras.RematScope`) keeps the input of each layer, and on TensorFlow its weights would
have no gradient here, where they are arguments.
"""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass

import keras

from kbert.graph import names
from kbert.model.stateless import call_stateless
from kbert.ops import keras_internals


@dataclass(frozen=True, eq=False)
class Block:
    """An encoder block of a model, as a function of its variables.

    Attributes:
        functions: compute a block like this one, in training (True) or not; see `_make_function`.
        weights: ids of the variables that are trained.
        others: ids of its other variables: weights that are not trained, and dropout's seeds.
    """

    functions: dict[bool, Callable]
    weights: list[int]
    others: list[int]


def has_blocks(model: keras.Model) -> bool:
    """Return whether a functional model has the encoder blocks of kbert's graph."""
    layer_names = {layer.name for layer in model.layers}
    return names.encoder_output(1) in layer_names


class SegmentedModel:
    """The parts of a functional model.

    Args:
        trace: returns a function of tensors that is traced once, as `Backend.trace`.
        own_names: whether each block is traced for itself, so that its operations have the names of
            its own layers, for a profile; else all have those of the first block.
    """

    def __init__(self, model: keras.Model, trace: Callable, own_names: bool = False):
        self._layers = {layer.name: layer for layer in model.layers}
        self._input_names = model.input_names
        states = self._find_states()
        self._states = _list_ids(states)
        self._outputs = _list_ids(model.outputs)

        cut = keras_internals.model_between
        inputs = model.inputs
        self._embeddings = cut(inputs, states[:1])
        models = [cut([before, *inputs], [after]) for before, after in itertools.pairwise(states)]
        self.blocks = _make_blocks(models, trace, own_names)
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

    def outputs(
        self, values: dict, inputs: list, training: bool, checkpoint: Callable | None = None
    ) -> list:
        """Return the model's outputs, from its variables' values by id.

        `checkpoint` is that of the backend; without it the blocks' activations are kept.
        """
        named = dict(zip(self._input_names, inputs, strict=True))
        mask = self._mask(named)
        input_masks = [None] * len(inputs)

        states = call_stateless(self._embeddings, values, inputs, training)
        for block in self.blocks:

            def run(state, *weights, block=block):
                others = [values[variable] for variable in block.others]
                function = block.functions[training]
                return function(state, inputs, mask, list(weights), others)

            # Weights are arguments: a backend differentiates with respect to these alone.
            weights = [values[weight] for weight in block.weights]
            called = checkpoint(run) if checkpoint else run
            states += called(states[-1], *weights)

        outputs = dict(zip(self._states, states, strict=True))
        if self._heads:
            state_masks = [mask] * len(states)
            masks = state_masks + input_masks
            head_inputs = [*states, *inputs]
            of_heads = call_stateless(self._heads, values, head_inputs, training, mask=masks)
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


def _make_blocks(models: list, trace: Callable, own_names: bool) -> list[Block]:
    """Return the blocks of models; those that are alike have one function, but for `own_names`."""
    functions_of_kinds: dict[str, dict] = {}
    blocks = []
    for model in models:
        kind = model.name if own_names else _describe(model)
        if kind not in functions_of_kinds:
            functions = {}
            for training in (True, False):
                functions[training] = trace(_make_function(model, training))
            functions_of_kinds[kind] = functions
        weights = _list_ids(model.trainable_variables)
        others = _list_ids(model.non_trainable_variables)
        blocks.append(Block(functions_of_kinds[kind], weights, others))
    return blocks


def _make_function(model, training: bool) -> Callable:
    """Return a function of a block's input, the model's inputs, the mask, and the variables."""
    weights = _list_ids(model.trainable_variables)  # listed once: Keras walks through all layers
    others = _list_ids(model.non_trainable_variables)

    def run(state, inputs, mask, values_of_weights, values_of_others):
        values = dict(zip(weights, values_of_weights, strict=True))
        values |= zip(others, values_of_others, strict=True)
        masks = [mask] + [None] * len(inputs)
        return call_stateless(model, values, [state, *inputs], training, mask=masks)

    return run


def _describe(model) -> str:
    """Return what a block computes, in words that are the same for blocks that are alike."""
    layers = [_describe_layer(layer) for layer in model.layers]
    variables = []
    for variable in [*model.trainable_variables, *model.non_trainable_variables]:
        variables.append([variable.name, list(variable.shape), variable.dtype])
    return json.dumps([layers, variables, len(model.trainable_variables)])


def _describe_layer(layer: keras.Layer) -> list:
    """Return a layer's class, settings and sublayers, as JSON, without the names of a block."""
    attributes = vars(layer)
    try:
        with keras_internals.without_tensorflow():
            config = layer.get_config()
    except NotImplementedError:  # adapters: their scale is what they differ in
        config = {name: value for name, value in attributes.items() if isinstance(value, float)}
    settings = {}
    for name, value in config.items():
        # the seeds of random initializers differ, and initialize nothing here
        if name != "name" and not name.endswith("initializer"):
            settings[name] = str(value)
    if not attributes.keys().isdisjoint(("call", "forward")):  # its own, like no other
        settings["call"] = str(id(layer))

    sublayers = []
    for name, value in attributes.items():
        # adapters are in a dict, by the names of their matrices
        items = value.items() if isinstance(value, dict) else [("", value)]
        for key, item in items:
            if isinstance(item, keras.Layer):
                sublayers.append([name, str(key), _describe_layer(item)])
    kind = type(layer)
    return [kind.__module__, kind.__qualname__, settings, sublayers]


def _list_ids(objects) -> list[int]:
    return [id(item) for item in objects]
