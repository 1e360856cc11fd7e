"""Batches of records of several texts each: pairs, triplets, scored pairs, labelled sentences.

A batch's inputs are (B, C, S), C texts a record, padded to one length. Labelled sentences become
pairs of two of one label, or triplets with one of another label, drawn again in every epoch.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kbert.data.counter_rng import below, fork, key_of
from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.data.padding import pad_sequences, pick_length
from kbert.data.training_batch import TrainingBatch
from kbert.graph.names import SEGMENT_IDS, TOKEN_IDS

_PARTNERS = 3  # a purpose of the draws, beside those of `BucketedBatches`
_LIKE, _OTHER = 0, 1


@dataclass(frozen=True)
class TextColumns(Examples):
    """Records of several texts each.

    Args:
        ids: token ids of each record's longest text.
        segment_ids: nothing: () a record.
        labels: none: {}.
        texts: token ids of each text that there is, [CLS] and [SEP] among them.
        columns: int32 (N, C), which of the texts stand in each record; (N, 1) of sentences.
        scores: float32 (N,), of scored pairs; (0,) of others.
        groups: int32 (N,), each labelled sentence's label; (0,) of others. Each label has two
            sentences or more.
    """

    texts: Sequence[Sequence[int]] = ()
    columns: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), np.int32))
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    groups: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    @classmethod
    def from_texts(
        cls, texts: Sequence[Sequence[int]], columns: np.ndarray, **others
    ) -> "TextColumns":
        """From the fields after `texts`; equal texts become one."""
        numbers: dict[tuple[int, ...], int] = {}
        renumbered = [numbers.setdefault(tuple(text), len(numbers)) for text in texts]
        columns = np.asarray(renumbered, np.int32)[columns]
        lengths = np.array([len(text) for text in numbers])
        different = list(numbers)
        longest = columns[np.arange(len(columns)), lengths[columns].argmax(1)]
        ids = [different[place] for place in longest]
        return cls(ids, [()] * len(ids), {}, texts=different, columns=columns, **others)

    def digest(self) -> str:
        """Return a hash of all that a model is given, 16 hexadecimal digits."""
        found = hashlib.sha256(self.columns.tobytes())
        for text in self.texts:
            found.update(np.int32(len(text)).tobytes() + np.asarray(text, np.int32).tobytes())
        for array in (self.scores, self.groups):
            found.update(array.tobytes())
        return found.hexdigest()[:16]


class ColumnBatches(BucketedBatches):
    """`TextColumns` as `kbert.data.training_batch.Batches`; see `BucketedBatches`.

    Args:
        examples: what is trained on.
        output: what the labels are called.
        as_rows: whether labels are (B, 1) where they are scores.
        drawn: texts of a record that is drawn for a labelled sentence, 2 or 3.
        options: of `BucketedBatches`.

    Attributes:
        count: C, texts of a record.
    """

    examples: TextColumns

    def __init__(
        self,
        examples: TextColumns,
        *,
        output: str,
        as_rows: bool = False,
        drawn: int = 2,
        **options,
    ):
        super().__init__(examples, **options)
        self._output, self._as_rows = output, as_rows
        self._lengths_of_texts = np.array([len(text) for text in examples.texts])
        labelled = len(examples.groups) > 0
        self.count = drawn if labelled else examples.columns.shape[1]
        self.fingerprint |= {"columns": self.count}
        if labelled:
            self._by_label = np.argsort(examples.groups, kind="stable")
            sizes = np.bincount(examples.groups)
            self._sizes, self._firsts = sizes, np.cumsum(sizes) - sizes
            self._ranks = np.empty(len(examples), np.int64)  # places in `_by_label`
            self._ranks[self._by_label] = np.arange(len(examples))

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """Return the rows `part` of the batch of a step, counted from 0.

        Returns:
            A `TrainingBatch`: Input-Token and Input-Segment int32 (B, C, S), S one of `lengths`.
            Labels: scores, float32 (B,) or (B, 1); else int32 (B, C), which text each is, of
            labelled sentences which label. Weights float32 (B,), 1 together.

        Raises:
            ValueError: a step that is not a whole number from 0 on.
        """
        filled, count = self._filled(step)
        texts, labels = self._columns(filled, step // self.steps_per_epoch)
        length = pick_length(self.lengths, int(self._lengths_of_texts[texts].max()))
        chosen = texts[part]
        rows = [self.examples.texts[place] for place in chosen.ravel()]
        ids = pad_sequences(rows, length, self.pad_id).reshape(*chosen.shape, length)
        weights = (np.arange(len(filled)) < count).astype(np.float32) / np.float32(count)
        return TrainingBatch(
            {TOKEN_IDS: ids, SEGMENT_IDS: np.zeros_like(ids)},
            {self._output: labels[part]},
            {self._output: weights[part]},
        )

    def shapes_in(self, epoch: int) -> list[tuple[int, int]]:
        """Return rows and tokens of each batch of an epoch, in their order."""
        return [(self.batch_size * self.count, length) for length in self.lengths_in(epoch)]

    def find_batch_without_negatives(self, epochs: int) -> np.ndarray | None:
        """Return the records of the first batch in which no text is a negative of another's.

        It is None if there is no such batch.

        The odd batch of an epoch counts where it has no other: else its loss is 0, once.
        """
        for step in range(epochs * self.steps_per_epoch):
            places = self._places(step)
            _, numbers = self._columns(places, step // self.steps_per_epoch)
            whole = len(places) == self.batch_size or self.steps_per_epoch == 1
            if whole and any(len(np.unique(column)) == 1 for column in numbers.T[:2]):
                return places
        return None

    def _columns(self, places: np.ndarray, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts of records, (B, C), and their labels."""
        examples = self.examples
        if len(examples.groups):
            drawn = self._drawn(places, epoch)
            return examples.columns[drawn, 0], examples.groups[drawn]
        texts = examples.columns[places]
        if not len(examples.scores):
            return texts, texts
        scores = examples.scores[places]
        return texts, scores[:, None] if self._as_rows else scores

    def _drawn(self, places: np.ndarray, epoch: int) -> np.ndarray:
        """Return sentences, each with another of its label, and one of another label.

        The shape is (B, 2 or 3).
        """
        keys = fork(key_of(self.seed, epoch, _PARTNERS), places)
        groups = self.examples.groups[places]
        sizes, firsts = self._sizes[groups], self._firsts[groups]
        ahead = 1 + below(keys, _LIKE, sizes - 1)
        like = firsts + (self._ranks[places] - firsts + ahead) % sizes
        found = [places, self._by_label[like]]
        if self.count > 2:
            beyond = below(keys, _OTHER, len(self._by_label) - sizes)
            found.append(self._by_label[(firsts + sizes + beyond) % len(self._by_label)])
        return np.stack(found, 1)
