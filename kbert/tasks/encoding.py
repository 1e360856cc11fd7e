"""Encoding of labelled texts, and a model's outputs for them."""

import functools
import logging
from collections.abc import Callable, Sequence

import numpy as np

from kbert.data.padding import batches_by_length, pick_length
from kbert.graph.names import SEGMENT_IDS, TOKEN_IDS

_logger = logging.getLogger("kbert")

_PORTION = 1 << 20  # characters that are tokenized at a time: about 300 bytes of memory each
_LONGEST = 1 << 18  # characters of a text that are read: no model has so many tokens


def encode_in_portions(
    texts: Sequence[str], pairs: Sequence[str] | None, tokenizer, max_length: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Return token ids and segment ids of texts, or of pairs; a warning counts truncated ones.

    Portions of the texts bound the memory of the tokenizer's encodings.
    """
    columns = [[text[:_LONGEST] for text in column] for column in (texts, pairs or ())]
    sizes = np.cumsum([sum(map(len, row)) for row in zip(*filter(None, columns), strict=True)])
    ids, segments, truncated, start = [], [], 0, 0
    for end in (*(np.flatnonzero(np.diff(sizes // _PORTION)) + 1), len(texts)):
        portion, second = (column[start:end] for column in columns)
        for encoding in tokenizer.encode_batch(portion, second or None, max_length=max_length):
            ids.append(encoding.ids)
            segments.append(encoding.segment_ids)
            truncated += encoding.truncated
        start = end
    if truncated:
        hint = ": every one. Raise max_length" if truncated == len(texts) > 1 else ""
        _logger.warning(
            "%d of %d texts cut to %d tokens%s", truncated, len(texts), max_length, hint
        )
    return ids, segments


def predict_sequences(
    predict: Callable[[dict[str, np.ndarray]], Sequence],
    sequences: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int,
    pad_id: int,
    lengths: Sequence[int],
) -> list[list[np.ndarray]]:
    """Return a model's outputs for each sequence of token ids and segment ids, float32.

    `predict` returns the outputs, (B, …) each, of inputs by name; `lengths` are the possible
    lengths of batches, ascending.
    """
    results: list[list[np.ndarray]] = [[] for _ in sequences]
    for indices, token_ids, segment_ids in batches_by_length(
        sequences,
        batch_size,
        pad_id=pad_id,
        length_for=functools.partial(pick_length, lengths),
        count_for=lambda count: batch_size,  # one shape
    ):
        for output in predict({TOKEN_IDS: token_ids, SEGMENT_IDS: segment_ids}):
            for index, row in zip(indices, np.asarray(output, np.float32), strict=False):
                results[index].append(row)
    return results
