"""Attention probabilities: how much each token attends to each token."""

from collections.abc import Iterable
from typing import overload

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.model.probes import build_attention_maps
from kbert.tasks.attention.attention_data import place_of
from kbert.tasks.attention.attention_map import AttentionMap
from kbert.tasks.checks import listed, listed_pairs, require_tokenizer, require_two_segments
from kbert.tasks.running import function_of, run_texts

_BATCH = 4  # maps are large: L · A · S² numbers each


@overload
def attention(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert,
    text: str,
    pair: str | None = None,
    *,
    layer: int | None = ...,
    head: int | None = ...,
    vectors: bool | None = ...,
    precision: str | None = ...,
) -> AttentionMap: ...
@overload
def attention(
    bert: Bert,
    text: Iterable[str],
    pair: Iterable[str] | None = None,
    *,
    layer: int | None = ...,
    head: int | None = ...,
    vectors: bool | None = ...,
    precision: str | None = ...,
) -> list[AttentionMap]: ...
def attention(
    bert: Bert,
    text: str | Iterable[str],
    pair: str | Iterable[str] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    vectors: bool | None = None,
    precision: str | None = None,
) -> AttentionMap | list[AttentionMap]:
    """Compute the attention probabilities of a text or a pair, token by token.

    Args:
        bert: from `kbert.load`, with any head.
        text: a str, or a list of them.
        pair: the second text, a str or a list of them.
        layer: one encoder block, from 1; None: all.
        head: one attention head, from 1; None: all.
        vectors: whether to keep queries and keys too, 2 · S · H numbers per layer. None: yes for
            one text, no for a list.
        precision: "float32" or "bfloat16", as for `kbert.embed`.

    Returns:
        An `AttentionMap` for one str, a list of them for a list. A text that is too long is
        truncated, with a warning.

    Raises:
        ValueError: a layer or head that the model does not have; something that is not text.
    """
    require_tokenizer(bert, "attention")
    if pair is None:
        texts, one = listed(text, "text")
        pairs = None
    else:
        texts, pairs, one = listed_pairs(text, pair, "text", "pair")
        require_two_segments(bert, "attention")
    layers = _numbers(bert.config.num_hidden_layers, layer, "layer")
    heads = _numbers(bert.config.num_attention_heads, head, "head")
    vectors = one if vectors is None else vectors
    function = function_of(
        bert,
        ("attention", vectors, *layers),
        lambda model: build_attention_maps(model, blocks=list(layers), vectors=vectors),
        precision,
    )
    found: list = [None] * len(texts)
    for place, encoding, outputs in run_texts(
        bert, "attention", function, texts, pairs, batch_size=_BATCH
    ):
        text = texts[place] if pairs is None else f"{texts[place]} / {pairs[place]}"
        found[place] = _map_of(encoding, outputs, layers, heads, text)
    return found[0] if one else found


def _map_of(encoding, outputs: list, layers, heads, text: str) -> AttentionMap:
    """Return the map of a text, from its row of the model's padded outputs."""
    chosen, size = slice(heads[0] - 1, heads[-1]), len(encoding)
    maps, vectors = outputs[: len(layers)], outputs[len(layers) :]
    queries, keys = (
        _stacked([one[:size, chosen].swapaxes(0, 1) for one in part]) if part else None
        for part in (vectors[::2], vectors[1::2])
    )
    return AttentionMap(
        encoding.tokens,
        _stacked([one[chosen, :size, :size] for one in maps]),
        layers,
        heads,
        text,
        special=tuple(place for place, word in enumerate(encoding.word_ids) if word is None),
        segments=tuple(encoding.segment_ids),
        truncated=encoding.truncated,
        queries=queries,
        keys=keys,
    )


def _stacked(parts: list) -> np.ndarray:
    return np.stack(parts).astype("float32")


def _numbers(count: int, asked: int | None, name: str) -> tuple[int, ...]:
    numbers = tuple(range(1, count + 1))
    return numbers if asked is None else (numbers[place_of(numbers, asked, name)],)
