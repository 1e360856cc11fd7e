"""Models that share a built model's weights: hidden states, attention, parts, more outputs."""

from collections.abc import Sequence

import keras

from kbert.graph import names
from kbert.model.bert_model import BertModel
from kbert.model.layers.heads import AttentionWeights, QueriesAndKeys
from kbert.model.summary import ids_of


def build_hidden_states(model: keras.Model, *, blocks: Sequence[int] | None = None) -> BertModel:
    """Build a model that outputs the hidden states of `model`. The weights are shared.

    Args:
        blocks: indices of the hidden states: 0 is the output of the embeddings, 1 … L those of the
            encoder blocks, −1 the last. None: all, from 0 to L.

    Returns:
        A functional model with the inputs Input-Token and Input-Segment and one output per index,
        float (B, S, H), named after its layer.

    Raises:
        ValueError: a block that the model does not have.
    """
    states = [
        model.get_layer(names.encoder_output(block)).output
        for block in _chosen(model, blocks, first=0)
    ]
    return BertModel(ids_of(model), states, name=f"{model.name}_hidden_states", spec=None)


def build_attention_maps(
    model: keras.Model, *, blocks: Sequence[int] | None = None, vectors: bool = False
) -> BertModel:
    """Build a model that outputs the attention probabilities of `model`. The weights are shared.

    Args:
        blocks: the encoder blocks, 1 … L; −1 is the last. None: all.
        vectors: whether to output each block's queries and keys too.

    Returns:
        A functional model with the inputs Input-Token and Input-Segment and one output per block,
        float (B, A, S, S): for each head, how much each token (row) attends to each token (column).
        With `vectors` each block's queries and keys follow, float (B, S, A, D) with D = H/A; the
        probabilities are softmax(q·k/√D).

    Raises:
        ValueError: a block that the model does not have.
    """
    maps, of_vectors = [], []
    for block in _chosen(model, blocks, first=1):
        attention = model.get_layer(names.encoder(block, names.ATTENTION))
        before = model.get_layer(names.encoder_output(block - 1)).output
        policy, name = attention.dtype_policy, attention.name
        maps.append(AttentionWeights(attention, dtype=policy, name=f"{name}-Weights")(before))
        if vectors:
            of_vectors += QueriesAndKeys(attention, dtype=policy, name=f"{name}-Vectors")(before)
    inputs, outputs = ids_of(model), [*maps, *of_vectors]
    return BertModel(inputs, outputs, name=f"{model.name}_attention_maps", spec=None)


def _chosen(model, blocks: Sequence[int] | None, first: int) -> list[int]:
    suffix = f"-{names.ATTENTION}"
    last = sum(layer.name.endswith(suffix) for layer in model.layers)
    if not last:
        raise ValueError(
            f"model must be one that kbert built, got {model.name!r}: no encoder block"
        )
    if blocks is not None and (not isinstance(blocks, Sequence) or not blocks):
        raise ValueError(f"blocks must be a list of block numbers such as [-1], got {blocks!r}")
    if blocks is None:
        return list(range(first, last + 1))
    chosen = [last + 1 + block if block < 0 else block for block in blocks]
    for asked, block in zip(blocks, chosen, strict=True):
        if not first <= block <= last:
            raise ValueError(
                f"blocks must be {first} … {last} or −1 … {first - last - 1}, got {asked}"
            )
    return chosen


def embeddings_of(model: keras.Model) -> keras.Model:
    """Return the part from the ids, int32 (B, S), to hidden state 0, float (B, S, H)."""
    return keras.Model(ids_of(model), model.get_layer(names.EMBEDDING_NORM).output)


def after_embeddings(model: keras.Model, output) -> keras.Model:
    """Return the part from hidden state 0, (B, S, H), to a tensor of the model or of a view of it.

    Its `call` takes `mask=`, bool (B, S), True for real tokens; without it, it attends to every
    token. The output may depend on no other input, nor on the token table.
    """
    return keras.Model(model.get_layer(names.EMBEDDING_NORM).output, output)


def map_layers(student: int, teacher: int) -> list[tuple[int, int]]:
    """Map each hidden state of a student to one of the teacher: TinyBERT's uniform map.

    g(m) = m · N/M (Jiao et al. 2020, section 3.2) for M and N encoder blocks, from the embeddings'
    output, 0, to the last; rounded where M does not divide N.
    """
    return [(m, (2 * m * teacher + student) // (2 * student)) for m in range(student + 1)]


def with_states(model: keras.Model, blocks: list[int], width: int) -> BertModel:
    """Return the model with hidden states as outputs after its own, as wide as a teacher's.

    They are float (B, S, width), named by `kbert.graph.names.taught_state`. Where the widths differ
    each goes through a learned projection of its own, which ends with the training.
    """
    states = []
    for block in blocks:
        layer = model.get_layer(names.encoder_output(block))
        options = {"name": names.taught_state(block), "dtype": layer.dtype_policy}
        as_wide = layer.output.shape[-1] == width
        new = keras.layers.Identity(**options) if as_wide else keras.layers.Dense(width, **options)
        states.append(new(layer.output))
    return BertModel(model.inputs, [*model.outputs, *states], name=model.name, spec=None)
