"""Models that output the hidden states or attention probabilities of a built model."""

from collections.abc import Sequence

import keras

from kbert.graph import names
from kbert.model.bert_model import BertModel
from kbert.model.layers.heads import AttentionWeights, QueriesAndKeys
from kbert.model.told_by_layers import ids_of


def build_hidden_states(model: keras.Model, *, blocks: Sequence[int] | None = None) -> BertModel:
    """Build a model that outputs the hidden states of `model`. The weights are shared.

    Args:
        model: a model that kbert built.
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
        model: a model that kbert built.
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
