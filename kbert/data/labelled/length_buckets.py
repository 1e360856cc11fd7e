"""Batches of labelled examples of similar lengths, in few static shapes.

A batch is as long as the first of a few lengths that holds its longest example. Its examples come
from a pool of many batches that is sorted by number of sequences and length, so little of it is
padding. Pools are sampled again in every epoch, and the batches shuffled.
"""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from kbert.data.counter_rng import fork, key_of
from kbert.data.padding import LENGTHS, fitting_lengths, pad_sequences, pick_length
from kbert.data.training_batch import Batches, TrainingBatch
from kbert.graph.config import require_positive
from kbert.graph.names import SEGMENT_IDS, SEQUENCE_MASK, TOKEN_IDS

IGNORED = -100  # a label that counts for nothing, as in transformers
POOL = 50  # batches that are sorted by length together

_POOLS, _ORDER, _DEAL = 0, 1, 2  # purposes of random numbers


@dataclass(frozen=True)
class Examples:
    """Labelled examples of any length.

    Args:
        ids: token ids of each example, with [CLS] and [SEP].
        segment_ids: segment ids of each example, as long as its ids.
        labels: labels by the model's output, one per example: a class id; or class ids for each
            token, where IGNORED is not counted; or a float; or float32 (classes,), 0 or 1.
        notes: the task's own data, one per example, such as the record that it is from.
        class_weights: weights of the classes, by output; without them all labels have the same
            weight.
        counts: the number of sequences of each example, one after the other in `ids`; (): one each.
        weights: the weight of each example, times that of its labels; (): all weigh the same.

    Raises:
        ValueError: lists of different lengths.
    """

    ids: Sequence[Sequence[int]]
    segment_ids: Sequence[Sequence[int]]
    labels: Mapping[str, Sequence]
    notes: Sequence = ()
    class_weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    counts: Sequence[int] = ()
    weights: Sequence[float] = ()

    def __post_init__(self):
        segment_counts = len(self.segment_ids), len(self.ids)
        counts = {"segment_ids": segment_counts}
        for name, labels in self.labels.items():
            counts[f"labels of {name}"] = len(labels), len(self)
        if self.notes:
            counts["notes"] = len(self.notes), len(self)
        if self.weights:
            counts["weights"] = len(self.weights), len(self)
        if self.counts:
            counts["sequences"] = sum(self.counts), len(self.ids)

        for name, (count, expected) in counts.items():
            if count != expected:
                raise ValueError(f"{name} must be as many as ids, {expected}, got {count}")

    def __len__(self) -> int:
        return len(self.counts or self.ids)

    def index_sequences(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the indices of each example's sequences, (N,), or (N, C) and which of them it has.

        An example with fewer than C has its first one again in their place.
        """
        if not self.counts:
            return np.arange(len(self.ids)), None

        counts = np.array(self.counts)[:, None]
        firsts = np.cumsum(counts)[:, None] - counts
        columns = np.arange(counts.max())
        mask = columns < counts
        return firsts + columns * mask, mask

    def group_sequences(self, outputs: Sequence) -> list:
        """Return one output of each example: that of its sequence, or the array of those of all."""
        if not self.counts:
            return list(outputs)
        ends = np.cumsum(self.counts)
        joined = np.concatenate(outputs)
        return np.split(joined, ends[:-1])

    def digest(self) -> str:
        """Return a hash of all that the model reads, 16 hexadecimal digits."""
        labels = self.labels.values()
        class_weights = self.class_weights.values()
        groups = [self.ids, self.segment_ids, *labels, *class_weights]
        for values in (self.counts, self.weights):
            if values:
                groups.append([values])

        sha256 = hashlib.sha256()
        for group in groups:
            for values in group:
                dtype = np.float32 if _is_float(values) else np.int32
                array = np.asarray(values, dtype)
                sha256.update(np.int32(array.size).tobytes())
                sha256.update(array.tobytes())
        return sha256.hexdigest()[:16]


class BucketedBatches(Batches):
    """Batches of labelled examples.

    Every example occurs once per epoch, which has `steps_per_epoch` steps. The last, incomplete
    batch of an epoch is padded with examples of weight 0. A batch is a pure function of (seed,
    step).

    Args:
        batch_size: examples in a step, over all hosts.
        seed: seed of the order.
        lengths: allowed lengths of batches, ascending; the longest example must fit.
        pool: number of batches that are sorted by length together; 1: the order is random.
        pad_counts: whether all batches have as many sequences per example as the largest example,
            as where each shape is compiled; else as many as their own largest.

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
        pad_counts: bool = False,
    ):
        count = len(examples)
        self.examples = examples
        self.batch_size = require_positive("batch_size", batch_size)
        self.pool = require_positive("pool", pool)
        if not count:
            raise ValueError("examples must be one or more, got none")
        self.seed = int(seed)
        self.pad_id = pad_id

        self._sequences, self._mask = examples.index_sequences()
        self._weights = np.array(examples.weights or np.ones(count))
        tokens_by_text = [len(ids) for ids in examples.ids]
        self._sequence_tokens = np.array(tokens_by_text)
        tokens = self._sequence_tokens[self._sequences]
        self._tokens = tokens.reshape(count, -1).max(1)
        if self._mask is None:
            self._counts = np.ones(count, int)
        else:
            self._counts = self._mask.sum(1)
        self._widths = self._counts
        if pad_counts:
            self._widths = np.full(count, self._counts.max())

        longest = int(self._tokens.max())
        self.lengths = fitting_lengths(lengths, longest)
        self.steps_per_epoch = -(-count // batch_size)
        self._plan: tuple[int, list[np.ndarray]] = (-1, [])
        self.fingerprint = {
            "examples": examples.digest(),
            "count": count,
            "batch_size": batch_size,
            "seed": self.seed,
            "lengths": list(self.lengths),
            "pool": pool,
        }

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """Return the examples `part` of the batch of a step, counted from 0.

        Returns:
            A `TrainingBatch`: Input-Token and Input-Segment int32 (B, S), S one of `lengths`, or
            (B, C, S) where examples have several sequences; each output's labels int32 (B,) or (B,
            S). All labels of an output weigh the same, and 1 / (number of outputs) together.
        """
        indices, count = self._pad_step(step)
        length = self._pick_length(indices)
        labels, weights = self._label_step(indices, count, part, length)

        chosen = indices[part]
        if self._mask is None:
            return TrainingBatch(self._pad_sequences(chosen, length), labels, weights)
        width = self._widths[indices].max()
        inputs = self._pad_sequences(self._sequences[chosen, :width], length)
        mask = self._mask[chosen, :width]
        inputs[SEQUENCE_MASK] = mask.astype(np.int32)
        return TrainingBatch(inputs, labels, weights)

    def _label_step(
        self, indices: np.ndarray, count: int, part: slice, length: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the labels and the weights of the examples `part` of a step, by output.

        `indices` are all examples of the step, of which the first `count` are no padding.
        """
        chosen = indices[part]
        is_real = np.arange(len(indices)) < count
        example_weights = self._weights[chosen] * is_real[part]
        labels = {}
        weights = {}
        for name, values in self.examples.labels.items():
            array = _stack_labels([values[n] for n in chosen], length)
            labels[name] = array
            if not _is_float(array):
                labels[name] = np.where(array == IGNORED, 0, array)

            class_weights = self.examples.class_weights.get(name)
            total = 0.0
            for n in indices[:count]:
                example_total = _weigh(values[n], class_weights).sum()
                total += example_total * self._weights[n]
            num_outputs = len(self.examples.labels)
            share = 1 / num_outputs / (total or 1)

            label_axes = tuple(range(1, array.ndim))
            by_example = np.expand_dims(example_weights, label_axes)
            label_weights = by_example * _weigh(array, class_weights)
            weights[name] = (label_weights * share).astype(np.float32)
        return labels, weights

    def _pick_length(self, indices: np.ndarray) -> int:
        """Return the length of a batch of these examples."""
        longest = self._tokens[indices].max()
        return pick_length(self.lengths, int(longest))

    def with_lengths(self, lengths: Sequence[int]) -> Self:
        """Return the same batches, of other lengths."""
        other = copy.copy(self)
        longest = int(self._tokens.max())
        other.lengths = fitting_lengths(lengths, longest)
        other.fingerprint = self.fingerprint | {"lengths": list(other.lengths)}
        return other

    def lengths_in(self, epoch: int) -> list[int]:
        """Return the length of each batch of an epoch, in tokens, in order."""
        return [length for _, length in self.shapes_in(epoch)]

    def shapes_in(self, epoch: int) -> list[tuple[int, int]]:
        """Return (rows, tokens) of each batch of an epoch, in order."""
        shapes = []
        for indices in self._plan_epoch(epoch):
            width = int(self._widths[indices].max())
            length = self._pick_length(indices)
            shapes.append((self.batch_size * width, length))
        return shapes

    def _pad_sequences(self, sequences: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Return the model's inputs, int32 (…, length), for indices of sequences."""
        columns = (
            (TOKEN_IDS, self.examples.ids, self.pad_id),
            (SEGMENT_IDS, self.examples.segment_ids, 0),
        )
        inputs = {}
        for name, lists, fill in columns:
            chosen = [lists[n] for n in sequences.ravel()]
            flat = pad_sequences(chosen, length, fill)
            inputs[name] = flat.reshape(*sequences.shape, length)
        return inputs

    def _pad_step(self, step: int) -> tuple[np.ndarray, int]:
        """Return a step's examples, padded with its first one, and how many of them count."""
        if step < 0:
            raise ValueError(f"step must be a whole number of at least 0, got {step}")
        epoch, turn = divmod(step, self.steps_per_epoch)
        known, plan = self._plan  # one pair: the loop asks for batches in a thread of its own
        if known != epoch:
            plan = self._plan_epoch(epoch)
            self._plan = epoch, plan

        indices = plan[turn]
        count = len(indices)  # batch_size, or fewer in the last
        padding = np.full(self.batch_size - count, indices[0])
        return np.concatenate([indices, padding]), count

    def _plan_epoch(self, epoch: int) -> list[np.ndarray]:
        """Return the indices of all batches of an epoch, in order."""
        key = key_of(self.seed, epoch, _POOLS)
        order = _shuffle(key, len(self.examples))
        size = self.pool * self.batch_size
        batches = []
        for start in range(0, len(order), size):
            pool = order[start : start + size]
            if self.pool > 1:
                counts = self._counts[pool]
                by_length = np.lexsort((self._tokens[pool], counts))
                pool = pool[by_length]
            deal_key = key_of(self.seed, epoch, _DEAL, start)
            batches += self._split_pool(pool, deal_key)

        order_key = key_of(self.seed, epoch, _ORDER)
        order = _shuffle(order_key, len(batches))
        return [batches[n] for n in order]

    def _split_pool(self, pool: np.ndarray, key: np.ndarray) -> list[np.ndarray]:
        """Return the batches of a pool that is sorted by length; `key` is for random choices."""
        starts = range(0, len(pool), self.batch_size)
        return [pool[start : start + self.batch_size] for start in starts]


def _shuffle(key: np.ndarray, count: int) -> np.ndarray:
    scores = fork(key, np.arange(count))
    return np.argsort(scores, kind="stable")


def _stack_labels(labels: Sequence, length: int) -> np.ndarray:
    """Return (B,) of numbers, float32 (B, classes), or int32 (B, length) padded with IGNORED."""
    if _is_float(labels[0]):
        return np.array(labels, np.float32)
    if np.ndim(labels[0]) == 0:
        return np.array(labels, np.int32)
    return pad_sequences(labels, length, IGNORED)


def _weigh(labels, class_weights: np.ndarray | None) -> np.ndarray:
    """Return the weight of each label: float64, in the shape of the labels."""
    if _is_float(labels):
        return np.ones(np.shape(labels))
    mask = np.not_equal(labels, IGNORED)
    if class_weights is None:
        return mask.astype(np.float64)

    classes = np.where(mask, labels, 0)
    weights = np.asarray(class_weights)[classes]
    return np.where(mask, weights, 0.0)


def _is_float(labels) -> bool:
    return np.asarray(labels).dtype.kind == "f"
