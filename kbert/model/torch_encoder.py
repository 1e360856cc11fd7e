"""The encoder of a model on torch on a CPU, by the fused parts: larger and faster products."""

from collections.abc import Callable

import keras
import torch

from kbert.graph import names
from kbert.model.made_of_states import made_of
from kbert.model.parts import fused_parts, layer_types, torch_kit
from kbert.model.told_by_layers import ids_of
from kbert.ops.devices import device_names


def is_for(model: keras.Model) -> bool:
    """Return whether it is faster for a model here and computes the same numbers as its layers."""
    computed = {layer.compute_dtype for layer in model.layers if layer.weights}
    return computed == {"float32"} and device_names() == ["CPU"] and fused_parts.fits(model)


def fused(model: keras.Model, view: keras.Model) -> Callable:
    """Return a function of int32 ids (B, S) and segments that gives what `view` does.

    Args:
        model: from `kbert.model.builder`, see `is_for`; its weights are read at each call.
        view: a model whose outputs are made of the hidden states of `model`.

    Returns:
        A function of NumPy arrays; its outputs are a list of arrays.
    """
    parts, count = fused_parts.FusedParts(torch_kit, training=False), layer_types.blocks(model)
    embeddings = parts.embeddings(model)
    blocks = [parts.block(model, number) for number in range(1, count + 1)]
    states = [model.get_layer(names.encoder_output(n)).output for n in range(count + 1)]
    heads, weights = made_of(states, view.outputs), model.weights
    padding, inputs = model.get_layer(names.TOKEN_EMBEDDING).compute_mask, len(ids_of(model))

    def call(*ids):
        with torch.no_grad():
            values = {id(weight): weight.value for weight in weights}
            given = [keras.ops.convert_to_tensor(array) for array in ids[:inputs]]
            mask, _ = padding(given[0])
            found = [embeddings(values, *given)[0]]
            for block in blocks:
                found.append(block(values, found[-1], mask))
            return [output.numpy() for output in heads(found, mask)]

    return call
