"""Labelled examples packed into rows of one length: nearly no padding, and nearly one shape.

A step has texts of all lengths. They are dealt as cards are: a pool of many batches is sorted by
length and cut into `batch_size` strata, and every batch draws one text of each. So all steps have
about as many tokens and need as many rows, and none is of short texts alone, as in buckets.
"""

import statistics
from collections.abc import Sequence

import numpy as np

from kbert.data.counter_rng import fork
from kbert.data.labelled.length_buckets import POOL, BucketedBatches, Examples
from kbert.data.packed_batch import PackedBatch, first_fit, pack_batch

_STEP = 8  # tokens between two lengths of rows that are tried
_TRIED = 50  # updates that a length is tried on
# Tokens of a row whose attention takes as long as the rest of an encoder block: 384 wide, measured
# on a CPU with 96 and 128, some 400 in bfloat16 and 1,000 in float32.
_AS_LONG = 768


class PackedBatches(BucketedBatches):
    """Labelled examples, several a row, as `kbert.data.training_batch.Batches`.

    Every example comes once an epoch; batches of an epoch's end may have fewer than the others.

    Args:
        examples: what is trained on; their labels are of texts or of tokens.
        batch_size: examples of a step.
        seed: of the order.
        pad_id: the padding token.
        row_length: tokens of a row; None: the one that costs least, of the longest example's to
            `longest_row`.
        longest_row: of the lengths that are tried.
        micro_batches: parts of a step, packed each.
        pool: batches whose texts are dealt out together.

    Raises:
        ValueError: no example, one that is longer than a row.

    Attributes:
        row_length: as above.
        least_rows: how many rows a micro-batch has at least; where it needs more, it has more.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        batch_size: int,
        seed: int = 0,
        pad_id: int = 0,
        row_length: int | None = None,
        longest_row: int = 512,
        micro_batches: int = 1,
        pool: int = POOL,
    ):
        longest = max(map(len, examples.ids), default=0)
        self.micro_batches = micro_batches
        # the padded batch that each packed one is made of is cut to its longest text
        super().__init__(
            examples,
            batch_size=batch_size,
            seed=seed,
            pad_id=pad_id,
            lengths=range(1, longest + 1),
            pool=pool,
        )
        lengths = [row_length] if row_length else _lengths(longest, longest_row)
        tried = {length: self._rows_needed(length) for length in lengths}
        self.row_length = min(lengths, key=lambda length: _cost(length, tried[length]))
        self.least_rows = statistics.mode(tried[self.row_length])
        del self.fingerprint["lengths"]
        self.fingerprint |= {"row_length": self.row_length, "micro_batches": micro_batches}

    def batch(self, step: int, part: slice = slice(None)) -> PackedBatch:
        """Update `step`, counted from 0; `part` must be all of it.

        Returns:
            A `PackedBatch`; `alone` is as `BucketedBatches` has it.

        Raises:
            ValueError: a step that is not a whole number from 0 on.
        """
        alone = super().batch(step, part)
        tokens = self._tokens[self._places(step)]
        nothing = np.zeros(len(alone) - len(tokens), tokens.dtype)
        return pack_batch(
            alone,
            np.concatenate([tokens, nothing]).tolist(),
            self.row_length,
            least_rows=self.least_rows,
            micro_batches=self.micro_batches,
        )

    def shapes_in(self, epoch: int) -> list[tuple[int, int]]:
        """Return rows and tokens of each batch of an epoch, in their order."""
        counts = self._rows_needed(self.row_length, epoch, self.steps_per_epoch)
        return [
            (max(count, self.least_rows) * self.micro_batches, self.row_length) for count in counts
        ]

    def _rows_needed(self, length: int, epoch: int = 0, updates: int = _TRIED) -> list[int]:
        """Return rows of each of an epoch's first steps, of the micro-batch that needs most."""
        size = max(self.batch_size // self.micro_batches, 1)
        return [
            max(
                len(first_fit(tokens[start : start + size], length))
                for start in range(0, len(tokens), size)
            )
            for tokens in (self._tokens[places].tolist() for places in self._epoch(epoch)[:updates])
        ]

    def _batches_of(self, pool: np.ndarray, key: np.ndarray) -> list[np.ndarray]:
        """Return a text of each stratum for each batch; see the module's docstring."""
        count = -(-len(pool) // self.batch_size)
        strata = np.full((self.batch_size, count), -1)
        strata.flat[: len(pool)] = pool
        draws = fork(fork(key, np.arange(len(strata)))[:, None], np.arange(count))
        dealt = np.take_along_axis(strata, np.argsort(draws, axis=1), axis=1)
        # micro-batches are parts of what stands together: long and short texts for each
        order = np.argsort(np.arange(self.batch_size) % self.micro_batches, kind="stable")
        return [column[column >= 0] for column in dealt[order].T]


def _lengths(longest: int, limit: int) -> Sequence[int]:
    """Return the allowed row lengths: from the longest text's to twice that."""
    first = -(-longest // _STEP) * _STEP
    return [n for n in range(first, 2 * first + 1, _STEP) if n <= limit] or [longest]


def _cost(length: int, counts: Sequence[int]) -> float:
    """Return the cost of steps with so many rows of a length, in tokens without attention."""
    usual = statistics.mode(counts)
    return sum(max(count, usual) for count in counts) * length * (1 + length / _AS_LONG)
