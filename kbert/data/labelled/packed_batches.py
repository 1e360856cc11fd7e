"""Labelled examples packed into rows of one length: nearly no padding, and nearly one shape.

A step has texts of all lengths. They are dealt like cards: a pool of many batches is sorted by
length and cut into `batch_size` strata, and every batch gets one text of each. So all steps have
about as many tokens and need as many rows, and none has short texts only, as in buckets.
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from kbert.data.counter_rng import fork
from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.data.packed_batch import PackedBatch, first_fit, pack_batch

_STEP = 8  # tokens between two lengths of rows that are tried
_TRIED = 50  # steps that a length is tried on
# Tokens of a row whose attention takes as long as the rest of an encoder block: 384 wide, measured
# on a CPU with 96 and 128, some 400 in bfloat16 and 1,000 in float32.
_AS_LONG = 768


class PackedBatches(BucketedBatches):
    """Labelled examples, several per row.

    Every example occurs once per epoch; the last batches of an epoch may have fewer.

    Args:
        row_length: tokens of a row; None: the one that costs least, from the longest example's to
            `longest_row`.
        longest_row: maximum of the lengths that are tried.
        micro_batches: number of parts of a step, each packed by itself.
        options: of `BucketedBatches`, but for `lengths`; the texts of a pool are dealt together.

    Raises:
        ValueError: no example, one that is longer than a row.

    Attributes:
        row_length: as above.
        least_rows: minimum number of rows of a micro-batch; a step that needs more has more.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        row_length: int | None = None,
        longest_row: int = 512,
        micro_batches: int = 1,
        **options,
    ):
        text_lengths = [len(ids) for ids in examples.ids]
        longest = max(text_lengths, default=0)
        self.micro_batches = micro_batches
        # the padded batch that each packed one is made of is cut to its longest text
        super().__init__(examples, lengths=range(1, longest + 1), **options)

        lengths = [row_length] if row_length else _possible_lengths(longest, longest_row)
        counts = {length: self._count_rows(length) for length in lengths}
        self.row_length = min(lengths, key=lambda length: _cost(length, counts[length]))
        self.least_rows = statistics.mode(counts[self.row_length])

        del self.fingerprint["lengths"]
        self.fingerprint |= {"row_length": self.row_length, "micro_batches": micro_batches}

    def batch(self, step: int, part: slice = slice(None)) -> PackedBatch:
        """Return the batch of a step, with that of `BucketedBatches` as `alone`.

        `part` must be all of it.
        """
        indices, count = self._pad_step(step)
        tokens = self._tokens[indices]
        tokens[count:] = 0
        return pack_batch(
            super().batch(step, part),
            tokens.tolist(),
            self.row_length,
            least_rows=self.least_rows,
            micro_batches=self.micro_batches,
        )

    def shapes_in(self, epoch: int) -> list[tuple[int, int]]:
        """Return (rows, tokens) of each batch of an epoch, in order."""
        shapes = []
        for count in self._count_rows(self.row_length, epoch, self.steps_per_epoch):
            height = max(count, self.least_rows) * self.micro_batches
            shapes.append((height, self.row_length))
        return shapes

    def _count_rows(self, length: int, epoch: int = 0, steps: int = _TRIED) -> list[int]:
        """Return the rows that the largest micro-batch of each of an epoch's first steps needs."""
        size = max(self.batch_size // self.micro_batches, 1)
        counts = []
        for indices in self._plan_epoch(epoch)[:steps]:
            tokens = self._tokens[indices].tolist()
            largest = 0
            for start in range(0, len(tokens), size):
                micro_batch = tokens[start : start + size]
                plan = first_fit(micro_batch, length)
                largest = max(largest, len(plan))
            counts.append(largest)
        return counts

    def _split_pool(self, pool: np.ndarray, key: np.ndarray) -> list[np.ndarray]:
        """Deal a text of each stratum to each batch; see the module's docstring."""
        batch_size = self.batch_size
        count = math.ceil(len(pool) / batch_size)
        strata = np.full((batch_size, count), -1)
        strata.flat[: len(pool)] = pool

        stratum = np.arange(batch_size)
        stratum_keys = fork(key, stratum)
        scores = fork(stratum_keys[:, None], np.arange(count))
        shuffled = np.argsort(scores, axis=1)
        dealt = np.take_along_axis(strata, shuffled, axis=1)

        # micro-batches are consecutive parts: each gets long and short texts
        micro_batch = stratum % self.micro_batches
        order = np.argsort(micro_batch, kind="stable")
        batches = dealt[order].T
        return [batch[batch >= 0] for batch in batches]


def _possible_lengths(longest: int, longest_row: int) -> list[int]:
    """Return the lengths of rows to try: from the longest text's to twice that."""
    first = -(-longest // _STEP) * _STEP
    last = min(2 * first, longest_row)
    lengths = list(range(first, last + 1, _STEP))
    return lengths or [longest]


def _cost(length: int, counts: Sequence[int]) -> float:
    """Return the cost of steps with so many rows of a length, in tokens without attention."""
    usual = statistics.mode(counts)
    total = sum(max(count, usual) for count in counts)
    attention = length / _AS_LONG
    return total * length * (1 + attention)
