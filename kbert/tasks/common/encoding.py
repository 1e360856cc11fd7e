"""Encoding of labelled texts."""

import logging
from collections.abc import Iterator, Sequence

from kbert.io.wording import name_setting

_logger = logging.getLogger("kbert")

_PORTION = 1 << 20  # characters that are tokenized at a time: about 300 bytes of memory each


def encode_in_portions(
    texts: Sequence[str], pairs: Sequence[str] | None, tokenizer, max_length: int, source: str
) -> tuple[list[list[int]], list[list[int]]]:
    """Return token ids and segment ids of texts, or of pairs; a warning counts truncated ones.

    `source` is the data's file or argument, for the warning. Portions of the texts bound the memory
    of the tokenizer's encodings.
    """
    columns = [list(texts)]
    if pairs:
        columns.append(list(pairs))
    ids, segments = [], []
    truncated = 0
    for part in split_by_size(*columns):
        portion = [column[part] for column in columns]
        for encoding in tokenizer.encode_batch(*portion, max_length=max_length):
            ids.append(encoding.ids)
            segments.append(encoding.segment_ids)
            truncated += encoding.truncated

    if truncated:
        count = "all" if truncated == len(texts) > 1 else f"{truncated} of"
        _logger.warning(
            "%s: %s %d texts cut to %d tokens: %s sets the limit",
            source,
            count,
            len(texts),
            max_length,
            name_setting("max_length"),
        )
    return ids, segments


def split_by_size(*columns: Sequence[str], most: int | None = None) -> Iterator[slice]:
    """Yield slices of rows of texts: each of about 2²⁰ characters, and of at most `most` rows."""
    lengths = []
    for row in zip(*columns, strict=True):
        lengths.append(sum(len(text) for text in row))

    start = size = 0
    for end, length in enumerate(lengths):
        is_full = size + length > _PORTION or end - start == most
        if end > start and is_full:
            yield slice(start, end)
            start, size = end, 0
        size += length
    if lengths:
        yield slice(start, len(lengths))
