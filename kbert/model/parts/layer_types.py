"""Classes of the builder's layers that fused operations can replace; none derived."""

from kbert.graph import names
from kbert.model import layers as kl

EMBEDDINGS: dict[str, type] = {
    names.TOKEN_EMBEDDING: kl.TokenEmbedding,
    names.SEGMENT_EMBEDDING: kl.Embedding,
    names.TOKEN_PLUS_SEGMENT: kl.Add,
    names.POSITION_EMBEDDING: kl.PositionEmbedding,
    names.EMBEDDING_DROPOUT: kl.Dropout,
    names.EMBEDDING_NORM: kl.LayerNormalization,
}
SIMILARITY: dict[str, type] = {
    names.MLM_SIMILARITY: kl.EmbeddingSimilarity,
    names.MLM: kl.Masked,
}
READERS: dict[str, type] = {names.FIRST_TOKEN: kl.Extract, names.MLM_GATHER: kl.Gather}
_SUBLAYERS: dict[str, type] = {
    names.ATTENTION: kl.MultiHeadAttention,
    names.FEED_FORWARD: kl.FeedForward,
}
_ENDS: dict[str, type] = {
    "Dropout": kl.Dropout,
    "Add": kl.Add,
    "Norm": kl.LayerNormalization,
}


def of_block(number: int) -> dict[str, type]:
    """By layer name, those of encoder block `number`, from 1."""
    parts = {names.encoder(number, part): kind for part, kind in _SUBLAYERS.items()}
    ends = {
        names.encoder(number, part, end): kind for part in _SUBLAYERS for end, kind in _ENDS.items()
    }
    return parts | ends


def has(model, expected: dict[str, type]) -> bool:
    """Return whether a model's layers of these names are of exactly these classes."""
    layers = {layer.name: type(layer) for layer in model.layers}
    return all(layers.get(name) is kind for name, kind in expected.items())


def is_variant(model) -> bool:
    """Return whether a graph selects the last block's positions, or packs texts, by itself."""
    ends = f"-{names.QUERIES}", names.PACKED_TEXTS
    return any(layer.name.endswith(ends) for layer in model.layers)


def blocks(model) -> int:
    """Return how many encoder blocks a model has."""
    layers = {layer.name for layer in model.layers}
    number = 0
    while names.encoder_output(number + 1) in layers:
        number += 1
    return number
