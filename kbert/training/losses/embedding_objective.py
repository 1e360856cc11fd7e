"""The objective of text embeddings: pooling, truncation, and a loss of the embeddings."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from keras import ops

from kbert.graph.names import TOKEN_IDS
from kbert.model.stateless import flatten_sequences
from kbert.training.losses.embedding_losses import scale_to_unit
from kbert.training.losses.loss import Loss
from kbert.training.losses.table import LOSSES

EMBEDDINGS = "Vectors"  # what an engine calls them among its outputs and labels


@dataclass(frozen=True)
class EmbeddingLoss:
    """A loss of token states: their pooling, and a loss of the embeddings."""

    name: str  # one of `LOSSES`
    columns: int  # C, the number of texts of a record
    width: int  # H, the size of an embedding
    # How token embeddings become one: "mean" or "max" over the tokens that are not padding, or
    # "cls", the first token's.
    pooling: str = "mean"
    normalize: bool = False  # whether embeddings are scaled to length 1
    pad_id: int = 0  # the padding token
    scale: float = 20.0  # of the cosines, the inverse temperature; for infonce and cosent
    margin: float = 5.0  # for triplet
    # Lengths to which embeddings are truncated, each with a loss of its own, all summed
    # (Matryoshka: Kusupati et al. 2022, arXiv 2205.13147, eq. 1, weights of 1); truncated
    # embeddings are scaled to length 1. None: whole embeddings, unchanged.
    dimensions: tuple[int, ...] | None = None

    def pool(self, states, inputs: Mapping):
        """Pool states, float (texts, S, H), to float32 (B, C, H) of records, or (B, H) of texts."""
        token_ids = flatten_sequences(inputs)[TOKEN_IDS]
        is_real = ops.not_equal(token_ids, self.pad_id)
        real = ops.expand_dims(is_real, -1)
        states = ops.cast(states, "float32")

        if self.pooling == "cls":
            embeddings = states[:, 0]
        elif self.pooling == "max":
            embeddings = _pool_maximum(states, real)
        else:
            real = ops.cast(real, "float32")
            num_tokens = ops.sum(real, axis=1)
            embeddings = ops.sum(states * real, axis=1) / num_tokens

        if self.normalize:
            embeddings = scale_to_unit(embeddings)
        if len(inputs[TOKEN_IDS].shape) == 2:
            return embeddings
        return ops.reshape(embeddings, (-1, self.columns, self.width))

    @property
    def loss(self) -> Loss:
        """The loss of the embeddings."""
        return LOSSES[self.name]

    def sum_losses(self, embeddings, labels, weights):
        """Return the sums of the loss, of embeddings, float32 (B, C, H); see `embedding_losses`."""
        options = {name: getattr(self, name) for name in self.loss.options}
        compute = functools.partial(self.loss.sum_losses, **options)
        if self.dimensions is None:
            return compute(embeddings, labels, weights)

        sums = []
        for dimension in sorted(self.dimensions, reverse=True):
            truncated = scale_to_unit(embeddings[..., :dimension])
            sums.append(compute(truncated, labels, weights))
        loss = sum(sums_of_length[0] for sums_of_length in sums)
        longest = sums[0]
        return ops.stack([loss, longest[1], longest[2]])


def _pool_maximum(states, real):
    """Return the maximum of each feature over the real tokens, (texts, H)."""
    # By position: for the gradient of a maximum XLA may compute the numbers once more, in
    # another fusion, and then finds the maximum at none or at several of them.
    masked = ops.where(real, states, float("-inf"))
    largest = ops.argmax(masked, axis=1, keepdims=True)
    seq_len = ops.shape(states)[1]
    positions = ops.arange(seq_len, dtype="int32")
    positions = ops.reshape(positions, (1, -1, 1))
    is_largest = ops.equal(positions, ops.cast(largest, "int32"))
    largest_states = ops.where(is_largest, states, 0.0)
    return ops.sum(largest_states, axis=1)
