"""A model in two: ids to the embeddings' output, and from there on.

The second part is given the mask of padding: without it, it attends to every token.
"""

from collections.abc import Callable

import keras

from kbert.graph import names
from kbert.model.told_by_layers import ids_of


def embeddings_of(model: keras.Model) -> keras.Model:
    """From token ids and, where there are segments, their ids, int32 (B, S), to hidden state 0.

    That is (B, S, H).
    """
    return keras.Model(ids_of(model), model.get_layer(names.EMBEDDING_NORM).output)


def with_table(model: keras.Model) -> tuple[keras.Model, Callable]:
    """`embeddings_of`, with the token table (T, H) as a second output, and what follows on both."""
    before = embeddings_of(model)
    table = model.get_layer(names.TOKEN_EMBEDDING).output[1]
    tensors = [before.outputs[0], table]
    return keras.Model(before.inputs, tensors), lambda outputs: keras.Model(tensors, outputs)


def after_embeddings(model: keras.Model, output) -> keras.Model:
    """From hidden state 0, (B, S, H), to a tensor of the model's graph, or of a view into it.

    Args:
        model: one that kbert built.
        output: a KerasTensor that depends on no other input, nor on the token table.

    Returns:
        A model that shares the weights; its `call` takes `mask=`, bool (B, S), True for real
        tokens.
    """
    return keras.Model(model.get_layer(names.EMBEDDING_NORM).output, output)
