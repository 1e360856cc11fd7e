"""The layers of embeddings and encoder that Keras does not have, small parts first.

Dimensions at line end: B batch, S sequence, H hidden size, A heads,
D = H/A, F feed-forward size, T vocabulary.

Masks. Token ids equal to the padding token are masked by `TokenEmbedding`. The mask exists only at
run time (`compute_mask` is None for a symbolic input): a symbolic one would put rows into the
summary that keras_bert's does not have. It travels on the tensors, through every layer, to the
attention of each block.

Ids out of range. At inference an id that a table does not have becomes NaN (or the backend's own
error), on every backend; with `training=True` the check is left out.
"""

from collections.abc import Mapping
from types import MappingProxyType

import keras
from keras import ops

from kbert import ops as kops
from kbert.model.layers.quantized import refuse_quantized
from kbert.ops import activations, composed, keras_internals

_register = keras.saving.register_keras_serializable("kbert")


def nan_where_out_of_range(ids, size: int, dtype: str):
    """Zeros in the shape (…, 1), with NaN where one of `ids`, (…), is not in 0 … size − 1."""
    ids = ops.cast(ids, "int32")  # `size` may be more than a narrower type can hold
    inside = ops.logical_and(ids >= 0, ids < size)
    zero = ops.cast(0, dtype)
    nan = ops.cast(float("nan"), dtype)
    numbers = ops.where(inside, zero, nan)
    return ops.expand_dims(numbers, -1)


@_register
class Embedding(keras.layers.Embedding):
    """A look-up table, int32 (B, S) to (B, S, H).

    At inference an id that it does not have is an error of the backend (torch, and TensorFlow on a
    CPU), or becomes NaN (JAX, XLA, and TensorFlow on a GPU). `training=True` leaves the check out.
    """

    def add_weight(self, *args, **kwargs):
        # Keras would cast the whole table before the look-up, and add gradients up in bfloat16.
        return super().add_weight(*args, autocast=False, **kwargs)

    def call(self, ids, training=None):
        ids = ops.cast(ids, "int32")
        table = ops.convert_to_tensor(self.embeddings)
        embeddings = kops.embedding_lookup(table, ids)  # (B, S, H)
        x = ops.cast(embeddings, self.compute_dtype)
        if training:
            return x
        return x + nan_where_out_of_range(ids, self.input_dim, x.dtype)

    def compute_output_spec(self, ids, training=None):
        return super().compute_output_spec(ids)


@_register
class TokenEmbedding(Embedding):
    """Token vectors (B, S, H), and the table itself (T, H) for `EmbeddingSimilarity`.

    Masks the tokens `pad_token_id`. Ids that the table does not have: as in `Embedding`.
    """

    def __init__(self, input_dim, output_dim, pad_token_id=0, **kwargs):
        super().__init__(input_dim, output_dim, **kwargs)
        self.pad_token_id = pad_token_id
        self.supports_masking = True  # Keras's Embedding sets it to mask_zero

    def call(self, ids, training=None):
        ids = ops.cast(ids, "int32")
        table = ops.convert_to_tensor(self.embeddings)
        x, table = kops.embedding_lookup_and_table(table, ids, self.compute_dtype)
        if not training:
            x = x + nan_where_out_of_range(ids, self.input_dim, x.dtype)
        return [x, table]

    def compute_mask(self, ids, mask=None):
        if isinstance(ids, keras.KerasTensor):
            return None  # no row in the summary; see the module's docstring
        return [ops.not_equal(ids, self.pad_token_id), None]

    def compute_output_spec(self, ids, training=None):
        shape = (self.input_dim, self.output_dim)
        table = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return [super().compute_output_spec(ids), table]

    def get_config(self):
        return super().get_config() | {"pad_token_id": self.pad_token_id}


@_register
class Add(keras.layers.Add):
    """Keras's Add, except that the mask stays if an input has none, as segments have."""

    def compute_mask(self, inputs, mask=None):
        for mask_of_input in mask or ():
            if mask_of_input is not None:
                return mask_of_input
        return None


@_register
class PositionEmbedding(keras.layers.Layer):
    """Adds a learned embedding per position (the paper, section 3, "Input/Output Representations").

    Of packed rows it takes the tokens' positions within their texts and their text numbers too, and
    sets the attention mask: each token attends to the tokens of its own text.

    Args:
        input_dim, output_dim, embeddings_initializer: of the table, as of Keras's `Embedding`.
        first: the row that a sequence's first token gets; RoBERTa's begin behind the padding's.

    Call arguments:
        inputs: float (B, S, H); or [(B, S, H), int32 positions (B, S), int32 text numbers (B, S)].

    Raises:
        ValueError: a sequence longer than the rows from `first` on.
    """

    def __init__(self, input_dim, output_dim, embeddings_initializer="uniform", first=0, **kwargs):
        super().__init__(**kwargs)
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.first = first
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            shape=(self.input_dim, self.output_dim),
            initializer=self.embeddings_initializer,
            name="embeddings",
            autocast=False,  # as in `Embedding`
        )

    def call(self, inputs, training=None):
        if isinstance(inputs, (list, tuple)):
            x, positions, _text_numbers = inputs  # the last are for `compute_mask`
            positions = ops.cast(positions, "int32") + self.first
            table = ops.convert_to_tensor(self.embeddings)
            y = kops.embedding_lookup(table, positions)
            return x + ops.cast(y, x.dtype)

        x = inputs
        length = x.shape[1]
        if length is not None and length > self.longest:
            raise ValueError(
                f"a sequence must have at most {self.longest} tokens (max_position_embeddings), "
                f"got {length}: cut it"
            )

        end = self.first + ops.shape(x)[1]
        if training and keras.backend.backend() == "tensorflow":
            # A look-up has a sparse gradient, a slice a dense one. If all gradients are dense,
            # Keras's optimizer registers a gradient function with TensorFlow in each `fit`,
            # and TensorFlow keeps that function for ever, and with it the model.
            positions = ops.arange(self.first, end)
            table = ops.convert_to_tensor(self.embeddings)
            y = kops.embedding_lookup(table, positions)
        else:
            y = self.embeddings[self.first : end]
        return x + ops.cast(y, x.dtype)  # (B, S, H)

    @property
    def longest(self) -> int:
        """The tokens of the longest sequence."""
        return self.input_dim - self.first

    def compute_mask(self, inputs, mask=None):
        if not isinstance(inputs, (list, tuple)):
            return mask
        texts = inputs[2]
        if isinstance(texts, keras.KerasTensor):
            return None  # see the module's docstring

        texts_of_queries = ops.expand_dims(texts, 2)
        texts_of_keys = ops.expand_dims(texts, 1)
        return ops.equal(texts_of_queries, texts_of_keys)  # (B, S, S)

    def compute_output_shape(self, input_shape):
        return _shapes(input_shape)[0]

    def get_config(self):
        config = super().get_config() | {
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
        if self.first:
            config["first"] = self.first
        return config


# Keras's own arguments that `MultiHeadAttention` has no use for, and the values that ask nothing of
# it; a layer that was built saves the axes that it found.
_DONE_BY_ATTENTION = {
    "output_shape": (None,),
    "attention_axes": (None, 1, (1,), [1]),
    "sliding_window": (None,),
    "flash_attention": (None,),
    "use_gate": (False,),
}
_NO_ADAPTERS: Mapping[str, keras.layers.Layer] = MappingProxyType({})


def _add_adapter(layer, name: str, x, y, training=None):
    """Add what the layer's adapter of a matrix makes of x to the product y; y without one."""
    adapter = layer.adapters.get(name)
    if adapter is None:
        return y
    change = adapter(x, training=training)
    return y + change


@_register
class MultiHeadAttention(keras.layers.MultiHeadAttention):
    """Self-attention: Keras's layer and weights, with one input and a mask that survives.

    Keras's own call clears the mask on the tensor it was given, so the residual Add finds none
    and every later block attends to padding. Here padding is left out as a key, and the mask goes
    on. Kernels are (H, A, D): the heads stand side by side.

    Args:
        as of `keras.layers.MultiHeadAttention`. What this layer does not do is refused: another
        `value_dim` than `key_dim`, `output_shape`, `attention_axes`, `sliding_window`,
        `flash_attention`, `use_gate`.

    Call arguments:
        inputs: float (B, S, H); or [(B, S, H), queries (B, R, H)], positions that alone attend; or
            these and int32 (N,), the first tokens of packed texts (`GatherFirsts`), whose queries
            are (N, 1, H).
        mask: of each input, as Keras fills it in. Of x: bool (B, S), True for tokens to attend to,
            or (B, S, S), of each token's own in its row; None: all. Of queries: bool (N, R, S).
        training: True applies dropout to the attention weights.

    Attributes:
        adapters: LoRA adapters by the names of their matrices, see `kbert.model.lora`.

    Returns:
        (B, S, H); in the shape of the queries where there are some.
    """

    adapters = _NO_ADAPTERS

    def __init__(self, num_heads, key_dim, value_dim=None, **kwargs):
        done = _DONE_BY_ATTENTION | {"value_dim": (key_dim, None)}
        arguments = {"value_dim": value_dim, **kwargs}
        for name, value in arguments.items():
            if name in done and value not in done[name]:
                raise ValueError(
                    f"{name} must be {done[name][0]!r}: kbert's MultiHeadAttention is plain "
                    f"self-attention, got {value!r}: use keras.layers.MultiHeadAttention"
                )
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        _check_rate(self, self.dropout)

    def build(self, input_shape):
        shape = _shapes(input_shape)[0]
        super().build(shape, shape)
        for dense in self._projections():
            dense.supports_masking = True  # else each warns that it drops the mask

    def call(self, inputs, mask=None, training=None):
        x, queries, firsts = _split_inputs(inputs)
        if queries is not None:
            mask = _choose_mask(mask)
        mask = _expand_mask(mask)
        rate = self.dropout if training else 0.0
        seed = keras_internals.attention_seed(self) if rate else None

        has_extras = firsts is not None or self.adapters
        if not has_extras and self._has_plain_projections():
            # one operation, of which the backends have faster versions
            kernels, biases = self._kernels_and_biases()
            context = kops.self_attention(x, kernels, biases, mask, rate, seed, queries)
            return self._project_context(context, x.shape[-1], training)

        query, key, value = self._project(x, queries, training)  # (B, A, S, D) each
        if firsts is not None:
            length = ops.shape(x)[1]
            examples = ops.cast(firsts, "int32") // length
            key = ops.take(key, examples, axis=0)  # (N, A, S, D)
            value = ops.take(value, examples, axis=0)
        context = kops.attention(query, key, value, mask, rate, seed)
        return self._project_context(context, x.shape[-1], training)

    def _projections(self) -> tuple:
        return self.query_dense, self.key_dense, self.value_dense

    def _has_plain_projections(self) -> bool:
        return all(keras_internals.is_plain(dense) for dense in self._projections())

    def _kernels_and_biases(self) -> tuple[list, list]:
        kernels = [ops.convert_to_tensor(dense.kernel) for dense in self._projections()]
        biases = [dense.bias for dense in self._projections()]
        return kernels, biases

    def _project(self, x, queries=None, training=None) -> list:
        """Return query (B, A, R, D), key and value (B, A, S, D)."""
        inputs = [x if queries is None else queries, x, x]
        if self._has_plain_projections():
            kernels, biases = self._kernels_and_biases()
            heads = composed.project_inputs(x, kernels, biases, queries)
        else:
            heads = []
            for dense, array in zip(self._projections(), inputs, strict=True):
                product = dense(array)  # (B, S, A, D)
                heads.append(ops.transpose(product, (0, 2, 1, 3)))

        for n, name in enumerate(("query", "key", "value")):
            adapter = self.adapters.get(name)
            if adapter is not None:
                change = adapter(inputs[n], training=training)  # (B, S, A·D)
                change = self._split_heads(change)
                change = ops.transpose(change, (0, 2, 1, 3))
                heads[n] = heads[n] + change
        return heads

    def _project_context(self, context, width: int, training):
        """Return (B, S, H) of contexts (B, S, A·D)."""
        dense = self.output_dense
        if keras_internals.is_plain(dense):
            kernel = ops.convert_to_tensor(dense.kernel)
            kernel = ops.reshape(kernel, (-1, width))
            y = kops.linear(context, kernel, dense.bias)
        else:
            contexts_of_heads = self._split_heads(context)
            y = dense(contexts_of_heads)
        return _add_adapter(self, "attention_output", context, y, training)

    def _split_heads(self, x):
        """Return (B, S, A·D) as (B, S, A, D)."""
        batch, length = ops.shape(x)[:2]
        return ops.reshape(x, (batch, length, self.num_heads, self.key_dim))

    def attention_weights(self, x, mask=None):
        """Compute the attention probabilities of `call`: float (B, A, S, S), rows sum to 1."""
        query, key, _ = self._project(x)
        return kops.attention_probs(query, key, _expand_mask(mask))

    def get_config(self):
        """Return Keras's configuration; raise a ValueError if the layer is quantized."""
        refuse_quantized([self])
        return super().get_config()

    def compute_mask(self, inputs, mask=None):
        return None if isinstance(inputs, (list, tuple)) else mask

    def compute_output_shape(self, input_shape):
        return _shapes(input_shape)[:2][-1]  # of the queries, where there are some

    def compute_output_spec(self, inputs, mask=None, training=None):
        x = inputs[1] if isinstance(inputs, (list, tuple)) else inputs
        return keras.KerasTensor(x.shape, dtype=self.compute_dtype)


def _split_inputs(inputs) -> tuple:
    """Return attention's x, queries and first tokens; None for those that are not given."""
    if not isinstance(inputs, (list, tuple)):
        return inputs, None, None
    queries = inputs[1] if len(inputs) > 1 else None
    firsts = inputs[2] if len(inputs) > 2 else None
    return inputs[0], queries, firsts


def _choose_mask(masks):
    """Return the mask of the queries; if they have none, that of x."""
    if not masks:
        return None
    of_x, of_queries = masks[:2]
    return of_x if of_queries is None else of_queries


def _shapes(input_shape) -> list:
    """Return the shapes of the inputs, of one or of several."""
    several = bool(input_shape) and isinstance(input_shape[0], (list, tuple))
    return list(input_shape) if several else [input_shape]


def _expand_mask(mask):
    """Return bool (B, S) as (B, 1, 1, S); (B, S, S) as (B, 1, S, S)."""
    if mask is None:
        return None
    axes = (1, 2) if len(mask.shape) == 2 else 1
    return ops.expand_dims(mask, axes)


def _check_rate(layer, rate: float) -> None:
    """Raise a ValueError for a dropout rate with a scale, 1 / (1 - rate), beyond the dtype."""
    if rate == 1 or (layer.compute_dtype == "float16" and rate > 1 - 2**-15):
        raise ValueError(
            f"{layer.name}: a dropout rate must be below 1, and in float16 at most 0.99996, "
            f"got {rate}"
        )


@_register
class Dropout(keras.layers.Dropout):
    """Keras's layer and settings, by `kbert.ops.dropout`; `rate` must be below 1."""

    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(rate, noise_shape, seed, **kwargs)
        _check_rate(self, self.rate)

    def call(self, x, training=None):
        if not training or self.rate == 0:
            return x
        seed = self.seed_generator.next()
        return kops.dropout(x, self.rate, seed)


@_register
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer, settings and weights, by `kbert.ops.layer_norm`."""

    def call(self, x):
        gamma = ops.convert_to_tensor(self.gamma)
        beta = ops.convert_to_tensor(self.beta)
        return kops.layer_norm(x, gamma, beta, self.epsilon)


@_register
class FeedForward(keras.layers.Layer):
    """Two dense layers with an activation between (the paper's code: intermediate, output).

    `units` is the width between the two, F; `hidden_act` and `adapters` are as in `BertConfig` and
    `MultiHeadAttention`.
    """

    adapters = _NO_ADAPTERS

    def __init__(self, units, hidden_act="gelu", kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.hidden_act = hidden_act
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        function = activations.activation(self.hidden_act)
        self.intermediate_dense = self._dense(self.units, function, "intermediate")
        self.output_dense = self._dense(input_shape[-1], None, "output")
        self.intermediate_dense.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.units))

    def _dense(self, units, function, name):
        # A copy of the initializer: one instance would give both kernels the same numbers.
        initializer = self.kernel_initializer.clone()
        return keras.layers.Dense(
            units=units,
            activation=function,
            kernel_initializer=initializer,
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, x, training=None):
        x = self._apply_intermediate(x, training)  # (B, S, F)

        dense = self.output_dense
        if keras_internals.is_plain(dense):
            kernel = ops.convert_to_tensor(dense.kernel)
            y = kops.linear(x, kernel, dense.bias)  # (B, S, H)
        else:
            y = dense(x)
        return _add_adapter(self, "output", x, y, training)

    def _apply_intermediate(self, x, training):
        dense = self.intermediate_dense
        has_adapter = "intermediate" in self.adapters
        if not keras_internals.is_plain(dense):
            if has_adapter:  # it adds before the activation
                raise ValueError(
                    f"{self.name}: a LoRA adapter needs a plain intermediate_dense, got one that "
                    "is quantized, regularized or replaced: leave out one of the two"
                )
            return dense(x)

        kernel = ops.convert_to_tensor(dense.kernel)
        if not training and not has_adapter:
            return kops.dense(x, kernel, dense.bias, dense.activation)
        product = kops.linear(x, kernel)
        y = _add_adapter(self, "intermediate", x, product, training)
        return kops.bias_activation(y, dense.bias, dense.activation)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        """Return the arguments; raise a ValueError if the layer is quantized."""
        refuse_quantized([self])
        return super().get_config() | {
            "units": self.units,
            "hidden_act": self.hidden_act,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
