"""Mask filling: the masked language model's predictions for [MASK]."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import overload

import keras
import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.data.tokenization.encodings import Encoding
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.graph import names
from kbert.graph.config import require_positive
from kbert.model.probes import build_hidden_states
from kbert.tasks.checks import MLM_LAYERS, listed, require_head, require_tokenizer
from kbert.tasks.running import BATCH_SIZE, function_of, run_texts, softmax

_ROWS = 256  # masks projected onto the vocabulary at a time: 30 MB of logits for base


@dataclass(frozen=True)
class Candidate:
    """A predicted token for a [MASK].

    Attributes:
        token: the token.
        probability: the model's probability of this token among all tokens.
    """

    token: str
    probability: float


@overload
def fill_mask(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
    bert: Bert,
    texts: str,
    *,
    top_k: int = ...,
    batch_size: int = ...,
    precision: str | None = ...,
    progress: bool = ...,
) -> list[list[Candidate]]: ...
@overload
def fill_mask(
    bert: Bert,
    texts: Iterable[str],
    *,
    top_k: int = ...,
    batch_size: int = ...,
    precision: str | None = ...,
    progress: bool = ...,
) -> list[list[list[Candidate]]]: ...
def fill_mask(
    bert: Bert,
    texts: str | Iterable[str],
    *,
    top_k: int = 5,
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
    progress: bool = True,
) -> list[list[Candidate]] | list[list[list[Candidate]]]:
    """Predict the most likely tokens for every [MASK] of a text.

    Args:
        bert: from `kbert.load`, with the head "pretraining".
        texts: a str, or a list of them, with at least one [MASK] each.
        top_k: number of candidates per [MASK]; at most the vocabulary's size.
        batch_size: sequences per batch.
        precision: the encoder's dtype, "float32" or "bfloat16", as for `kbert.embed`; the head,
            which sees only the masked positions, computes in the model's dtype.
        progress: whether to show a progress bar on stderr after two seconds.

    Returns:
        For one str, a list with one entry per [MASK]: its `Candidate`s, the most likely first. For
        a list, a list of those.

    Raises:
        ValueError: a text without [MASK], or with a truncated [MASK]; a model with another head or
            a newly initialized one; something that is not text.
    """
    tokenizer = require_tokenizer(bert, "fill_mask")
    listed_texts, one = listed(texts, "texts")
    require_positive("top_k", top_k)
    require_head(bert, "fill_mask", "pretraining", MLM_LAYERS)

    def check(place: int, encoding: Encoding) -> None:
        name = "texts" if one else f"texts[{place}]"
        _check_masks(tokenizer, name, listed_texts[place], encoding)

    function = function_of(
        bert, ("state", -1), lambda model: build_hidden_states(model, blocks=[-1]), precision
    )
    found: list = [None] * len(listed_texts)
    for place, encoding, (states,) in run_texts(
        bert,
        "fill_mask",
        function,
        listed_texts,
        batch_size=batch_size,
        progress=progress,
        check=check,
    ):
        masks = [at for at, number in enumerate(encoding.ids) if number == tokenizer.mask_id]
        found[place] = states[masks]
    counts = [len(vectors) for vectors in found]
    candidates = iter(_candidates(bert, tokenizer, np.concatenate(found), top_k))
    filled = [[next(candidates) for _ in range(count)] for count in counts]
    return filled[0] if one else filled


def _check_masks(tokenizer: Tokenizer, name: str, text: str, encoding: Encoding) -> None:
    """Raise a ValueError unless a text has a [MASK] and none of them is truncated."""
    mask = tokenizer.token_of(tokenizer.mask_id)
    found = encoding.ids.count(tokenizer.mask_id)
    there = text.count(mask) if encoding.truncated else found
    if not there:
        raise ValueError(f"{name} must have a {mask}, got {text[:60]!r}")
    if found < there:
        raise ValueError(
            f"{name} must have every {mask} in its first {len(encoding)} tokens, got {found} of "
            f"{there} there: {text[:60]!r}"
        )


def _candidates(
    bert: Bert, tokenizer: Tokenizer, vectors: np.ndarray, top_k: int
) -> list[list[Candidate]]:
    """Return the most likely tokens for each hidden state (M, H) at a mask."""
    found = []
    for start in range(0, len(vectors), _ROWS):
        probabilities = softmax(_logits(bert, vectors[start : start + _ROWS]))
        named = probabilities[:, : tokenizer.vocab_size]  # rows beyond have no token
        best = np.argsort(-named, axis=1, kind="stable")[:, :top_k]
        found += [
            [Candidate(tokenizer.token_of(int(number)), float(row[number])) for number in numbers]
            for row, numbers in zip(named, best, strict=True)
        ]
    return found


def _logits(bert: Bert, vectors: np.ndarray) -> np.ndarray:
    """Return float32 (M, T): the MLM head's logits for hidden states (M, H), at the masks only."""
    dense, norm, similarity = (bert.model.get_layer(name) for name in MLM_LAYERS)
    table = keras.ops.convert_to_tensor(bert.model.get_layer(names.TOKEN_EMBEDDING).embeddings)
    x = norm(dense(keras.ops.convert_to_tensor(vectors[None])))
    return keras.ops.convert_to_numpy(similarity([x, table]))[0].astype("float32")
