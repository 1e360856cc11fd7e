"""Sequence packing: several texts per row, and batches of such rows.

Krell et al., "Efficient Sequence Packing without Cross-contamination" (arXiv 2107.02027): attention
is kept within each text, and positions begin again with it, so every text has the numbers that it
has alone. transformers calls it padding-free training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.graph.names import PACKED_FIRSTS, PACKED_POSITIONS, PACKED_TEXTS, TOKEN_IDS

# Inputs of the packed graph besides those of the plain one.
POSITIONS = PACKED_POSITIONS  # int32 (R, S): of a token in its text
TEXTS = PACKED_TEXTS  # int32 (R, S): which text of its row, from 1; 0: padding
FIRSTS = PACKED_FIRSTS  # int32 (B,): where texts begin, in a micro-batch's rows end to end


@dataclass(frozen=True)
class PackedBatch(TrainingBatch):
    """The examples of a step, several per row.

    Attributes:
        inputs: the model's inputs, int32 (R, S), and those named above.
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
    """Return the inputs of the packed graph for rows of one text each.

    Args:
        inputs: those of the plain graph, int32 (B, S).
        pad_id: the padding token.
    """
    ids = inputs[TOKEN_IDS]
    rows, length = ids.shape
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), ids.shape)
    texts = (ids != pad_id).astype(np.int32)
    firsts = np.arange(rows, dtype=np.int32) * length
    return {**inputs, POSITIONS: positions.copy(), TEXTS: texts, FIRSTS: firsts}


def first_fit(lengths: Sequence[int], row_length: int) -> list[list[int]]:
    """Pack texts into rows: the longest first, each into the first row with space for it.

    Args:
        lengths: tokens of each text; texts without tokens are left out.
        row_length: tokens of a row.

    Raises:
        ValueError: a text is longer than a row.
    """
    if max(lengths, default=0) > row_length:
        raise ValueError(f"row_length must hold the longest text, {max(lengths)}, got {row_length}")
    rows: list[list[int]] = []
    room: list[int] = []
    for text in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if not (tokens := lengths[text]):
            continue
        row = next((row for row, left in enumerate(room) if left >= tokens), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(row_length)
        rows[row].append(text)
        room[row] -= tokens
    return rows


def pack_batch(
    batch: TrainingBatch,
    lengths: Sequence[int],
    row_length: int,
    *,
    least_rows: int = 1,
    micro_batches: int = 1,
) -> PackedBatch:
    """Pack a batch's examples, several per row.

    Args:
        batch: one example per row, padded: Input-Token and Input-Segment, (B, S'); labels of texts,
            (B,), or of tokens, (B, S').
        lengths: number of tokens of each example; 0: an example of weight 0, which is left out.
        row_length: S, the number of tokens in a row.
        least_rows: minimum number of rows of a micro-batch.
        micro_batches: number of parts with equally many examples, each packed into equally many
            rows.

    Raises:
        ValueError: a text that is longer than a row; a number of examples that the micro-batches do
            not divide.
    """
    size, rest = divmod(len(batch), micro_batches)
    if rest:
        raise ValueError(
            f"a batch must be a multiple of {micro_batches} examples here, got {len(batch)}"
        )
    plans = [
        first_fit(lengths[start : start + size], row_length) for start in range(0, len(batch), size)
    ]
    count = max(least_rows, *map(len, plans))
    starts, numbers = _standing(plans, lengths, size, count * row_length, row_length)
    shape = count * micro_batches, row_length
    text = np.repeat(np.arange(len(batch)), lengths)  # of each token
    position = np.concatenate([np.arange(tokens) for tokens in lengths])

    # a row of floats is of a text, whole numbers may be its tokens'
    of_texts = {name for name, a in batch.labels.items() if a.ndim == 1 or a.dtype.kind == "f"}

    def laid(array):
        rows = np.zeros(shape, array.dtype)
        rows.flat[starts[text] + position] = array
        return rows

    def every(group):
        return {
            name: array if name in of_texts else laid(array[text, position])
            for name, array in group.items()
        }

    where = {
        POSITIONS: laid(position.astype(np.int32)),
        TEXTS: laid(numbers[text].astype(np.int32)),
        FIRSTS: (starts % (count * row_length)).astype(np.int32),
    }
    return PackedBatch(
        every(batch.inputs) | where, every(batch.labels), every(batch.weights), batch
    )


def _standing(plans, lengths, size: int, tokens: int, row_length: int):
    """Return each text's start in all rows end to end, and its number in its row, from 1.

    Args:
        plans: rows of each micro-batch, of `size` texts and with space for so many tokens.
        lengths: tokens of all texts; a text without tokens has 0, 0.
        row_length: tokens of a row.
    """
    starts, numbers = np.zeros((2, len(lengths)), np.int64)
    for part, plan in enumerate(plans):
        for row, places in enumerate(plan):
            at = part * tokens + row * row_length
            for number, place in enumerate(places, start=1):
                text = part * size + place
                starts[text], numbers[text] = at, number
                at += lengths[text]
    return starts, numbers
