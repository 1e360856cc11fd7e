"""Full sequences without pairs, for MLM only: documents in sequence, split when full.

RoBERTa's FULL-SENTENCES (Liu et al. 2019, section 4.2) but for the cut, which may be within a
sentence: documents are joined with a [SEP] between two of them, and the whole is cut into
sequences of seq_len − 2 tokens, in each epoch from another place on.
"""

from dataclasses import dataclass

import numpy as np

from kbert.data.corpus.shards import Shards
from kbert.data.counter_rng import below, fork, key_of
from kbert.data.pretraining.masking import Examples, Filled

_SHIFT, _ORDER = range(2)
_EPOCH = 2  # of the keys that a seed starts


class Packed:
    """The plan of every epoch, of examples of `seq_len` tokens with [CLS] and the last [SEP]."""

    def __init__(self, shards: Shards, seq_len: int, seed: int):
        self.shards = shards
        self.seq_len = seq_len
        self.seed = seed
        lengths = shards.document_tokens
        self.begins = np.cumsum(lengths + 1) - lengths - 1  # each document's among the joined ones
        self._total = int(lengths.sum()) + len(lengths) - 1

    def plan(self, epoch: int) -> np.ndarray:
        """Return the numbers of an epoch's examples, in its order, int64."""
        capacity = self.seq_len - 2
        end = self._total + self._shift(epoch)
        count = -(-end // capacity)
        key = key_of(self.seed, _EPOCH, epoch)
        scores = fork(fork(key, np.arange(count)), _ORDER)
        return np.argsort(scores, kind="stable")

    def select(self, epoch: int, numbers: np.ndarray) -> "PackedExamples":
        """Return the examples of an epoch with those numbers."""
        keys = fork(key_of(self.seed, _EPOCH, epoch), numbers)
        capacity = self.seq_len - 2
        start = numbers * capacity - self._shift(epoch)
        end = start + capacity
        return PackedExamples(
            keys=keys,
            start=np.maximum(start, 0),
            end=np.minimum(end, self._total),
            plan=self,
        )

    def _shift(self, epoch: int) -> int:
        key = key_of(self.seed, _EPOCH, epoch)
        [shift] = below(key, _SHIFT, self.seq_len - 2)
        return int(shift)


@dataclass(frozen=True)
class PackedExamples(Examples):
    """Examples as slices of the joined documents: their starts and ends, int64."""

    start: np.ndarray
    end: np.ndarray
    plan: Packed

    @property
    def is_random(self) -> np.ndarray:
        return np.zeros(len(self.keys), bool)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens, [CLS] and [SEP] included."""
        return self.end - self.start + 2

    @property
    def maskable(self) -> np.ndarray:
        """Tokens that may be predicted."""
        # the [SEP] before document d stands at begins[d] − 1
        separators = self.plan.begins[1:] - 1
        before_start = np.searchsorted(separators, self.start, "left")
        before_end = np.searchsorted(separators, self.end, "left")
        return self.end - self.start - (before_end - before_start)

    def fill(self, shards: Shards, seq_len: int) -> Filled:
        """Return [CLS] tokens [SEP], padded; all in one segment."""
        tokenizer = shards.tokenizer
        index = np.arange(seq_len)
        lengths = self.end - self.start
        length = lengths[:, None]
        is_inside = (index >= 1) & (index <= length)
        joined = self.start[:, None] + index - 1
        tokens, is_text = self._take_joined(shards, joined[is_inside])

        ids = np.full(is_inside.shape, tokenizer.pad_id, np.int32)
        ids[is_inside] = tokens
        ids[:, 0] = tokenizer.cls_id
        ids[index == length + 1] = tokenizer.sep_id
        segments = np.zeros_like(ids)

        maskable = is_inside.copy()
        maskable[is_inside] = is_text
        first = np.roll(~maskable, 1, axis=1)
        return Filled(ids, segments, maskable, first)

    def _take_joined(self, shards: Shards, joined: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens at indices of the joined documents, and which of them are no [SEP]."""
        begins = self.plan.begins
        document = np.searchsorted(begins, joined, "right") - 1
        offset = joined - begins[document]
        is_text = offset < shards.document_tokens[document]
        first_sentence = shards.starts[document]
        source = shards.offsets[first_sentence] + offset

        sep_id = shards.tokenizer.sep_id
        tokens = np.full(len(joined), sep_id, np.int32)
        tokens[is_text] = shards.take(source[is_text])
        return tokens, is_text
