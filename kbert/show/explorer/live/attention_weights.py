"""Attention weights in a page: of few tokens all, of many the largest of each row.

`page/live/packed_attention.js` reads them. Numbers are little-endian, arrays in C order.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from kbert.graph import names
from kbert.graph.config import BertConfig
from kbert.graph.spec import GraphSpec

WHOLE = 2**20  # weights of a page that has them all: base to 85 tokens, 3 MB as base64
LARGEST = 16  # weights of a row, on a page that does not have them all
MOST_QUERIES = 2**20  # numbers of queries and keys of a map, 2 bytes each: base to 56 tokens
STEPS = 65_535  # a weight w is round(w · 65,535), 16 bits: off by 1/131,070 at most
ALONE = "every tensor but the weights of attention"


@runtime_checkable
class AttentionWeights(Protocol):
    """What a page reads of a `kbert.types.AttentionMap`, which describes it."""

    tokens: list[str]
    weights: np.ndarray
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    text: str
    special: tuple[int, ...]
    segments: tuple[int, ...]
    truncated: bool
    queries: np.ndarray | None
    keys: np.ndarray | None
    spec: GraphSpec | None


def pack_weights(weights: np.ndarray, blocks: Sequence[int], heads: Sequence[int]) -> dict:
    """Return weights, float (blocks, heads, S, S), for a recording.

    `blocks` and `heads` are their numbers, from 1. With `largest`, a row has only so many weights,
    the largest first, and their columns; the rest of a row is drawn as if it were even.
    """
    data: dict = {
        "blocks": list(blocks),
        "heads": list(heads),
        "largest": None,
    }
    if weights.size <= WHOLE:
        data["weights"] = _encode(_round(weights))
        return data

    count = min(LARGEST, weights.shape[-1])
    columns = np.empty((*weights.shape[:-1], count), "<u2")
    largest = np.empty(columns.shape, "float32")
    for head in np.ndindex(weights.shape[:2]):  # one by one: the indices take twice the memory
        head_weights = weights[head]
        order = np.argsort(-head_weights, axis=-1, kind="stable")
        indices = order[:, :count]
        columns[head] = indices
        largest[head] = np.take_along_axis(head_weights, indices, -1)

    data["largest"] = count
    data["weights"] = _encode(_round(largest))
    data["columns"] = _encode(columns)
    return data


def count_bytes(maps: int, tokens: int) -> int:
    """Return the bytes of so many maps of a sentence."""
    if maps * tokens * tokens <= WHOLE:
        return 2 * maps * tokens * tokens
    return 4 * maps * tokens * min(LARGEST, tokens)


def describe_left_out(weights: Sequence[np.ndarray]) -> str:
    """Return a sentence on the weights that are left out of maps, "" if none are."""
    shares = []
    for maps in weights:
        if maps.size > WHOLE:
            largest = np.sort(maps, axis=-1)[..., -LARGEST:]
            shares.append(float(largest.sum(-1).mean()))
    if not shares:
        return ""
    return (
        f"Of each row the page has the {LARGEST} largest weights, {min(shares):.0%} of the "
        "attention on average. The rest of a row is drawn as if it were even."
    )


def record_maps(maps: Sequence[AttentionWeights]) -> dict:
    """Return the recordings of maps, their precision, and what is left out, for DATA.live."""
    stores = [_store_queries(attention) for attention in maps]
    dtype = choose_dtype(stores)
    recordings = []
    for attention, store in zip(maps, stores, strict=True):
        recordings.append(_record_map(attention, store, dtype))
    has_queries = any(stores)
    return {
        "place": "recorded",
        "precision": dtype.name,
        "recordings": recordings,
        "leftOut": [f"{ALONE} and its queries and keys" if has_queries else ALONE],
        "note": describe_left_out([attention.weights for attention in maps]),
        "sentences": [clean_text(attention.text) for attention in maps],
    }


def choose_dtype(stored: Sequence[Mapping[str, np.ndarray]]) -> np.dtype:
    """Return half precision for the tensors of recordings; float32 if a number is too large."""
    largest = 0.0
    for tensors in stored:
        for tensor in tensors.values():
            largest = max(largest, float(np.abs(tensor).max()))
    return np.dtype("<f2" if largest <= np.finfo("float16").max else "<f4")


def _store_queries(attention: AttentionWeights) -> dict[str, np.ndarray]:
    """Return a map's queries and keys by their tensors' names, if there are any and not too many.

    Those of heads that the map lacks are zeros.
    """
    queries, keys = attention.queries, attention.keys
    if queries is None or keys is None or queries.size > MOST_QUERIES // 2:
        return {}
    store = {}
    heads = find_config(attention).num_attention_heads
    indices = [head - 1 for head in attention.heads]
    for part, arrays in (("query", queries), ("key", keys)):
        for block, array in zip(attention.layers, arrays, strict=True):
            _, length, size = array.shape
            whole = np.zeros((length, heads, size), "float32")
            whole[:, indices] = array.transpose(1, 0, 2)
            layer = names.encoder(block, names.ATTENTION)
            store[f"{layer}/{part}"] = whole
    return store


def _record_map(attention: AttentionWeights, store: dict[str, np.ndarray], dtype: np.dtype) -> dict:
    tensors = [tensor.ravel() for tensor in store.values()]
    numbers = np.concatenate([np.zeros(0), *tensors])
    nothing_off = {
        "heads": [],
        "attention": [],
        "residuals": [],
        "positions": False,
    }
    request: dict = {
        "text": clean_text(attention.text),
        "pair": None,
        "off": nothing_off,
        "temperature": 1,
        "positions": [],
    }

    return {
        "request": request,
        "milliseconds": 0,
        "tokens": _describe_tokens(attention),
        "truncated": attention.truncated,
        "tensors": [[name, list(tensor.shape)] for name, tensor in store.items()],
        "outputs": {},
        "data": _encode(numbers.astype(dtype)),
        "attention": pack_weights(attention.weights, attention.layers, attention.heads),
    }


def _describe_tokens(attention: AttentionWeights) -> list[dict]:
    """Return a map's tokens for a page; special ones have no letters of the text."""
    segments = attention.segments or (0,) * len(attention.tokens)
    tokens = []
    for place, (token, segment) in enumerate(zip(attention.tokens, segments, strict=True)):
        is_special = place in attention.special
        tokens.append(
            {
                "text": token,
                "id": None,
                "segment": int(segment),
                "special": is_special,
                "start": 0,
                "end": 0 if is_special else 1,
            }
        )
    return tokens


def find_config(attention: AttentionWeights) -> BertConfig:
    """Return the configuration of a map's model; of an unknown model one with the map's heads."""
    if attention.spec is not None:
        return attention.spec.config
    heads = max(attention.heads)
    width = 64 if attention.queries is None else attention.queries.shape[-1]
    return BertConfig(
        hidden_size=heads * width,
        num_hidden_layers=max(attention.layers),
        num_attention_heads=heads,
        intermediate_size=4 * heads * width,
        max_position_embeddings=len(attention.tokens),
    )


def check_maps(maps: Sequence[AttentionWeights]) -> None:
    """Raise a ValueError for maps that no page can show together."""
    for attention in maps:
        if not np.isfinite(attention.weights).all():
            raise ValueError(
                "weights must be finite for a page, got NaN or infinity in them: "
                "load a model with finite weights"
            )
    models = {
        find_config(attention) if attention.spec else attention.weights.shape[:2]
        for attention in maps
    }
    if len(models) > 1:
        raise ValueError("the attention maps of a page must be of one model, got several")


def clean_text(text: str) -> str:
    """Return a text as a page's field shows it: tabs and line ends are blanks.

    A tab divides two texts there, and a field of one line has no line ends.
    """
    return " ".join(re.split(r"\r\n|[\t\r\n]", text))


def _round(weights: np.ndarray) -> np.ndarray:
    """Return weights, from 0 to 1, as whole numbers up to `STEPS`."""
    steps = np.asarray(weights, "float64") * STEPS
    rounded = np.clip(np.rint(steps), 0, STEPS)
    return rounded.astype("<u2")


def _encode(array: np.ndarray) -> str:
    encoded = base64.b64encode(array.tobytes())
    return encoded.decode()
