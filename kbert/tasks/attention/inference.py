"""How much each token attends to each."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.data.tokenization.encodings import shortened
from kbert.io import printable
from kbert.model.probes import build_attention_maps
from kbert.tasks.attention import SPECIAL
from kbert.tasks.checks import listed, listed_pairs, require_tokenizer, require_two_segments
from kbert.tasks.running import function_of, run_texts

_BATCH = 4  # maps are large: L · A · S² numbers each


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention weights of one text or pair.

    Attributes:
        tokens: its S tokens, [CLS] and [SEP] included.
        weights: float32 (layers, heads, S, S): how much each token (row) attends to each
            (column); a row sums to 1.
        layers: which encoder blocks those are, from 1.
        heads: which heads, from 1.
        text: what was read; a pair with " / " between.
        special: the places of [CLS] and [SEP].
    """

    tokens: list[str]
    weights: np.ndarray
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    text: str = ""
    special: tuple[int, ...] = ()

    def mean(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """float32 (S, S): of one layer or head, counted from 1; None: the mean over all."""
        weights = self.weights
        if head is not None:
            weights = weights[:, [_place(self.heads, head, "head")]]
        if layer is not None:
            weights = weights[[_place(self.layers, layer, "layer")]]
        return weights.mean(axis=(0, 1))

    def between(
        self,
        token: int | str,
        other: int | str,
        *,
        layer: int | None = None,
        head: int | None = None,
    ) -> float:
        """How much `token` attends to `other`; each by its place, or as text where it is unique."""
        weights = self.mean(layer, head)
        return float(weights[self._token(token), self._token(other)])

    def plot(
        self,
        path: str | os.PathLike,
        *,
        layer: int | None = None,
        head: int | None = None,
        special: str = "clipped",
    ) -> Path:
        """Draws `mean(layer, head)` as a heat map: a row for each token that attends.

        Args:
            path: of the picture, .png, .svg or .pdf; written whole or not at all.
            layer, head: as for `mean`.
            special: [CLS] and [SEP] draw most of the attention. "clipped": the colours are those of
                the other tokens' weights among themselves, and what is above is grey; "hidden":
                only those tokens are drawn; "whole": the colours reach up to the largest weight.

        Returns:
            The path.
        """
        from kbert.tasks.attention.heat_map import check_path, draw

        if special not in SPECIAL:
            raise ValueError(f"special must be one of {', '.join(SPECIAL)}, got {special!r}")
        path, weights, tokens = check_path(path), self.mean(layer, head), self.tokens
        others = [place for place in range(len(tokens)) if place not in self.special]
        among = weights[np.ix_(others, others)]
        top = float(among.max()) if others and special != "whole" else None
        if others and special == "hidden":
            weights, tokens = among, [tokens[place] for place in others]
        draw(weights, tokens, f"{self.text}\n{self._title(layer, head)}", path, top)
        return path

    def _title(self, layer, head) -> str:
        layers = self.layers if layer is None else (layer,)
        heads = self.heads if head is None else (head,)
        parts = [
            f"{name} {numbers[0]}" if len(numbers) == 1 else f"mean of {len(numbers)} {name}s"
            for name, numbers in (("layer", layers), ("head", heads))
        ]
        return ", ".join(parts)

    def _token(self, token: int | str) -> int:
        if isinstance(token, str):
            places = [place for place, text in enumerate(self.tokens) if text == token]
            if len(places) != 1:
                where = f"places {places}: give the place" if places else "none of them"
                raise ValueError(f"token must be one of {self.tokens}, got {token!r}: {where}")
            return places[0]
        if not isinstance(token, (int, np.integer)) or not 0 <= token < len(self.tokens):
            raise ValueError(f"token must be a place 0 … {len(self.tokens) - 1}, got {token!r}")
        return int(token)

    def __repr__(self) -> str:
        tokens = printable.line(shortened(self.tokens))
        return f"AttentionMap({tokens}; weights {self.weights.shape})"


@overload
def attention(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert,
    text: str,
    pair: str | None = None,
    *,
    layer: int | None = ...,
    head: int | None = ...,
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
    precision: str | None = ...,
) -> list[AttentionMap]: ...
def attention(
    bert: Bert,
    text: str | Iterable[str],
    pair: str | Iterable[str] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    precision: str | None = None,
) -> AttentionMap | list[AttentionMap]:
    """The attention weights of a text or a pair, token by token.

    Args:
        bert: from `kbert.load`, with any head.
        text: a str, or a list of them.
        pair: the second text, the same.
        layer: one encoder block, from 1; None: all.
        head: one head, from 1; None: all.
        precision: as for `kbert.embed`.

    Returns:
        An `AttentionMap` for one str, a list of them for a list. A text that is too long is cut,
        with a warning.

    Raises:
        ValueError: a layer or head that the model does not have; what no text is.
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
    function = function_of(
        bert,
        ("attention", *layers),
        lambda model: build_attention_maps(model, blocks=list(layers)),
        precision,
    )
    chosen = slice(heads[0] - 1, heads[-1])
    found: list = [None] * len(texts)
    for place, encoding, maps in run_texts(
        bert, "attention", function, texts, pairs, batch_size=_BATCH
    ):
        tokens = len(encoding)
        weights = np.stack([one_map[chosen, :tokens, :tokens] for one_map in maps])
        text = texts[place] if pairs is None else f"{texts[place]} / {pairs[place]}"
        special = tuple(n for n, word in enumerate(encoding.word_ids) if word is None)
        found[place] = AttentionMap(
            encoding.tokens, weights.astype("float32"), layers, heads, text, special
        )
    return found[0] if one else found


def _numbers(count: int, asked: int | None, name: str) -> tuple[int, ...]:
    numbers = tuple(range(1, count + 1))
    return numbers if asked is None else (numbers[_place(numbers, asked, name)],)


def _place(numbers: tuple[int, ...], asked, name: str) -> int:
    if isinstance(asked, bool) or asked not in numbers:
        raise ValueError(f"{name} must be one of {numbers[0]} … {numbers[-1]}, got {asked!r}")
    return numbers.index(asked)
