"""Batches of records of several texts each: pairs, triplets, scored pairs, labelled sentences.

A batch's inputs are (B, C, S), C texts per record, padded to one length. Labelled sentences become
pairs with the same label, or triplets with a third of another label, sampled again in every epoch.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kbert.data.counter_rng import below, fork, key_of
from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.data.padding import pick_length
from kbert.data.training_batch import TrainingBatch

_PARTNERS = 3  # a purpose of random numbers, beside those of `BucketedBatches`
_SAME, _OTHER = 0, 1


@dataclass(frozen=True)
class TextColumns(Examples):
    """Records of several texts each: `ids` are the different texts, with [CLS] and [SEP].

    Args:
        columns: int32 (N, C), the texts of each record by index; (N, 1) for sentences.
        scores: float32 (N,) for scored pairs, else (0,).
        groups: int32 (N,), each labelled sentence's label, else (0,). Each label has two sentences
            or more.
    """

    columns: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), np.int32))
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    groups: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    @classmethod
    def from_texts(
        cls, texts: Sequence[Sequence[int]], columns: np.ndarray, **others
    ) -> "TextColumns":
        """Create it from texts' ids, of which equal ones become one, and from its own fields."""
        numbers: dict[tuple[int, ...], int] = {}
        renumbered = []
        for text in texts:
            number = numbers.setdefault(tuple(text), len(numbers))
            renumbered.append(number)
        different = list(numbers)
        columns = np.asarray(renumbered, np.int32)[columns]
        segment_ids: list = [()] * len(different)
        return cls(different, segment_ids, {}, columns=columns, **others)

    def __len__(self) -> int:
        return len(self.columns)

    def index_sequences(self) -> tuple[np.ndarray, None]:
        return self.columns, None

    def digest(self) -> str:
        """Return a hash of all that the model reads, 16 hexadecimal digits."""
        sha256 = hashlib.sha256(self.columns.tobytes())
        for text in self.ids:
            length = np.int32(len(text))
            ids = np.asarray(text, np.int32)
            sha256.update(length.tobytes())
            sha256.update(ids.tobytes())
        for array in (self.scores, self.groups):
            sha256.update(array.tobytes())
        return sha256.hexdigest()[:16]


class ColumnBatches(BucketedBatches):
    """`TextColumns` as `kbert.data.training_batch.Batches`; see `BucketedBatches`.

    Args:
        output: the name of the labels.
        texts_per_record: number of texts in a record made of labelled sentences, 2 or 3.

    Attributes:
        count: C, the number of texts in a record.
    """

    examples: TextColumns

    def __init__(
        self,
        examples: TextColumns,
        *,
        output: str,
        texts_per_record: int = 2,
        **options,
    ):
        super().__init__(examples, **options)
        labelled = len(examples.groups) > 0
        self._output = output
        self.count = texts_per_record if labelled else examples.columns.shape[1]
        self._widths = np.full(len(examples), self.count)
        self.fingerprint |= {"columns": self.count}

        if labelled:
            self._by_label = np.argsort(examples.groups, kind="stable")
            self._ranks = np.argsort(self._by_label)  # indices in `_by_label`
            self._sizes = np.bincount(examples.groups)
            self._firsts = np.cumsum(self._sizes) - self._sizes

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """Return the examples `part` of the batch of a step, counted from 0.

        Inputs are (B, C, S), S one of `lengths`. Labels are scores, float32 (B,); else int32
        (B, C), the index of each text or the label of each labelled sentence. Weights are float32
        (B,), 1 together.
        """
        indices, count = self._pad_step(step)
        epoch = step // self.steps_per_epoch
        texts, labels = self._columns(indices, epoch)
        longest = int(self._sequence_tokens[texts].max())
        length = pick_length(self.lengths, longest)
        is_real = np.arange(len(indices)) < count
        weights = is_real.astype(np.float32) / np.float32(count)
        return TrainingBatch(
            self._pad_sequences(texts[part], length),
            {self._output: labels[part]},
            {self._output: weights[part]},
        )

    def find_batch_without_negatives(self, epochs: int) -> np.ndarray | None:
        """Return the records of the first batch in which no text is a negative of another's.

        The incomplete batch of an epoch counts only if it is the epoch's only one: else its loss
        is 0 just once.
        """
        for step in range(epochs * self.steps_per_epoch):
            indices, count = self._pad_step(step)
            is_whole = count == self.batch_size or self.steps_per_epoch == 1
            if not is_whole:
                continue
            epoch = step // self.steps_per_epoch
            _, labels = self._columns(indices[:count], epoch)
            for column in labels.T[:2]:
                if len(np.unique(column)) == 1:
                    return indices[:count]
        return None

    def _columns(self, indices: np.ndarray, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts of records, (B, C), and their labels.

        For a labelled sentence one of the same label is sampled, and for C = 3 one of another.
        """
        examples = self.examples
        if not len(examples.groups):
            texts = examples.columns[indices]
            if not len(examples.scores):
                return texts, texts
            return texts, examples.scores[indices]

        epoch_key = key_of(self.seed, epoch, _PARTNERS)
        keys = fork(epoch_key, indices)
        groups = examples.groups[indices]
        sizes = self._sizes[groups]
        firsts = self._firsts[groups]

        ahead = 1 + below(keys, _SAME, sizes - 1)
        rank = self._ranks[indices] - firsts
        same_rank = (rank + ahead) % sizes
        same = self._by_label[firsts + same_rank]
        columns = [indices, same]

        if self.count > 2:
            total = len(self._by_label)
            beyond = below(keys, _OTHER, total - sizes)
            different = (firsts + sizes + beyond) % total
            columns.append(self._by_label[different])

        sentences = np.stack(columns, 1)
        return examples.columns[sentences, 0], examples.groups[sentences]
