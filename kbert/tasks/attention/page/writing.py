"""The page of an attention map: one HTML file with its data, style and scripts.

With few tokens the page has every probability; with many, each row's largest, and thumbnails.
Queries and keys are included if they are not too many. Numbers are little-endian, arrays in C
order.
"""

import base64
import html
from importlib.resources import files

import numpy as np

from kbert.io import pages, palette, printable
from kbert.tasks.attention.head_statistics import LOOKS, TARGETS, index_of

WHOLE = 2**20  # weights of a page that has them all: base to 85 tokens, a page of 3 MB
MAX_QUERY_BYTES = 2**21  # numbers of queries and keys, a byte each: base to 113 tokens
LARGEST = 16  # weights of a row, on a page that does not have them all
SIDE = 64  # pixels of a thumbnail
WEIGHT_STEPS = 65_535  # a weight w is round(w · 65,535), 16 bits: off by 1/131,070 at most
THUMBNAIL_STEPS = 255  # a weight w is round(√w · 255): small ones differ as well
VECTOR_STEPS = 127  # a number x is round(x / scale), 8 bits; the largest of its vector is ±127
_FOLDER = files(__package__)
# A script uses only those before it.
_SCRIPTS = (
    *("decoding.js", "state.js", "colours.js", "controls.js", "thumbnails.js", "lines.js"),
    *("heat_map.js", "vectors.js", "table.js", "start.js"),
)


def write_page(
    attention, layer: int | None = None, head: int | None = None, special: bool = False
) -> str:
    """Return an `AttentionMap` as self-contained HTML; the arguments are those of `page_data`."""
    facts, arrays = page_data(attention, layer, head, special)
    slots = {
        "TITLE": html.escape(printable.cut(facts["text"], 60) or "no text"),
        "STYLE": f"{palette.write_css()}\n{pages.read_files(_FOLDER, 'style.css')}",
        "FACTS": pages.to_script(facts),
        "PARTS": "\n".join(
            f'<script type="text/plain" id="data-{name}">{text}</script>'
            for name, text in arrays.items()
        ),
        "SCRIPT": f"const RAMPS = {pages.to_script(palette.WEIGHTS)};\n"
        f"const SIGNED = {pages.to_script(palette.SIGNED)};\n"
        f"{pages.read_files(_FOLDER, *_SCRIPTS)}",
    }
    return pages.fill_page(_FOLDER, slots)


def write_frame(attention) -> str:
    """Return the page as a frame for a notebook's cell, isolated from the notebook."""
    title = f"Attention of {len(attention.tokens)} tokens"
    return pages.write_frame(write_page(attention), title, "48rem", 'sandbox="allow-scripts"')


def page_data(
    attention, layer: int | None = None, head: int | None = None, special: bool = False
) -> tuple[dict, dict[str, str]]:
    """Return the facts of an `AttentionMap`, which become JSON, and arrays by name, as base64.

    The page shows that layer and head first (None: see `choose_head`), and with `special` [CLS] and
    [SEP].
    """
    layers = None if layer is None else index_of(attention.layers, layer, "layer")
    heads = None if head is None else index_of(attention.heads, head, "head")
    if not np.isfinite(attention.weights).all():
        raise ValueError(
            "weights must be finite for a page, got NaN or infinity in them: "
            "load a model with finite weights"
        )
    first_layer, first_head = choose_head(attention, layers, heads)
    arrays, weight_facts, notes = _encode_weights(attention)
    queries, size, query_notes = _encode_queries(attention)
    count = len(attention.tokens)
    cut = f"The text is longer: it was cut to {count} tokens, as the model reads it."
    facts = {
        "text": printable.line(" ".join(attention.text.split())),
        "tokens": [printable.line(token) for token in attention.tokens],
        "special": attention.special,
        "segments": attention.segments or [0] * count,
        "layers": attention.layers,
        "heads": attention.heads,
        "start": {
            "layer": first_layer,
            "head": first_head,
            "special": special or len(attention.special) == count,
        },
        "steps": {"weight": WEIGHT_STEPS, "thumbnail": THUMBNAIL_STEPS},
        "targets": TARGETS,
        "looks": LOOKS,
        "figures": [
            {
                "entropy": round(one.entropy, 4),
                "distance": round(one.distance, 4),
                "shares": [round(share, 4) for share in one.shares.values()],
                "looks_at": one.looks_at,
            }
            for one in attention.statistics()
        ],
        **weight_facts,
        "vector_size": size,
        "notes": [cut] * attention.truncated + notes + query_notes,
    }
    both = arrays | queries
    return facts, {name: base64.b64encode(both[name].tobytes()).decode() for name in both}


def choose_head(attention, layer: int | None = None, head: int | None = None) -> tuple[int, int]:
    """Choose the head that shows best how words attend to other words; return its two indices.

    It is the one with the largest weights of words on distant words (neither the word itself nor
    its neighbours), on average over the words; [CLS] and [SEP] are no words. In a text without such
    words it is the first head. `layer` and `head` are indices to choose from; None: all.
    """
    layers = slice(None) if layer is None else slice(layer, layer + 1)
    heads = slice(None) if head is None else slice(head, head + 1)
    tokens = np.setdiff1d(np.arange(len(attention.tokens)), attention.special)
    distant = np.abs(tokens[:, None] - tokens) > 1
    if not distant.any():
        return layer or 0, head or 0
    weights = attention.weights[layers, heads][:, :, tokens[:, None], tokens]
    largest = (weights * distant).max(-1).mean(-1)
    best = np.unravel_index(largest.argmax(), largest.shape)
    return (layer or 0) + int(best[0]), (head or 0) + int(best[1])


def _encode_weights(attention) -> tuple[dict[str, np.ndarray], dict, list[str]]:
    """Return the weights' arrays, facts about them, and notes on what is left out."""
    if attention.weights.size <= WHOLE:
        return {"weights": _round(attention.weights, WEIGHT_STEPS, "<u2")}, {"largest": None}, []
    count, side = (min(most, len(attention.tokens)) for most in (LARGEST, SIDE))
    # (L, A, S, count): the columns of each row's largest weights, the largest first
    columns = np.empty((*attention.weights.shape[:-1], count), "int64")
    for one in np.ndindex(columns.shape[:2]):  # head by head: the indices take twice the memory
        some = np.argpartition(-attention.weights[one], count - 1, axis=-1)[:, :count]
        values = np.take_along_axis(attention.weights[one], some, -1)
        order = np.argsort(-values, axis=-1, kind="stable")
        columns[one] = np.take_along_axis(some, order, -1)
    weights = np.take_along_axis(attention.weights, columns, -1)
    note = (
        f"{len(attention.tokens)} tokens are many: here are the {count} largest weights of each "
        f"row, {weights.sum(-1).mean():.0%} of the attention on average. The rest of a row is left "
        f"out, and drawn as if it were even. Thumbnails have {side} × {side} pixels, each the "
        "largest weight of its block."
    )
    arrays = {
        "weights": _round(weights, WEIGHT_STEPS, "<u2"),
        "columns": columns.astype("<u2"),
        "thumbnails": draw_thumbnails(attention.weights),
        "plain-thumbnails": draw_thumbnails(attention.weights, attention.special),
    }
    return arrays, {"largest": count, "side": side}, [note]


def _round(weights: np.ndarray, steps: int, dtype: str) -> np.ndarray:
    """Return weights, from 0 to 1, as whole numbers up to `steps`."""
    return np.clip(np.rint(np.asarray(weights, "float64") * steps), 0, steps).astype(dtype)


def draw_thumbnails(weights: np.ndarray, left_out: tuple[int, ...] = ()) -> np.ndarray:
    """Draw each head's weights (L, A, S, S) as a thumbnail, uint8 (L, A, k, k), k `SIDE` or less.

    A pixel is the largest weight of its block: pixel n has the tokens from n · S // k up to, not
    including, (n + 1) · S // k. The rows and columns of the tokens `left_out` count as 0.
    """
    size = weights.shape[-1]
    side = min(SIDE, size)
    edges = np.arange(side) * size // side
    pixels = np.empty((*weights.shape[:2], side, side))
    for one in np.ndindex(weights.shape[:2]):
        visible = weights[one].copy()
        visible[list(left_out)] = visible[:, list(left_out)] = 0
        pixels[one] = np.maximum.reduceat(np.maximum.reduceat(visible, edges, 0), edges, 1)
    return _round(np.sqrt(pixels), THUMBNAIL_STEPS, "u1")


def _encode_queries(attention) -> tuple[dict[str, np.ndarray], int | None, list[str]]:
    """Return arrays of queries and keys, if there are not too many, their size, and notes."""
    queries, keys = attention.queries, attention.keys
    if queries is None or keys is None:
        note = "Queries and keys were not asked for: kbert.attention(…, vectors=True) keeps them."
        return {}, None, [note]
    numbers = queries.size + keys.size
    if numbers > MAX_QUERY_BYTES:
        layers = len(attention.layers)
        fewer = "one head (layer=3, head=5; --layer 3 --head 5)"
        if layers > 1 and numbers // layers <= MAX_QUERY_BYTES:
            fewer = "one layer (layer=3, --layer 3)"
        note = f"Queries and keys are left out: {numbers / 1e6:.1f} MB. A page of {fewer} has them."
        return {}, None, [note]
    arrays = {}
    for name, array in (("queries", queries), ("keys", keys)):
        arrays[name], arrays[f"{name[0]}-scales"] = quantize(array)
    return arrays, queries.shape[-1], []


def quantize(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors, float (…, D), as int8, and their scales, float32 (…): off by half a scale."""
    scales = (np.abs(array).max(-1) / VECTOR_STEPS).astype("<f4")
    steps = np.divide(
        array, scales[..., None], out=np.zeros_like(array), where=scales[..., None] > 0
    )
    return np.rint(steps).astype("i1"), scales
