"""The Keras layers of the graph that Keras does not have.

One package, so that importing any of it registers all of it with Keras. Keras comes first: its
import has kbert.model.registration import kbert's classes, which must find no module half-made.
"""

import keras  # noqa: F401  (isort: the order matters)

from kbert.model.layers.encoder import (
    Add,
    Dropout,
    Embedding,
    FeedForward,
    LayerNormalization,
    MultiHeadAttention,
    PositionEmbedding,
    TokenEmbedding,
)
from kbert.model.layers.heads import (
    AttentionWeights,
    EmbeddingSimilarity,
    Extract,
    Gather,
    GatherFirsts,
    Masked,
    QueriesAndKeys,
    Slice,
)
from kbert.ops.activations import activation, gelu, gelu_tanh

__all__ = [
    "Add",
    "AttentionWeights",
    "Dropout",
    "Embedding",
    "EmbeddingSimilarity",
    "Extract",
    "FeedForward",
    "Gather",
    "GatherFirsts",
    "LayerNormalization",
    "Masked",
    "MultiHeadAttention",
    "PositionEmbedding",
    "QueriesAndKeys",
    "Slice",
    "TokenEmbedding",
    "activation",
    "gelu",
    "gelu_tanh",
]
