"""Data of the attention page: tokens, statistics, bytes, and a sentence on what was left out.

With few tokens the page has every probability; with many, each row's largest, and thumbnails.
Queries and keys are included if they are not too many.
"""

import base64
from dataclasses import dataclass

import numpy as np

from kbert.io import printable
from kbert.tasks.attention.attention_data import AttentionData, place_of
from kbert.tasks.attention.head_statistics import LOOKS, TARGETS
from kbert.tasks.attention.page import packing

WHOLE = 2**20  # weights of a page that has them all: base to 85 tokens, a page of 3 MB
VECTORS = 2**21  # numbers of queries and keys, a byte each: base to 113 tokens


@dataclass(frozen=True)
class PageData:
    """Data that the page's script reads.

    Attributes:
        facts: data that become JSON.
        parts: bytes by name, as base64.
    """

    facts: dict
    parts: dict[str, str]


def page_data(
    found: AttentionData, layer: int | None = None, head: int | None = None, special: bool = False
) -> PageData:
    """Return the data of a map's page.

    Args:
        found: from `kbert.attention`.
        layer, head: which the page shows first; None: see `telling_head`.
        special: whether it shows [CLS] and [SEP] at first, where there are other tokens.

    Raises:
        ValueError: a layer or head that the map does not have; a weight that is not finite.
    """
    layers = None if layer is None else place_of(found.layers, layer, "layer")
    heads = None if head is None else place_of(found.heads, head, "head")
    if not np.isfinite(found.weights).all():
        raise ValueError(
            "weights must be finite for a page, got NaN or infinity in them: "
            "load a model with finite weights"
        )
    first = telling_head(found, layers, heads)
    start = {
        "layer": first[0],
        "head": first[1],
        "special": special or len(found.special) == len(found.tokens),
    }
    parts, kept = _weights(found)
    vectors, of_vectors = _vectors(found)
    facts = {
        "text": printable.line(" ".join(found.text.split())),
        "tokens": [printable.line(token) for token in found.tokens],
        "special": found.special,
        "segments": found.segments or [0] * len(found.tokens),
        "layers": found.layers,
        "heads": found.heads,
        "start": start,
        "steps": {
            "weight": packing.WEIGHT_STEPS,
            "thumbnail": packing.THUMBNAIL_STEPS,
        },
        **_figures(found),
        **kept,
        **of_vectors,
        "notes": [*_cut(found), *kept["notes"], *of_vectors["notes"]],
    }
    encoded = {
        name: base64.b64encode(content).decode() for name, content in (parts | vectors).items()
    }
    return PageData(facts, encoded)


def telling_head(
    found: AttentionData, layer: int | None = None, head: int | None = None
) -> tuple[int, int]:
    """Choose the head that says most of how words attend to other words.

    It is the one where a word's largest weight on a word that is neither itself nor beside it is
    largest, on average over the words; [CLS] and [SEP] are no words. In a text without such words
    it is the first head.

    Args:
        layer, head: indices of those to choose from; None: all.

    Returns:
        The layer's index and the head's.
    """
    layers = slice(None) if layer is None else slice(layer, layer + 1)
    heads = slice(None) if head is None else slice(head, head + 1)
    words = np.setdiff1d(np.arange(len(found.tokens)), found.special)
    apart = np.abs(words[:, None] - words) > 1
    if not apart.any():
        return layer or 0, head or 0
    of_words = found.weights[layers, heads][:, :, words[:, None], words]
    largest = (of_words * apart).max(-1).mean(-1)
    best = np.unravel_index(largest.argmax(), largest.shape)
    return (layer or 0) + int(best[0]), (head or 0) + int(best[1])


def _figures(found: AttentionData) -> dict:
    return {
        "targets": TARGETS,
        "looks": LOOKS,
        "figures": [
            {
                "entropy": round(one.entropy, 4),
                "distance": round(one.distance, 4),
                "shares": [round(share, 4) for share in one.shares.values()],
                "looks_at": one.looks_at,
            }
            for one in found.statistics()
        ],
    }


def _cut(found: AttentionData) -> list[str]:
    if not found.truncated:
        return []
    return [f"The text is longer: it was cut to {len(found.tokens)} tokens, as the model reads it."]


def _weights(found: AttentionData) -> tuple[dict[str, bytes], dict]:
    """Return the weights' bytes, and what the facts say of them."""
    if found.weights.size <= WHOLE:
        return {"weights": packing.weight_bytes(found.weights)}, {"largest": None, "notes": []}
    columns, weights = packing.largest(found.weights)
    count, side = columns.shape[-1], min(packing.SIDE, len(found.tokens))
    note = (
        f"{len(found.tokens)} tokens are many: here are the {count} largest weights of each row, "
        f"{weights.sum(-1).mean():.0%} of the attention on average. The rest of a row is left out, "
        "and drawn as if it were even. Thumbnails "
        f"have {side} × {side} pixels, each the largest weight of its block."
    )
    parts = {
        "weights": packing.weight_bytes(weights),
        "columns": packing.column_bytes(columns),
        "thumbnails": packing.thumbnail_bytes(found.weights),
        "plain-thumbnails": packing.thumbnail_bytes(found.weights, found.special),
    }
    return parts, {"largest": count, "side": side, "notes": [note]}


def _vectors(found: AttentionData) -> tuple[dict[str, bytes], dict]:
    """Return bytes of queries and keys, where they are there and not too many."""
    if found.queries is None or found.keys is None:
        note = "Queries and keys were not asked for: kbert.attention(…, vectors=True) keeps them."
        return {}, {"vector_size": None, "notes": [note]}
    numbers = found.queries.size + found.keys.size
    if numbers > VECTORS:
        note = (
            f"Queries and keys are left out: {numbers / 1e6:.1f} MB. A page of {_fewer(found)} has "
            "them."
        )
        return {}, {"vector_size": None, "notes": [note]}
    parts = {}
    for name, vectors in (("queries", found.queries), ("keys", found.keys)):
        parts[name], parts[f"{name[0]}-scales"] = packing.vector_bytes(vectors)
    return parts, {"vector_size": found.queries.shape[-1], "notes": []}


def _fewer(found: AttentionData) -> str:
    """Return what fits: one layer, else one head."""
    numbers = (found.queries.size + found.keys.size) // len(found.layers)  # type: ignore[union-attr]
    if len(found.layers) > 1 and numbers <= VECTORS:
        return "one layer (layer=3, --layer 3)"
    return "one head (layer=3, head=5; --layer 3 --head 5)"
