"""Attention weights in a page: of few tokens all, of many the largest of each row.

`page/live/packed_attention.js` reads them. Numbers are little-endian, arrays in C order.
"""

import base64
import re
from collections.abc import Sequence
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
    data: dict = {"blocks": list(blocks), "heads": list(heads), "largest": None}
    if weights.size <= WHOLE:
        return data | {"weights": _encode(_round(weights))}
    count = min(LARGEST, weights.shape[-1])
    columns = np.empty((*weights.shape[:-1], count), "<u2")
    largest = np.empty(columns.shape, "float32")
    for one in np.ndindex(weights.shape[:2]):  # head by head: the indices take twice the memory
        columns[one] = np.argsort(-weights[one], axis=-1, kind="stable")[:, :count]
        largest[one] = np.take_along_axis(weights[one], columns[one].astype("int64"), -1)
    return data | {
        "largest": count,
        "weights": _encode(_round(largest)),
        "columns": _encode(columns),
    }


def count_bytes(maps: int, tokens: int) -> int:
    """Return the bytes of so many maps of a sentence."""
    if maps * tokens * tokens <= WHOLE:
        return 2 * maps * tokens * tokens
    return 4 * maps * tokens * min(LARGEST, tokens)


def describe_left_out(weights: Sequence[np.ndarray]) -> str:
    """Return a sentence on the weights that are left out of maps, "" if none are."""
    shares = [
        float(np.sort(one, axis=-1)[..., -LARGEST:].sum(-1).mean())
        for one in weights
        if one.size > WHOLE
    ]
    if not shares:
        return ""
    return (
        f"Of each row the page has the {LARGEST} largest weights, {min(shares):.0%} of the "
        "attention on average. The rest of a row is drawn as if it were even."
    )


def record_maps(maps: Sequence[AttentionWeights]) -> dict:
    """Return the recordings of maps, their precision, and what is left out, for DATA.live."""
    stores = [_store_queries(one) for one in maps]
    most = max((float(np.abs(x).max()) for store in stores for x in store.values()), default=0.0)
    dtype = np.dtype("<f2" if most <= np.finfo("float16").max else "<f4")
    has_queries = any(stores)
    return {
        "place": "recorded",
        "precision": dtype.name,
        "recordings": [_record_map(*pair, dtype) for pair in zip(maps, stores, strict=True)],
        "leftOut": [f"{ALONE} and its queries and keys" if has_queries else ALONE],
        "note": describe_left_out([one.weights for one in maps]),
        "sentences": [clean_text(one.text) for one in maps],
    }


def _store_queries(one: AttentionWeights) -> dict[str, np.ndarray]:
    """Return a map's queries and keys by their tensors' names, if there are any and not too many.

    Those of heads that the map lacks are zeros.
    """
    if one.queries is None or one.keys is None or one.queries.size > MOST_QUERIES // 2:
        return {}
    store, heads = {}, find_config(one).num_attention_heads
    for part, arrays in (("query", one.queries), ("key", one.keys)):
        for block, array in zip(one.layers, arrays, strict=True):  # (A, S, D)
            whole = np.zeros((array.shape[1], heads, array.shape[2]), "float32")
            whole[:, [head - 1 for head in one.heads]] = array.transpose(1, 0, 2)
            store[f"{names.encoder(block, names.ATTENTION)}/{part}"] = whole
    return store


def _record_map(one: AttentionWeights, store: dict[str, np.ndarray], dtype: np.dtype) -> dict:
    numbers = np.concatenate([np.zeros(0), *(x.ravel() for x in store.values())])
    segments = one.segments or (0,) * len(one.tokens)
    return {
        "request": {
            "text": clean_text(one.text),
            "pair": None,
            "off": {"heads": [], "attention": [], "residuals": [], "positions": False},
            "temperature": 1,
            "positions": [],
        },
        "milliseconds": 0,
        "tokens": [
            {
                "text": token,
                "id": None,
                "segment": int(segment),
                "special": n in one.special,
                "start": 0,
                "end": int(n not in one.special),  # [CLS] and [SEP] have no letters of the text
            }
            for n, (token, segment) in enumerate(zip(one.tokens, segments, strict=True))
        ],
        "truncated": one.truncated,
        "tensors": [[name, list(tensor.shape)] for name, tensor in store.items()],
        "outputs": {},
        "data": _encode(numbers.astype(dtype)),
        "attention": pack_weights(one.weights, one.layers, one.heads),
    }


def find_config(one: AttentionWeights) -> BertConfig:
    """Return the configuration of a map's model; of an unknown model one with the map's heads."""
    if one.spec is not None:
        return one.spec.config
    heads, width = max(one.heads), 64 if one.queries is None else one.queries.shape[-1]
    return BertConfig(
        hidden_size=heads * width,
        num_hidden_layers=max(one.layers),
        num_attention_heads=heads,
        intermediate_size=4 * heads * width,
        max_position_embeddings=len(one.tokens),
    )


def check_maps(maps: Sequence[AttentionWeights]) -> None:
    """Raise a ValueError for maps that no page can show together."""
    for one in maps:
        if not np.isfinite(one.weights).all():
            raise ValueError(
                "weights must be finite for a page, got NaN or infinity in them: "
                "load a model with finite weights"
            )
    if len({find_config(one) if one.spec else one.weights.shape[:2] for one in maps}) > 1:
        raise ValueError("the attention maps of a page must be of one model, got several")


def clean_text(text: str) -> str:
    """Return a text as a page's field shows it: tabs and line ends are blanks.

    A tab divides two texts there, and a field of one line has no line ends.
    """
    return " ".join(re.split(r"\r\n|[\t\r\n]", text))


def _round(weights: np.ndarray) -> np.ndarray:
    """Return weights, from 0 to 1, as whole numbers up to `STEPS`."""
    return np.clip(np.rint(np.asarray(weights, "float64") * STEPS), 0, STEPS).astype("<u2")


def _encode(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()
