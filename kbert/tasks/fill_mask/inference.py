"""What stands behind [MASK]: the masked language model's answer."""

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
from kbert.tasks.probabilities import softmax
from kbert.tasks.running import BATCH_SIZE, function_of, run_texts

_ROWS = 256  # masks projected onto the vocabulary at a time: 30 MB of logits for base


@dataclass(frozen=True)
class Candidate:
    """A token that may stand behind a [MASK].

    Attributes:
        token: the token.
        probability: of all tokens, the model's for this one.
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
    """The likeliest tokens for every [MASK] of a text.

    Args:
        bert: from `kbert.load`, with the head "pretraining".
        texts: a str, or a list of them, with at least one [MASK] each.
        top_k: how many candidates for each [MASK]; at most the whole vocabulary.
        batch_size: sequences computed at a time.
        precision: of the encoder, as for `kbert.embed`; the head, at the masks alone, computes in
            the model's own.
        progress: a bar on stderr, once it has taken two seconds.

    Returns:
        For one str, a list with one entry for each [MASK] in it: its `Candidate`s, the likeliest
        first. For a list, a list of those.

    Raises:
        ValueError: a text without [MASK], or one whose [MASK] is cut off; a model with another
            head or without weights in it; what no text is.
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
    """A ValueError unless a text has a [MASK], and none of them is cut off."""
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
    """For each vector (M, H) at a mask, the likeliest tokens."""
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
    """float32 (M, T): the MLM head on vectors (M, H), at the masks alone and not at every token."""
    dense, norm, similarity = (bert.model.get_layer(name) for name in MLM_LAYERS)
    table = keras.ops.convert_to_tensor(bert.model.get_layer(names.TOKEN_EMBEDDING).embeddings)
    x = norm(dense(keras.ops.convert_to_tensor(vectors[None])))
    return keras.ops.convert_to_numpy(similarity([x, table]))[0].astype("float32")
