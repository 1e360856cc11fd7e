"""Packed rows (`kbert.data.packed_batch`) in a model: differences from one text per row.

Dimensions at line end: R rows, S tokens of a row, B texts, H hidden size.
"""

from collections.abc import Callable

import keras
from keras import ops

from kbert.graph import names
from kbert.model.parts.stateless import stateless, value_of
from kbert.model.told_by_layers import ids_of

HEADS = (names.CLASSIFIER, names.TOKEN_CLASSIFIER)  # outputs that a packed batch has labels for


def check(model, replicas: int) -> None:
    """Raise a ValueError where a model or devices are none that packing is for."""
    if model.inputs[0].shape[1] is not None:
        raise ValueError(
            f"packing needs a model of any length, got one of {model.inputs[0].shape[1]} tokens: "
            "build it with seq_len=None"
        )
    if list(model.output_names) not in ([name] for name in HEADS):
        raise ValueError(
            f"packing must have a model with the output {' or '.join(HEADS)}, got "
            f"{', '.join(model.output_names)}: leave packing out"
        )
    if replicas > 1:
        raise ValueError(
            f"packing must have one device, got {replicas}: give devices=1, or leave packing out"
        )


def within_texts(texts):
    """bool (R, S, S), whether two tokens of a row are of one text, of text numbers (R, S)."""
    return ops.equal(ops.expand_dims(texts, 2), ops.expand_dims(texts, 1))


def first_tokens(x, firsts):
    """Return (B, 1, H): each text's first token; x: (R, S, H)."""
    rows = ops.reshape(x, (-1, ops.shape(x)[-1]))
    return ops.expand_dims(ops.take(rows, firsts, axis=0), 1)


def embeddings(model) -> Callable:
    """Return the embeddings by the graph's own layers, with positions (R, S).

    See `cut_model.Parts`.
    """
    token, place = (model.get_layer(n) for n in (names.TOKEN_EMBEDDING, names.POSITION_EMBEDDING))
    before = keras.Model(ids_of(model), [place.input, token.output[1]])
    after = keras.Model(place.output, model.get_layer(names.EMBEDDING_NORM).output)

    def call(values: dict, *ids_and_positions):
        *ids, positions = ids_and_positions
        x, table = stateless(before, values, ids)
        vectors = ops.cast(value_of(values, place.embeddings), place.compute_dtype)
        x = x + ops.take(vectors, positions + place.first, axis=0)  # (R, S, H)
        return stateless(after, values, [x])[0], table

    return call
