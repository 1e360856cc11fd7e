"""A model in two: ids to the embeddings' output, and from there on.

The second part is given the mask of padding: without it, it attends to every token.
"""

import keras

from kbert.graph import names


def embeddings_of(model: keras.Model) -> keras.Model:
    """From token ids and segment ids, int32 (B, S), to hidden state 0, (B, S, H)."""
    ids = [model.get_layer(name).output for name in (names.TOKEN_IDS, names.SEGMENT_IDS)]
    return keras.Model(ids, model.get_layer(names.EMBEDDING_NORM).output)


def after_embeddings(model: keras.Model, output) -> keras.Model:
    """From hidden state 0, (B, S, H), to a tensor of the model's graph, or of a view into it.

    Args:
        model: one that kbert built.
        output: a KerasTensor that depends on no other input; or a list of them.

    Returns:
        A model that shares the weights; its `call` takes `mask=`, bool (B, S), True for real
        tokens.
    """
    return keras.Model(model.get_layer(names.EMBEDDING_NORM).output, output)
