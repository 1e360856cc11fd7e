"""Batches of labelled examples of like lengths, in few static shapes.

A batch is as long as the first of a few lengths that holds its longest example. Its examples come
from a pool of many batches that is sorted by length, so little of it is padding; the pools are
drawn again in every epoch, and the batches shuffled.
"""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from kbert.data.counter_rng import fork, key_of
from kbert.data.padding import LENGTHS, fitting_lengths, pad_sequences, pick_length
from kbert.data.training_batch import TrainingBatch
from kbert.graph.config import require_positive
from kbert.graph.names import SEGMENT_IDS, TOKEN_IDS

IGNORED = -100  # a label that counts for nothing, as in transformers
POOL = 50  # batches that are sorted by length together

_POOLS, _ORDER, _DEAL = 0, 1, 2  # purposes of the draws


@dataclass(frozen=True)
class Examples:
    """Labelled examples of any length.

    Args:
        ids: token ids of each example, with [CLS] and [SEP].
        segment_ids: segment ids of each example, as long as its ids.
        labels: labels by the model's output, one per example: a class id; or class ids for each
            token, where IGNORED is not counted; or a float; or float32 (classes,), 0 or 1.
        class_weights: weights of the classes, by output; without them all labels have the same
            weight.
        notes: the task's own data, one per example, such as the record that it is from.

    Raises:
        ValueError: lists of different lengths.
    """

    ids: Sequence[Sequence[int]]
    segment_ids: Sequence[Sequence[int]]
    labels: Mapping[str, Sequence]
    notes: Sequence = ()
    class_weights: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        counts = {"segment_ids": len(self.segment_ids)}
        counts |= {f"labels of {name}": len(found) for name, found in self.labels.items()}
        if self.notes:
            counts["notes"] = len(self.notes)
        for name, count in counts.items():
            if count != len(self):
                raise ValueError(f"{name} must be as many as ids, {len(self)}, got {count}")

    def __len__(self) -> int:
        return len(self.ids)

    def digest(self) -> str:
        """Return a hash of all that a model is given, 16 hexadecimal digits."""
        found = hashlib.sha256()
        groups = (self.ids, self.segment_ids, *self.labels.values(), *self.class_weights.values())
        for rows in groups:
            for row in rows:
                array = np.asarray(row, np.float32 if _is_float(row) else np.int32)
                found.update(np.int32(array.size).tobytes() + array.tobytes())
        return found.hexdigest()[:16]


class BucketedBatches:
    """Batches of labelled examples, as `kbert.data.training_batch.Batches`.

    Every example occurs once per epoch, which has `steps_per_epoch` steps. The last, incomplete
    batch of an epoch is padded with rows of weight 0. A batch is a pure function of (seed, step).

    Args:
        examples: the training examples.
        batch_size: examples in a step, over all hosts.
        seed: seed of the order.
        pad_id: the padding token.
        lengths: allowed lengths of batches, ascending; the longest example must fit.
        pool: number of batches that are sorted by length together; 1: the order is random.

    Raises:
        ValueError: no example, or one that is longer than the last of `lengths`.

    Attributes:
        batch_size, steps_per_epoch: as above.
        fingerprint: a hash of the examples, and the settings, as JSON.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        batch_size: int,
        seed: int = 0,
        pad_id: int = 0,
        lengths: Sequence[int] = LENGTHS,
        pool: int = POOL,
    ):
        self.examples = examples
        self.batch_size = require_positive("batch_size", batch_size)
        self.pool = require_positive("pool", pool)
        if not len(examples):
            raise ValueError("examples must be one or more, got none")
        self.seed, self.pad_id = int(seed), pad_id
        self._tokens = np.array([len(row) for row in examples.ids])
        self.lengths = fitting_lengths(lengths, int(self._tokens.max()))
        self.steps_per_epoch = -(-len(examples) // batch_size)
        self._plan: tuple[int, list[np.ndarray]] = (-1, [])
        self.fingerprint = {
            "examples": examples.digest(),
            "count": len(examples),
            "batch_size": batch_size,
            "seed": self.seed,
            "lengths": list(self.lengths),
            "pool": pool,
        }

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """Return the rows `part` of the batch of a step, counted from 0.

        Returns:
            A `TrainingBatch`: Input-Token and Input-Segment int32 (B, S), S one of `lengths`; each
            output's labels int32 (B,) or (B, S). All labels of an output weigh the same, and
            1 / (number of outputs) together.

        Raises:
            ValueError: a step that is not a whole number from 0 on.
        """
        return self._made(*self._filled(step), part)

    def with_lengths(self, lengths: Sequence[int]) -> Self:
        """Return the same batches, of other lengths."""
        other = copy.copy(self)
        other.lengths = fitting_lengths(lengths, int(self._tokens.max()))
        other.fingerprint = self.fingerprint | {"lengths": list(other.lengths)}
        return other

    def lengths_in(self, epoch: int) -> list[int]:
        """Return how long each batch of an epoch is, in tokens, in their order."""
        return [self._length(places) for places in self._epoch(epoch)]

    def shapes_in(self, epoch: int) -> list[tuple[int, int]]:
        """Return rows and tokens of each batch of an epoch, in their order."""
        return [(self.batch_size, length) for length in self.lengths_in(epoch)]

    def _length(self, places: np.ndarray) -> int:
        return pick_length(self.lengths, int(self._tokens[places].max()))

    def _made(self, places: np.ndarray, count: int, part: slice) -> TrainingBatch:
        """Return a batch whose first `count` rows count."""
        length = self._length(places)
        share = 1 / len(self.examples.labels)
        real = (np.arange(len(places)) < count)[part]
        labels, weights = {}, {}
        for name, given in self.examples.labels.items():
            of_classes = self.examples.class_weights.get(name)
            total = sum(_counts(given[p], of_classes).sum() for p in places[:count])
            rows = _labels([given[p] for p in places[part]], length)
            counts = _counts(rows, of_classes) * real.reshape(-1, *[1] * (rows.ndim - 1))
            labels[name] = rows if _is_float(rows) else np.where(rows == IGNORED, 0, rows)
            weights[name] = (counts * (share / (total or 1))).astype(np.float32)
        ids = [self.examples.ids[p] for p in places[part]]
        segments = [self.examples.segment_ids[p] for p in places[part]]
        inputs = {TOKEN_IDS: pad_sequences(ids, length, self.pad_id)}
        return TrainingBatch(
            inputs | {SEGMENT_IDS: pad_sequences(segments, length, 0)}, labels, weights
        )

    def _filled(self, step: int) -> tuple[np.ndarray, int]:
        """Return a step's examples, padded with its first one, and how many of them count."""
        if step < 0:
            raise ValueError(f"step must be a whole number of at least 0, got {step}")
        places = self._places(step)
        count = len(places)
        return np.concatenate([places, np.full(self.batch_size - count, places[0])]), count

    def _places(self, step: int) -> np.ndarray:
        """Return the indices of a step's examples: batch_size of them, or fewer in the last."""
        epoch, turn = divmod(step, self.steps_per_epoch)
        known, plan = self._plan  # one pair: the loop asks for batches in a thread of its own
        if known != epoch:
            plan = self._epoch(epoch)
            self._plan = epoch, plan
        return plan[turn]

    def _epoch(self, epoch: int) -> list[np.ndarray]:
        """Return all batches of an epoch, in order."""
        order = _shuffled(key_of(self.seed, epoch, _POOLS), len(self.examples))
        batches, size = [], self.pool * self.batch_size
        for start in range(0, len(order), size):
            pool = order[start : start + size]
            if self.pool > 1:
                pool = pool[np.argsort(self._tokens[pool], kind="stable")]
            batches += self._batches_of(pool, key_of(self.seed, epoch, _DEAL, start))
        return [batches[n] for n in _shuffled(key_of(self.seed, epoch, _ORDER), len(batches))]

    def _batches_of(self, pool: np.ndarray, key: np.ndarray) -> list[np.ndarray]:
        """Return a pool that is sorted by length as batches; `key` is for what they draw."""
        return [pool[n : n + self.batch_size] for n in range(0, len(pool), self.batch_size)]


def _shuffled(key: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(fork(key, np.arange(count)), kind="stable")


def _labels(rows: Sequence, length: int) -> np.ndarray:
    """Return (B,) of numbers, (B, classes) of rows of floats, float32 or int32.

    Of sequences of whole numbers int32 (B, length), filled up with IGNORED.
    """
    if _is_float(rows[0]):
        return np.array(rows, np.float32)
    return (
        np.array(rows, np.int32) if np.ndim(rows[0]) == 0 else pad_sequences(rows, length, IGNORED)
    )


def _counts(labels, class_weights: np.ndarray | None) -> np.ndarray:
    """Return the weight of each label: float64, in the shape of the labels."""
    if _is_float(labels):
        return np.ones(np.shape(labels))
    counted = np.not_equal(labels, IGNORED)
    if class_weights is None:
        return counted.astype(np.float64)
    return np.where(counted, np.asarray(class_weights)[np.where(counted, labels, 0)], 0.0)


def _is_float(labels) -> bool:
    return np.asarray(labels).dtype.kind == "f"
