"""Models that share a built model's weights: hidden states, attention, embeddings, parts."""

from collections.abc import Sequence

import keras
from keras import ops

from kbert.graph import names
from kbert.graph.aliases import answer_old_names
from kbert.model.bert_model import BertModel
from kbert.model.layers.heads import AttentionWeights, Extract, Maskless, QueriesAndKeys
from kbert.model.summary import ids_of


@answer_old_names
def build_hidden_states(model: keras.Model, *, layers: Sequence[int] | None = None) -> BertModel:
    """Build a model that outputs the hidden states of `model`. The weights are shared.

    Args:
        layers: indices of the hidden states: 0 is the output of the embeddings, 1 … L those of the
            encoder blocks, −1 the last. None: all, from 0 to L.

    Returns:
        A functional model with the inputs Input-Token and Input-Segment and one output per index,
        float (B, S, H), named after its layer.

    Raises:
        ValueError: a layer that the model does not have.
    """
    blocks = _choose_blocks(model, layers, first=0)
    layers_of_blocks = [model.get_layer(names.encoder_output(block)) for block in blocks]
    states = [layer.output for layer in layers_of_blocks]
    return BertModel(ids_of(model), states, name=f"{model.name}_hidden_states", spec=None)


@answer_old_names
def build_attention_maps(
    model: keras.Model, *, layers: Sequence[int] | None = None, vectors: bool = False
) -> BertModel:
    """Build a model that outputs the attention probabilities of `model`. The weights are shared.

    Args:
        layers: the encoder blocks, 1 … L; −1 is the last. None: all.
        vectors: whether to output each block's queries and keys too.

    Returns:
        A functional model with the inputs Input-Token and Input-Segment and one output per block,
        float (B, A, S, S): for each head, how much each token (row) attends to each token (column).
        With `vectors` each block's queries and keys follow, float (B, S, A, D) with D = H/A; the
        probabilities are softmax(q·k/√D).

    Raises:
        ValueError: a layer that the model does not have.
    """
    maps = []
    queries_and_keys: list = []
    for block in _choose_blocks(model, layers, first=1):
        attention = model.get_layer(names.encoder(block, names.ATTENTION))
        before = model.get_layer(names.encoder_output(block - 1)).output
        policy = attention.dtype_policy
        show_weights = AttentionWeights(attention, dtype=policy, name=f"{attention.name}-Weights")
        maps.append(show_weights(before))
        if vectors:
            name = f"{attention.name}-Vectors"
            show_vectors = QueriesAndKeys(attention, dtype=policy, name=name)
            queries_and_keys += show_vectors(before)

    outputs = [*maps, *queries_and_keys]
    return BertModel(ids_of(model), outputs, name=f"{model.name}_attention_maps", spec=None)


def _choose_blocks(model, layers: Sequence[int] | None, first: int) -> list[int]:
    suffix = f"-{names.ATTENTION}"
    last = sum(layer.name.endswith(suffix) for layer in model.layers)
    if not last:
        raise ValueError(
            f"model must be one that kbert built, got {model.name!r}: no encoder block"
        )
    if layers is not None and (not isinstance(layers, Sequence) or not layers):
        raise ValueError(f"layers must be a list of numbers such as [-1], got {layers!r}")
    if layers is None:
        return list(range(first, last + 1))

    lowest = first - last - 1
    blocks = []
    for layer in layers:
        if first <= layer <= last:
            blocks.append(layer)
        elif lowest <= layer < 0:
            blocks.append(last + 1 + layer)
        else:
            raise ValueError(f"layers must be {first} … {last} or −1 … {lowest}, got {layer}")
    return blocks


def cut_embeddings(model: keras.Model) -> keras.Model:
    """Return the part from the ids, int32 (B, S), to hidden state 0, float (B, S, H)."""
    norm = model.get_layer(names.EMBEDDING_NORM)
    return keras.Model(ids_of(model), norm.output)


def cut_after_embeddings(model: keras.Model, output) -> keras.Model:
    """Return the part from hidden state 0, (B, S, H), to a tensor of the model or of a view of it.

    Its `call` takes `mask=`, bool (B, S), True for real tokens; without it, it attends to every
    token. The output may depend on no other input, nor on the token table.
    """
    norm = model.get_layer(names.EMBEDDING_NORM)
    return keras.Model(norm.output, output)


def map_layers(student: int, teacher: int) -> list[tuple[int, int]]:
    """Map each hidden state of a student to one of the teacher: TinyBERT's uniform map.

    g(m) = m · N/M (Jiao et al. 2020, section 3.2) for M and N encoder blocks, rounded.
    """
    pairs = []
    for state in range(student + 1):
        # half up: round() would round halves to even numbers
        rounded = (2 * state * teacher + student) // (2 * student)
        pairs.append((state, rounded))
    return pairs


def add_state_outputs(model: keras.Model, blocks: list[int], width: int) -> BertModel:
    """Return the model with hidden states (B, S, width) as outputs after its own.

    If the widths differ, each has a learned projection, which is dropped after training.
    """
    states = []
    for block in blocks:
        layer = model.get_layer(names.encoder_output(block))
        options = {"name": names.hidden_target(block), "dtype": layer.dtype_policy}
        if layer.output.shape[-1] == width:
            projection = keras.layers.Identity(**options)
        else:
            projection = keras.layers.Dense(width, **options)
        states.append(projection(layer.output))
    outputs = [*model.outputs, *states]
    return BertModel(model.inputs, outputs, name=model.name, spec=None)


class TokenPooling(Maskless):
    """One vector (B, H) of the tokens that are not padding, as sentence-transformers' Pooling.

    Args:
        how: "mean", "max", "cls" (the first token), "lasttoken", "weightedmean" (by the position,
            from 1) or "mean_sqrt_len_tokens" (the sum over the root of the number of tokens).
        skip: how many tokens at the beginning are left out, those of a prompt; positions count
            from the text's beginning nevertheless.
    """

    def __init__(self, how, skip=0, **kwargs):
        super().__init__(**kwargs)
        self.how = how
        self.skip = skip

    def call(self, x, mask=None):
        ones = ops.ones_like(x[..., :1])  # (B, S, 1)
        real = ones
        if mask is not None:
            real = ops.expand_dims(mask, -1)
        real = ops.cast(real, x.dtype)
        positions = ops.cumsum(ones, axis=1)
        if self.skip:
            is_text = positions > self.skip
            real = real * ops.cast(is_text, x.dtype)

        if self.how == "max":
            is_real = ops.cast(real, "bool")
            masked = ops.where(is_real, x, float("-inf"))
            return ops.max(masked, axis=1)

        weights = self._weigh_tokens(real, positions)
        total = ops.sum(weights, axis=1)
        if self.how == "mean_sqrt_len_tokens":
            total = ops.sqrt(total)
        weighted_sum = ops.sum(x * weights, axis=1)
        return weighted_sum / total

    def _weigh_tokens(self, real, positions):
        """Return the weights (B, S, 1) of the tokens in the sum."""
        if self.how == "cls":
            return ops.cast(positions == self.skip + 1, real.dtype)
        if self.how == "lasttoken":
            real_positions = real * positions
            last = ops.max(real_positions, axis=1, keepdims=True)
            return ops.cast(positions == last, real.dtype)
        if self.how == "weightedmean":
            return real * positions
        return real

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[2])


def build_pooled(model: keras.Model, pooling, num_layers: int = 1, dense=(), skip: int = 0):
    """Build a model from Input-Token and Input-Segment to one vector per text; shares the weights.

    Args:
        pooling: one of `kbert.checkpoints.sentence_settings.POOLINGS`, or several, side by side.
        num_layers: for "last", how many hidden states stand side by side, the last one last.
        dense: `kbert.checkpoints.sentence_settings.SentenceDense`, layers after the pooling.
        skip: tokens at a text's beginning that are not pooled.
    """
    layers = [-1]
    if pooling == "last":
        layers = list(range(-num_layers, 0))
    states = build_hidden_states(model, layers=layers)

    embeddings = []
    poolings = [pooling] if isinstance(pooling, str) else pooling
    for how in poolings:
        if how == "last":
            for state in states.outputs:
                pool = TokenPooling("mean", skip)
                embeddings.append(pool(state))
        elif how == "pooler":
            pooler = model.get_layer(names.POOLER)
            embeddings.append(pooler.output)
        else:
            takes_first = how == "cls" and not skip
            pool = Extract() if takes_first else TokenPooling(how, skip)
            embeddings.append(pool(states.outputs[0]))

    vector = embeddings[0]
    if len(embeddings) > 1:
        vector = keras.layers.Concatenate()(embeddings)

    for weights in dense:
        vector = _apply_dense(weights, vector)
    return BertModel(states.inputs, vector, spec=None)


def _apply_dense(weights, x):
    """Apply a `kbert.checkpoints.sentence_settings.SentenceDense` as a layer."""
    has_bias = weights.bias is not None
    units = weights.shape[1]
    layer = keras.layers.Dense(units, weights.activation, use_bias=has_bias)
    y = layer(x)
    arrays = [weights.kernel]
    if has_bias:
        arrays.append(weights.bias)
    layer.set_weights(arrays)
    return y
