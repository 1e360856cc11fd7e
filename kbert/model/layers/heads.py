"""The layers of the heads that Keras does not have, and the view of the attention weights.

Dimensions at line end: B batch, S sequence, M predicted positions, H hidden size, A heads,
T vocabulary. Masks and ids out of range: as in `kbert.model.layers.encoder`.
"""

import keras
from keras import ops

from kbert import ops as kops
from kbert.model.layers.encoder import nan_where_out_of_range

_register = keras.saving.register_keras_serializable("kbert")


class Maskless(keras.layers.Layer):
    """A layer that takes masked inputs and whose output has no mask."""

    def compute_mask(self, inputs, mask=None):
        return None


@_register
class Extract(Maskless):
    """One element of an axis, 1 or the last: the first token by default."""

    def __init__(self, index=0, axis=1, **kwargs):
        super().__init__(**kwargs)
        self.index = index
        self.axis = axis

    def call(self, x):
        if self.axis == 1:
            return x[:, self.index]
        return x[..., self.index]

    def compute_output_shape(self, input_shape):
        shape = list(input_shape)
        del shape[self.axis]
        return tuple(shape)

    def get_config(self):
        return super().get_config() | {"index": self.index, "axis": self.axis}


@_register
class Slice(Maskless):
    """Positions `start` to `stop` of a sequence, without `stop`; None: to the sequence's end."""

    def __init__(self, start=0, stop=None, **kwargs):
        super().__init__(**kwargs)
        self.start = start
        self.stop = stop

    def call(self, x):
        return x[:, self.start : self.stop]  # (B, R, H)

    def compute_output_shape(self, input_shape):
        batch, length, *width = input_shape
        stop = length if self.stop is None else self.stop
        if stop is None:
            return (batch, None, *width)
        return (batch, stop - self.start, *width)

    def get_config(self):
        return super().get_config() | {"start": self.start, "stop": self.stop}


@_register
class GatherFirsts(keras.layers.Layer):
    """The hidden state of each packed text's first token, (N, 1, H), with that token's own mask.

    Its inputs are [float (B, S, H), int32 (N,)], where N texts begin in the rows end to end.
    """

    def call(self, inputs):
        return self._take(*inputs)

    def compute_mask(self, inputs, mask=None):
        if not mask or mask[0] is None:
            return None
        return self._take(mask[0], inputs[1])  # (N, 1, S)

    def _take(self, x, firsts):
        width = x.shape[-1] or ops.shape(x)[-1]
        tokens = ops.reshape(x, (-1, width))
        indices = ops.cast(firsts, "int32")
        chosen = ops.take(tokens, indices, axis=0)
        return ops.expand_dims(chosen, 1)

    def compute_output_shape(self, input_shape):
        return (None, 1, input_shape[0][-1])


@_register
class Gather(Maskless):
    """The hidden states at some positions, (B, M, H), for an MLM head that predicts few of them.

    With `first` those of position 0 come before the others: (B, 1 + M, H). Masks of each token's
    own (B, S, S) are gathered, too.

    Call arguments:
        inputs: [float (B, S, H), int32 positions (B, M)].
        training: True leaves the check of the positions out.
    """

    def __init__(self, first=False, **kwargs):
        super().__init__(**kwargs)
        self.first = first

    def call(self, inputs, training=None):
        x, positions = inputs
        positions = self._list_positions(positions)
        states = kops.gather_positions(x, positions)  # (B, M, H)
        if training:
            return states
        length = ops.shape(x)[1]
        return states + nan_where_out_of_range(positions, length, states.dtype)

    def compute_mask(self, inputs, mask=None):
        if not mask or mask[0] is None or len(mask[0].shape) < 3:
            return None
        positions = self._list_positions(inputs[1])
        return ops.take_along_axis(mask[0], ops.expand_dims(positions, 2), axis=1)  # (B, M, S)

    def _list_positions(self, positions):
        positions = ops.cast(positions, "int32")
        return ops.pad(positions, [(0, 0), (1, 0)]) if self.first else positions

    def compute_output_shape(self, input_shape):
        x, (batch, count) = input_shape
        return (batch, count + self.first, x[-1])

    def get_config(self):
        config = super().get_config()
        if self.first:
            config["first"] = True
        return config


@_register
class EmbeddingSimilarity(keras.layers.Layer):
    """Logits (B, S, T): product of (B, S, H) with the token table (T, H), plus a learned bias."""

    def build(self, input_shape):
        vocab_size = input_shape[1][0]
        self.bias = self.add_weight(shape=(vocab_size,), initializer="zeros", name="bias")

    def call(self, inputs):
        x, table = inputs
        return kops.tied_logits(x, table, self.bias)  # (B, S, T)

    def compute_mask(self, inputs, mask=None):
        return mask[0] if mask else None

    def compute_output_shape(self, input_shape):
        shape_of_states, shape_of_table = input_shape
        return (*shape_of_states[:-1], shape_of_table[0])


@_register
class Masked(keras.layers.Layer):
    """A layer that adds a mask to logits, so that Keras averages losses and metrics over it.

    A position counts if it is marked (not 0) and is not padding, as in keras_bert. With the
    gathered MLM head the marks are the positions themselves: 0, the [CLS] token, is never predicted
    and pads a batch.

    Call arguments:
        inputs: [float (B, S, T), int32 marks (B, S)].
    """

    def call(self, inputs):
        # A tensor of its own (no copy once compiled): Keras does not replace the mask of a tensor
        # that has one already.
        expanded = ops.expand_dims(inputs[0], 0)
        return ops.squeeze(expanded, 0)

    def compute_mask(self, inputs, mask=None):
        if isinstance(inputs[1], keras.KerasTensor):
            return None

        marked = ops.not_equal(inputs[1], 0)
        padding = mask[0] if mask else None
        if padding is None or len(padding.shape) > 2:  # masks of attention, of packed rows
            return marked
        return ops.logical_and(marked, padding)

    def compute_output_shape(self, input_shape):
        return input_shape[0]


class _OfAttention(Maskless):
    """Shows something of a `MultiHeadAttention` that it shares; for looking, not for training."""

    def __init__(self, attention, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention

    def get_config(self):
        config = keras.saving.serialize_keras_object(self.attention)
        return super().get_config() | {"attention": config}

    @classmethod
    def from_config(cls, config):
        attention = keras.saving.deserialize_keras_object(config.pop("attention"))
        return cls(attention, **config)


@_register
class AttentionWeights(_OfAttention):
    """Its weights."""

    def call(self, x, mask=None):
        return self.attention.attention_weights(x, mask)  # (B, A, S, S)

    def compute_output_shape(self, input_shape):
        batch, length, _ = input_shape
        return (batch, self.attention.num_heads, length, length)


@_register
class QueriesAndKeys(_OfAttention):
    """Its queries and keys."""

    def call(self, x, mask=None):
        query = self.attention.query_dense(x)  # (B, S, A, D), as the key
        key = self.attention.key_dense(x)
        return [query, key]

    def compute_output_shape(self, input_shape):
        batch, length, _ = input_shape
        heads = self.attention.num_heads
        shape = (batch, length, heads, self.attention.key_dim)
        return [shape, shape]
