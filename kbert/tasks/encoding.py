"""Encoding of labelled texts."""

import logging
from collections.abc import Sequence

import numpy as np

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
