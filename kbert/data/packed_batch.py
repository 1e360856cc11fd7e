"""Sequence packing: several texts per row, and batches of such rows.

Krell et al., "Efficient Sequence Packing without Cross-contamination" (arXiv 2107.02027): attention
stays within each text, and positions restart with it, so every text has the numbers that it has
alone. transformers calls it padding-free training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.graph.names import PACKED_FIRSTS, PACKED_POSITIONS, PACKED_TEXTS, TOKEN_IDS


@dataclass(frozen=True)
class PackedBatch(TrainingBatch):
    """The examples of a step, several per row.

    Attributes:
        inputs: the model's inputs, int32: those of the plain graph, PACKED_POSITIONS and
            PACKED_TEXTS (R, S), and PACKED_FIRSTS (B,), within a micro-batch's rows end to end.
        labels, weights: as in a `TrainingBatch` if each example has a label, (B,); if each token
            has one, (R, S).
        alone: the same examples, one per row.
    """

    alone: TrainingBatch

    def __len__(self) -> int:
        return len(self.alone)

    def select(self, part: slice) -> TrainingBatch:
        """Return some of its examples, one per row, because packed rows mix examples."""
        some = self.alone.select(part)
        return TrainingBatch(one_per_row(some.inputs), some.labels, some.weights)


def one_per_row(inputs: Mapping[str, np.ndarray], pad_id: int = 0) -> dict[str, np.ndarray]:
    """Return the packed graph's inputs for the plain graph's, int32 (B, S): one text per row."""
    ids = inputs[TOKEN_IDS]
    count, length = ids.shape
    row_positions = np.arange(length, dtype=np.int32)
    positions = np.broadcast_to(row_positions, ids.shape)
    packed = {
        PACKED_POSITIONS: positions.copy(),
        PACKED_TEXTS: (ids != pad_id).astype(np.int32),
        PACKED_FIRSTS: np.arange(count, dtype=np.int32) * length,
    }
    return {**inputs, **packed}


def first_fit(lengths: Sequence[int], row_length: int) -> list[list[int]]:
    """Return the texts of each row: the longest first, each into the first row with space for it.

    Texts without tokens are left out; one that is longer than a row raises a ValueError.
    """
    longest = max(lengths, default=0)
    if longest > row_length:
        raise ValueError(f"row_length must hold the longest text, {longest}, got {row_length}")

    rows: list[list[int]] = []
    space: list[int] = []
    texts = range(len(lengths))
    for text in sorted(texts, key=lambda text: -lengths[text]):
        tokens = lengths[text]
        if not tokens:
            continue
        fitting = (row for row, left in enumerate(space) if left >= tokens)
        row = next(fitting, len(rows))
        if row == len(rows):
            rows.append([])
            space.append(row_length)
        rows[row].append(text)
        space[row] -= tokens
    return rows


def pack_batch(
    batch: TrainingBatch,
    lengths: Sequence[int],
    row_length: int,
    *,
    least_rows: int = 1,
    micro_batches: int = 1,
) -> PackedBatch:
    """Pack a batch's examples, several per row of `row_length` tokens.

    Args:
        batch: one example per row, padded: Input-Token and Input-Segment, (B, S'); labels of texts,
            (B,), or of tokens, (B, S').
        lengths: number of tokens of each example; 0: an example of weight 0, which is left out.
        least_rows: minimum number of rows of a micro-batch.
        micro_batches: number of micro-batches with equally many examples and equally many rows.
    """
    plans = _plan_micro_batches(lengths, row_length, micro_batches)
    row_count = max(least_rows, max(len(plan) for plan in plans))

    tokens = np.array(lengths)
    firsts = np.cumsum(tokens) - tokens
    text = np.repeat(np.arange(len(batch)), tokens)  # of each token
    first_of_text = np.repeat(firsts, tokens)
    position = np.arange(len(text)) - first_of_text
    starts, numbers = _locate_texts(plans, tokens, row_count, row_length)
    targets = starts[text] + position
    text_labels = _find_text_labels(batch.labels)

    def pack(values: np.ndarray) -> np.ndarray:
        packed = np.zeros((row_count * micro_batches, row_length), values.dtype)
        packed.flat[targets] = values
        return packed

    def pack_group(group: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        packed = {}
        for name, array in group.items():
            if name in text_labels:
                packed[name] = array
            else:
                packed[name] = pack(array[text, position])
        return packed

    packed_inputs = {
        PACKED_POSITIONS: pack(position.astype(np.int32)),
        PACKED_TEXTS: pack(numbers[text].astype(np.int32)),
        PACKED_FIRSTS: (starts % (row_count * row_length)).astype(np.int32),
    }
    return PackedBatch(
        pack_group(batch.inputs) | packed_inputs,
        pack_group(batch.labels),
        pack_group(batch.weights),
        batch,
    )


def _plan_micro_batches(
    lengths: Sequence[int], row_length: int, micro_batches: int
) -> list[list[list[int]]]:
    """Return the texts of each row of each micro-batch."""
    size, rest = divmod(len(lengths), micro_batches)
    if rest:
        raise ValueError(
            f"a batch must be a multiple of {micro_batches} examples here, got {len(lengths)}"
        )
    plans = []
    for first in range(0, len(lengths), size):
        micro_batch = lengths[first : first + size]
        plans.append(first_fit(micro_batch, row_length))
    return plans


def _find_text_labels(labels: Mapping[str, np.ndarray]) -> set[str]:
    """Return the names of the labels that texts have, not tokens."""
    names = set()
    for name, array in labels.items():
        # a row of floats is of a text, whole numbers may be its tokens'
        if array.ndim == 1 or array.dtype.kind == "f":
            names.add(name)
    return names


def _locate_texts(
    plans: Sequence[list[list[int]]], tokens: np.ndarray, row_count: int, row_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return each text's start in all rows end to end, and its number in its row, from 1.

    `plans` has the texts of each micro-batch's rows; both are 0 for an empty text.
    """
    size = len(tokens) // len(plans)
    starts = np.zeros(len(tokens), np.int64)
    numbers = np.zeros(len(tokens), np.int64)
    for micro_batch, plan in enumerate(plans):
        first_text = micro_batch * size
        first_row = micro_batch * row_count
        for row, members in enumerate(plan, first_row):
            texts = np.array(members) + first_text
            before = np.cumsum(tokens[texts]) - tokens[texts]
            starts[texts] = row * row_length + before
            numbers[texts] = 1 + np.arange(len(texts))
    return starts, numbers
