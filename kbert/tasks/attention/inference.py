"""Attention probabilities: how much each token attends to each token."""

from collections.abc import Iterable
from typing import TypedDict, Unpack, overload

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.data.tokenization.encodings import Encoding
from kbert.graph.aliases import answer_old_names
from kbert.io import printable
from kbert.model.probes import build_attention_maps
from kbert.tasks.attention.attention_map import AttentionMap
from kbert.tasks.attention.head_statistics import index_of
from kbert.tasks.common.running import get_function, list_texts, run_texts

_BATCH = 4  # maps are large: L · A · S² numbers each


class AttentionOptions(TypedDict, total=False):
    """Keyword arguments of `attention`."""

    layer: int | None
    head: int | None
    vectors: bool | None
    precision: str | None


@overload
def attention(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert, texts: str, pairs: str | None = None, **options: Unpack[AttentionOptions]
) -> AttentionMap: ...
@overload
def attention(
    bert: Bert,
    texts: Iterable[str],
    pairs: Iterable[str] | None = None,
    **options: Unpack[AttentionOptions],
) -> list[AttentionMap]: ...
@printable.escape_errors()
@answer_old_names
def attention(
    bert: Bert,
    texts: str | Iterable[str],
    pairs: str | Iterable[str] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    vectors: bool | None = None,
    precision: str | None = None,
) -> AttentionMap | list[AttentionMap]:
    """Compute the attention probabilities of a text or a pair, token by token.

    Args:
        bert: from `kbert.load`, with any head.
        texts: a str, or a list of them.
        pairs: the second text of each, a str or a list of them.
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
    first, second, is_single = list_texts(bert, "attention", texts, pairs)
    layers = _choose_numbers(bert.config.num_hidden_layers, layer, "layer")
    heads = _choose_numbers(bert.config.num_attention_heads, head, "head")
    with_queries = is_single if vectors is None else vectors

    def build(model):
        return build_attention_maps(model, layers=list(layers), vectors=with_queries)

    def make_map(index: int, encoding: Encoding, outputs: list[np.ndarray]) -> AttentionMap:
        size = len(encoding)
        shown_heads = slice(heads[0] - 1, heads[-1])
        num_maps = len(layers)
        weights = [probs[shown_heads, :size, :size] for probs in outputs[:num_maps]]
        queries = keys = None
        if with_queries:
            projections = []
            for array in outputs[num_maps:]:
                by_head = array[:size, shown_heads].swapaxes(0, 1)
                projections.append(by_head)
            queries = _stack(projections[::2])
            keys = _stack(projections[1::2])

        text = first[index] if second is None else f"{first[index]} / {second[index]}"
        return AttentionMap(
            encoding.tokens,
            _stack(weights),
            layers,
            heads,
            text,
            special=tuple(n for n, word in enumerate(encoding.word_ids) if word is None),
            segments=tuple(encoding.segment_ids),
            truncated=encoding.truncated,
            queries=queries,
            keys=keys,
            spec=bert.spec,
        )

    function = get_function(bert, ("attention", with_queries, *layers), build, precision)
    results = run_texts(
        bert, "attention", function, first, second, convert=make_map, batch_size=_BATCH
    )
    return results[0] if is_single else results


def _stack(arrays: list) -> np.ndarray:
    return np.stack(arrays).astype("float32")


def _choose_numbers(count: int, number: int | None, name: str) -> tuple[int, ...]:
    numbers = tuple(range(1, count + 1))
    if number is None:
        return numbers
    return (numbers[index_of(numbers, number, name)],)
