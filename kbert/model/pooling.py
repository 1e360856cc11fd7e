"""From the vectors of a text's tokens to one vector, as a part of the graph."""

import keras
from keras import ops

from kbert.graph import names
from kbert.model.bert_model import BertModel
from kbert.model.layers.heads import Extract, Maskless
from kbert.model.probes import build_hidden_states


class TokenPooling(Maskless):
    """One vector of the tokens that are not padding, as sentence-transformers' Pooling has it.

    Args:
        how: "mean", "max", "cls" (the first token), "lasttoken", "weightedmean" (by the position,
            from 1) or "mean_sqrt_len_tokens" (the sum over the root of the number of tokens).
        skip: how many tokens at the beginning are left out, those of a prompt; positions count
            from the text's beginning nevertheless.

    Call arguments:
        x: float (B, S, H).
        mask: bool (B, S), True for real tokens; Keras fills it in.

    Returns:
        (B, H).
    """

    def __init__(self, how, skip=0, **kwargs):
        super().__init__(**kwargs)
        self.how = how
        self.skip = skip

    def call(self, x, mask=None):
        real = ops.ones_like(x[..., :1]) if mask is None else ops.expand_dims(mask, -1)
        real = ops.cast(real, x.dtype)
        positions = ops.cumsum(ops.ones_like(x[..., :1]), axis=1)
        if self.skip:
            real = real * ops.cast(positions > self.skip, x.dtype)
        if self.how == "max":
            return ops.max(ops.where(ops.cast(real, "bool"), x, float("-inf")), axis=1)
        if self.how == "cls":
            real = ops.cast(positions == self.skip + 1, x.dtype)
        elif self.how == "lasttoken":
            last = ops.max(real * positions, axis=1, keepdims=True)
            real = ops.cast(positions == last, x.dtype)
        elif self.how == "weightedmean":
            real = real * positions
        total = ops.sum(real, axis=1)
        if self.how == "mean_sqrt_len_tokens":
            total = ops.sqrt(total)
        return ops.sum(x * real, axis=1) / total

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[2])


def build_vectors(model: keras.Model, pooling, layers: int = 1, dense=(), skip: int = 0):
    """Build a model from Input-Token and Input-Segment to one vector per text; shares the weights.

    Args:
        pooling: one of `kbert.checkpoints.sentence_settings.POOLINGS`, or a tuple of several.
        layers: for "last", how many hidden states stand side by side, the last one last.
        dense: `kbert.checkpoints.sentence_settings.SentenceDense`, layers after the pooling.
        skip: tokens at a text's beginning that are not pooled.

    Returns:
        A functional model; output (B, H), for "last" (B, layers · H), for several poolings (B,
        poolings · H), with dense layers as many as the last one has outputs.
    """
    blocks = list(range(-layers, 0)) if pooling == "last" else [-1]
    states = build_hidden_states(model, blocks=blocks)
    if pooling == "last":
        vectors = [TokenPooling("mean", skip)(state) for state in states.outputs]
    else:
        several = (pooling,) if isinstance(pooling, str) else pooling
        vectors = [_pool(model, states.outputs[0], how, skip) for how in several]
    vector = keras.layers.Concatenate()(vectors) if len(vectors) > 1 else vectors[0]
    for weights in dense:
        vector = _dense(weights, vector)
    return BertModel(states.inputs, vector, spec=None)


def _pool(model, state, how: str, skip: int):
    if how == "pooler":
        return model.get_layer(names.POOLER).output
    return Extract()(state) if how == "cls" and not skip else TokenPooling(how, skip)(state)


def _dense(weights, vector):
    has_bias = weights.bias is not None
    layer = keras.layers.Dense(weights.shape[1], weights.activation, use_bias=has_bias)
    output = layer(vector)
    layer.set_weights([weights.kernel, weights.bias][: 1 + has_bias])
    return output
