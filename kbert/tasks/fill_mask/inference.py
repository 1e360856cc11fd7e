"""Mask filling: the masked language model's predictions for [MASK]."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack, overload

import keras
import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.data.tokenization.encodings import Encoding
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.graph import names
from kbert.graph.config import require_positive
from kbert.io import printable
from kbert.model.probes import build_hidden_states
from kbert.tasks.common.checks import MLM_LAYERS, listed, require_head, require_tokenizer
from kbert.tasks.common.running import (
    BATCH_SIZE,
    InferenceOptions,
    get_function,
    run_texts,
    softmax,
)

_MASKS = 256  # projected onto the vocabulary at a time: 30 MB of logits for base


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
    bert: Bert, texts: str, *, top_k: int = ..., **options: Unpack[InferenceOptions]
) -> list[list[Candidate]]: ...
@overload
def fill_mask(
    bert: Bert, texts: Iterable[str], *, top_k: int = ..., **options: Unpack[InferenceOptions]
) -> list[list[list[Candidate]]]: ...
@printable.escape_errors()
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
    listed_texts, is_single = listed(texts, "texts")
    require_positive("top_k", top_k)
    require_head(bert, "fill_mask", "pretraining", MLM_LAYERS)

    def check(index: int, encoding: Encoding) -> None:
        name = "texts" if is_single else f"texts[{index}]"
        _check_masks(tokenizer, encoding, listed_texts[index], name)

    def build(model: keras.Model) -> keras.Model:
        return build_hidden_states(model, layers=[-1])

    def select_masks(index: int, encoding: Encoding, outputs: list[np.ndarray]) -> np.ndarray:
        """Return the hidden states (M, H) at the masks of a text."""
        masks = []
        for position, token in enumerate(encoding.ids):
            if token == tokenizer.mask_id:
                masks.append(position)
        return outputs[0][masks]

    states = run_texts(
        bert,
        "fill_mask",
        get_function(bert, ("state", -1), build, precision),
        listed_texts,
        convert=select_masks,
        batch_size=batch_size,
        progress=progress,
        check=check,
    )
    if not states:
        return []

    candidates = iter(_list_candidates(bert, tokenizer, np.concatenate(states), top_k))
    results = []
    for text_states in states:
        results.append(list(itertools.islice(candidates, len(text_states))))
    return results[0] if is_single else results


def _check_masks(tokenizer: Tokenizer, encoding: Encoding, text: str, name: str) -> None:
    """Raise a ValueError for a text without [MASK], or with a truncated one."""
    mask = tokenizer.token_of(tokenizer.mask_id)
    count = encoding.ids.count(tokenizer.mask_id)
    total = text.count(mask) if encoding.truncated else count
    if not total:
        raise ValueError(f"{name} must have a {mask}, got {text[:60]!r}")
    if count < total:
        raise ValueError(
            f"{name} must have every {mask} in its first {len(encoding)} tokens, got {count} "
            f"of {total} there: {text[:60]!r}"
        )


def _list_candidates(
    bert: Bert, tokenizer: Tokenizer, states: np.ndarray, top_k: int
) -> list[list[Candidate]]:
    """Return the most likely tokens for each hidden state (M, H) at a mask."""
    dense, norm, similarity = [bert.model.get_layer(name) for name in MLM_LAYERS]
    token_embedding = bert.model.get_layer(names.TOKEN_EMBEDDING)
    table = keras.ops.convert_to_tensor(token_embedding.embeddings)

    candidates = []
    for start in range(0, len(states), _MASKS):
        chunk = states[None, start : start + _MASKS]
        transformed = norm(dense(keras.ops.convert_to_tensor(chunk)))
        logits = keras.ops.convert_to_numpy(similarity([transformed, table]))
        probabilities = softmax(logits[0])
        # outputs beyond the tokenizer's vocabulary have no token
        probabilities = probabilities[:, : tokenizer.vocab_size]

        order = np.argsort(-probabilities, axis=1, kind="stable")
        best = order[:, :top_k].tolist()
        for row, ids in zip(probabilities, best, strict=True):
            candidates_of_mask = []
            for token_id in ids:
                token = tokenizer.token_of(token_id)
                candidates_of_mask.append(Candidate(token, float(row[token_id])))
            candidates.append(candidates_of_mask)
    return candidates
