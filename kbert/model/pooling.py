"""From the vectors of a text's tokens to one vector, as a part of the graph."""

import keras
from keras import ops

from kbert.graph import names
from kbert.model.bert_model import BertModel
from kbert.model.layers import Extract
from kbert.model.probes import build_hidden_states


class TokenPooling(keras.layers.Layer):
    """The mean or the maximum over the tokens that are not padding.

    Args:
        how: "mean" or "max".

    Call arguments:
        x: float (B, S, H).
        mask: bool (B, S), True for real tokens; Keras fills it in.

    Returns:
        (B, H).
    """

    def __init__(self, how, **kwargs):
        super().__init__(**kwargs)
        self.how = how
        self.supports_masking = True

    def call(self, x, mask=None):
        real = ops.ones_like(x[..., :1]) if mask is None else ops.expand_dims(mask, -1)
        if self.how == "max":
            return ops.max(ops.where(ops.cast(real, "bool"), x, float("-inf")), axis=1)
        real = ops.cast(real, x.dtype)
        return ops.sum(x * real, axis=1) / ops.sum(real, axis=1)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[2])


def build_vectors(model: keras.Model, pooling: str, layers: int) -> BertModel:
    """A model from Input-Token and Input-Segment to one vector a text; shares the weights.

    Args:
        model: one that kbert built.
        pooling: one of `kbert.checkpoints.sentence_settings.POOLINGS`.
        layers: for "last", how many hidden states stand side by side, the last one last.

    Returns:
        A functional model; output (B, H), for "last" (B, layers · H).
    """
    blocks = list(range(-layers, 0)) if pooling == "last" else [-1]
    states = build_hidden_states(model, blocks=blocks)
    if pooling == "pooler":
        return BertModel(states.inputs, model.get_layer(names.POOLER).output, spec=None)
    if pooling == "cls":
        return BertModel(states.inputs, Extract()(states.outputs[0]), spec=None)
    pool = TokenPooling("max" if pooling == "max" else "mean")
    vectors = [pool(state) for state in states.outputs]
    joined = keras.layers.Concatenate()(vectors) if len(vectors) > 1 else vectors[0]
    return BertModel(states.inputs, joined, spec=None)
