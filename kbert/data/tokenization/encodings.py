"""Results of encoding: the tokens of one text, and the arrays of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tokenizers

from kbert.data.tokenization.long_runs import Cuts, find_original


class Encoding:
    """The encoding of a text, or of a pair of texts. Every list has one entry per token.

    Attributes:
        ids: the tokens' ids.
        segment_ids: 0 for [CLS], the first text and its [SEP], 1 for the second text and its [SEP];
            all 0 for models without segments, such as RoBERTa.
        text_numbers: the text of each token, 0 or 1; for special tokens their segment.
        tokens: the tokens as text.
        offsets: (start, end) of the token in its original text, in characters; (0, 0) for [CLS] and
            [SEP].
        word_ids: the index of the token's word in its text (punctuation is a word); None for [CLS]
            and [SEP].
        truncated: whether the text was truncated.
    """

    def __init__(
        self, encoding: tokenizers.Encoding, segments: bool = True, cuts: Sequence[Cuts] = ()
    ):
        self._encoding = encoding
        self._cuts = cuts  # of each text
        self._segments = segments

    @cached_property
    def ids(self) -> list[int]:
        return self._encoding.ids

    @cached_property
    def segment_ids(self) -> list[int]:
        if self._segments:
            return self._encoding.type_ids
        return [0] * len(self)

    @cached_property
    def text_numbers(self) -> list[int]:
        numbers = []
        sequence_ids = self._encoding.sequence_ids
        for number, segment in zip(sequence_ids, self.segment_ids, strict=True):
            numbers.append(segment if number is None else number)
        return numbers

    @cached_property
    def tokens(self) -> list[str]:
        return self._encoding.tokens

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        offsets = self._encoding.offsets
        if not any(self._cuts):
            return offsets

        original = []
        sequence_ids = self._encoding.sequence_ids
        for (start, end), number in zip(offsets, sequence_ids, strict=True):
            if end:
                cuts = self._cuts[number or 0]
                start, end = find_original(start, cuts), find_original(end, cuts)
            original.append((start, end))
        return original

    @cached_property
    def word_ids(self) -> list[int | None]:
        return self._encoding.word_ids

    @cached_property
    def truncated(self) -> bool:
        return bool(self._encoding.overflowing)

    def __len__(self) -> int:
        return len(self._encoding)

    def __repr__(self) -> str:
        return f"Encoding({abbreviate_tokens(self.tokens)})"


@dataclass(frozen=True, eq=False)
class EncodedBatch(Sequence[Encoding]):
    """Unpadded encodings, and the padded arrays that a model reads.

    Args:
        encodings: one `Encoding` per text; `batch[i]`, `len(batch)` and iteration use them.
        token_ids: int32 (B, S), padded with the padding token.
        segment_ids: int32 (B, S), padded with 0.
    """

    encodings: list[Encoding]
    token_ids: np.ndarray
    segment_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.encodings)

    def __getitem__(self, index):
        return self.encodings[index]

    def __repr__(self) -> str:
        return f"EncodedBatch({len(self)} encodings, token_ids {self.token_ids.shape})"


def abbreviate_tokens(tokens: Sequence[str]) -> str:
    """Tokens as one line for a `repr`: all where they are few, else the first, and how many."""
    text = " ".join(tokens)
    if len(text) <= 200:
        return text
    return f"{text[:160]} … {len(tokens)} tokens"
