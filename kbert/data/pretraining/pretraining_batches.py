"""Pretraining batches from shards, with new masks in every epoch."""

import bisect
import logging
import math
import os
import threading

import numpy as np

from kbert.data.corpus.shards import Shards, open_shards
from kbert.data.pretraining import masking
from kbert.data.pretraining.packed import Packed
from kbert.data.pretraining.pairs import Pairs
from kbert.data.training_batch import Batches, TrainingBatch
from kbert.graph import aliases
from kbert.graph.config import require_positive
from kbert.graph.names import (
    MASKED_POSITIONS,
    MLM,
    NSP,
    PACKED_POSITIONS,
    PACKED_TEXTS,
    SEGMENT_IDS,
    TOKEN_IDS,
)

MASKED_SHARE = 0.15  # the paper's, section 3.1
SHORT_SHARE = 0.1  # the paper's, appendix A.2

_CACHED_PLANS, _CACHED_EXAMPLES = 2, 1 << 20  # epochs at least; an example has 8 bytes
_SETTINGS = (  # of the fingerprint
    "batch_size",
    "seq_len",
    "max_predictions",
    "seed",
    "mlm_probability",
    "short_seq_probability",
    "whole_word",
    "mlm_only",
    "separate_documents",
)
_WORTH_A_WARNING = 0.01  # of the tokens: every corpus has some sentences that are too long

_logger = logging.getLogger("kbert")


class PretrainingBatches(Batches):
    """Batches of MLM and NSP examples.

    A batch is a pure function of (seed, step): example g = step · batch_size + row, counted over
    all epochs. Every example occurs once per epoch. Each epoch has its own order, pairs,
    truncations and masks. Only the requested rows are made. The first call plans all epochs up to
    its step: about one second for an epoch of 3 million examples.

    Args:
        shards: from `open_shards` or `prepare`, or their folder.
        batch_size: examples in a training step, over all hosts.
        seq_len: tokens in an example (S).
        max_predictions: maximum number of predictions in an example (M); None: ⌈mlm_probability ·
            seq_len⌉, which is 20 for 128, as in Google's code.
        seed: seed of all random numbers.
        mlm_probability: fraction of the tokens that are predicted.
        short_seq_probability: fraction of the examples that are short, with a uniform length from 2
            tokens on.
        whole_word: whether to predict all pieces of a word or none. With several hosts, each one
            then makes the whole batch, to know the number of predictions.
        mlm_only: whether to use full sequences of packed documents without pairs, see
            `data.packed`; the weight of NSP is then 0.
        separate_documents: whether the tokens of such a sequence shall attend to their own document
            alone; the batches then have the inputs of the packed graph.

    Raises:
        ValueError: a size or fraction out of its range; pairs from a corpus of one document.
        OSError, ValueError: a folder that `open_shards` refuses.

    Attributes:
        batch_size, seq_len, max_predictions: as above.
        fingerprint: shards and settings, as JSON.
    """

    @aliases.answer_old_names
    def __init__(
        self,
        shards: Shards | str | os.PathLike,
        *,
        batch_size: int,
        seq_len: int,
        max_predictions: int | None = None,
        seed: int = 0,
        mlm_probability: float = MASKED_SHARE,
        short_seq_probability: float = SHORT_SHARE,
        whole_word: bool = False,
        mlm_only: bool = False,
        separate_documents: bool = False,
    ):
        if not isinstance(shards, Shards):
            shards = open_shards(shards)
        self.shards = shards
        self.batch_size = require_positive("batch_size", batch_size)
        self.seq_len = require_positive("seq_len", seq_len)
        _check(shards, seq_len, mlm_probability, short_seq_probability, mlm_only)
        if max_predictions is None:
            max_predictions = count_predictions(mlm_probability, seq_len)
        self.max_predictions = require_positive("max_predictions", max_predictions)
        self.seed = int(seed)
        self.mlm_probability = float(mlm_probability)
        self.short_seq_probability = float(short_seq_probability)
        self.whole_word = bool(whole_word)
        self.mlm_only = bool(mlm_only)
        self.separate_documents = bool(separate_documents)
        if separate_documents and not mlm_only:
            raise ValueError(
                "separate_documents must go with mlm_only, whose sequences hold several documents: "
                "give both, or leave it out"
            )

        self._examples: Packed | Pairs
        if mlm_only:
            self._examples = Packed(shards, seq_len, self.seed)
        else:
            self._examples = Pairs(shards, seq_len, self.short_seq_probability, self.seed)
        tokens = shards.tokenizer.tokens
        continues = [token.startswith("##") for token in tokens]
        self._continues = np.array(continues)
        self._ordinary = ordinary_ids(shards.tokenizer)
        self._plans: dict[int, np.ndarray] = {}
        self._ends: list[int] = []  # examples up to the end of each epoch
        self._lock = threading.RLock()  # the loop asks for batches in a thread of its own

        settings = {name: getattr(self, name) for name in _SETTINGS}
        self.fingerprint = {"shards": shards.fingerprint} | settings

    def __repr__(self) -> str:
        return (
            f"PretrainingBatches({self.shards!r}, {self.batch_size} × {self.seq_len} tokens, "
            f"{self.max_predictions} predictions at most, seed {self.seed})"
        )

    def batch(self, step: int, part: slice = slice(None)) -> TrainingBatch:
        """Return the rows `part` of the batch of a step, counted from 0.

        Returns:
            A `TrainingBatch`: Input-Token and Input-Segment int32 (B, S), Input-Positions int32 (B,
            M); labels MLM (B, M) and NSP (B,), 0: B follows A, 1: B is random. The weights are 1 /
            (predictions of the whole step) and 1 / (its examples).

        Raises:
            ValueError: the step is not a whole number from 0 on.
            OSError: a file of the shards was removed or truncated.
        """
        if step < 0:
            raise ValueError(f"step must be a whole number of at least 0, got {step}")
        return self.make_batch(step * self.batch_size, self.batch_size, part)

    def make_batch(self, first: int, size: int, part: slice = slice(None)) -> TrainingBatch:
        """Return the rows `part` of a batch of any size, from an example on; see `batch`."""
        examples = self._select_examples(first, size)
        counts = self._count_predictions(examples)
        if self.whole_word:
            filled = examples.fill(self.shards, self.seq_len)
            chosen = masking.choose_whole_words(examples.keys, filled, counts, self._continues)
            total = int(chosen.sum())
            batch = self._batch(examples, filled, chosen, total, size)
            return batch.select(part)

        examples = examples.part(part)
        filled = examples.fill(self.shards, self.seq_len)
        chosen = masking.choose_tokens(examples.keys, filled, counts[part])
        total = int(counts.sum())
        return self._batch(examples, filled, chosen, total, size)

    def _count_predictions(self, examples) -> np.ndarray:
        """Return the number of each example's predictions, int64.

        It is max(1, round(share · length)), as far as there are so many.
        """
        counts = np.rint(examples.lengths * self.mlm_probability)
        counts = np.maximum(1, counts).astype(np.int64)
        counts = np.minimum(counts, self.max_predictions)
        return np.minimum(counts, examples.maskable)

    def examples_per_epoch(self, epoch: int = 0) -> int:
        """Return the number of examples in an epoch; pairs, and so this, vary by epoch."""
        with self._lock:
            while len(self._ends) <= epoch:
                count = len(self._plan(len(self._ends)))
                before = self._ends[-1] if self._ends else 0
                self._ends.append(before + count)

        first = self._ends[epoch - 1] if epoch else 0
        return self._ends[epoch] - first

    def epoch_of(self, step: int) -> int:
        """Return the epoch, from 0, of the first example of a step."""
        return self._find_epoch(step * self.batch_size)

    def _find_epoch(self, example: int) -> int:
        while not self._ends or self._ends[-1] <= example:
            self.examples_per_epoch(len(self._ends))
        return bisect.bisect_right(self._ends, example)

    def _select_examples(self, example: int, count: int):
        """Return so many examples, from one on, as slices of one epoch or more."""
        end = example + count
        epoch = self._find_epoch(example)
        groups: list = []  # of `PairExamples`, or of `PackedExamples`
        while example < end:
            in_epoch = self.examples_per_epoch(epoch)
            first = self._ends[epoch] - in_epoch
            numbers = self._plan(epoch)[example - first : end - first]
            groups.append(self._examples.select(epoch, numbers))
            example += len(numbers)
            epoch += 1
        return groups[0].join(groups[1:])

    def _plan(self, epoch: int) -> np.ndarray:
        with self._lock:
            if epoch not in self._plans:
                self._plans[epoch] = self._examples.plan(epoch)
                self._forget_plans()
            return self._plans[epoch]

    def _forget_plans(self) -> None:
        """Forget the plans that were made first, while they are many and have many examples."""
        examples = sum(len(plan) for plan in self._plans.values())
        while len(self._plans) > _CACHED_PLANS and examples > _CACHED_EXAMPLES:
            oldest = next(iter(self._plans))
            examples -= len(self._plans.pop(oldest))

    def _batch(
        self, examples, filled, chosen: np.ndarray, predictions: int, size: int
    ) -> TrainingBatch:
        positions, real = masking.positions_of(chosen, self.max_predictions)
        originals = np.take_along_axis(filled.ids, positions, axis=1)
        labels = np.where(real, originals, 0)
        mask_id = self.shards.tokenizer.mask_id
        keys = examples.keys
        ids = masking.mask_tokens(keys, filled.ids, chosen, mask_id, self._ordinary)

        mlm_weights = real / max(predictions, 1)
        mlm_weights = mlm_weights.astype(np.float32)
        nsp_weight = 0.0 if self.mlm_only else 1 / size
        inputs = {TOKEN_IDS: ids, SEGMENT_IDS: filled.segments}
        if self.separate_documents:
            inputs |= self._number_documents(filled.ids)
        return TrainingBatch(
            inputs=inputs | {MASKED_POSITIONS: positions},
            labels={
                MLM: labels.astype(np.int32),
                NSP: examples.is_random.astype(np.int32),
            },
            weights={
                MLM: mlm_weights,
                NSP: np.full(len(ids), nsp_weight, np.float32),
            },
        )

    def _number_documents(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Return the packed graph's inputs, int32 (B, S): positions, and documents from 1 on.

        Positions run through the whole sequence. A document's [SEP] belongs to it, and [CLS] to the
        first one.
        """
        tokenizer = self.shards.tokenizer
        is_end = ids == tokenizer.sep_id
        numbers = np.cumsum(is_end, axis=1) - is_end + 1
        numbers[ids == tokenizer.pad_id] = 0
        positions = np.broadcast_to(np.arange(self.seq_len, dtype=np.int32), ids.shape)
        return {PACKED_POSITIONS: positions, PACKED_TEXTS: numbers.astype(np.int32)}


def count_predictions(mlm_probability: float, seq_len: int) -> int:
    """Return the number of predictions of a full sequence, rounded up."""
    return math.ceil(round(mlm_probability * seq_len, 9))  # 0.07 · 100 > 7


def ordinary_ids(tokenizer) -> np.ndarray:
    """Return every id except the special tokens', int32: random tokens are sampled from them."""
    special = [
        tokenizer.pad_id,
        tokenizer.unk_id,
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.mask_id,
    ]
    ids = np.arange(tokenizer.vocab_size, dtype=np.int32)
    return np.setdiff1d(ids, special).astype(np.int32)


def _check(shards: Shards, seq_len, mlm_probability, short_seq_probability, mlm_only) -> None:
    if seq_len < 8:
        raise ValueError(f"seq_len must be at least 8, to hold two segments, got {seq_len}")
    if not 0 < mlm_probability <= 1:
        raise ValueError(f"mlm_probability must be a share, up to 1, got {mlm_probability!r}")
    if not 0 <= short_seq_probability <= 1:
        raise ValueError(
            f"short_seq_probability must be a share, up to 1, got {short_seq_probability!r}"
        )
    if mlm_only or shards.documents >= 2:
        return

    part = ""
    way_out = "Mark where documents begin"
    if shards.share is not None:
        part = f", the part of {shards.share} that was split off,"
        way_out = "Choose another dev_ratio, or 0"
    raise ValueError(
        f"{shards.folder}{part} must hold at least two documents, got one: next-sentence "
        f"prediction takes half of the second segments from another. {way_out}, or train with "
        "mlm_only=True (--mlm-only)"
    )


def warn_of_long(shards: Shards, seq_len: int) -> None:
    """Log how many sentences are longer than an example: the rest of each is not trained on."""
    changes = np.zeros(len(shards.offsets), np.int64)  # 1 within these documents
    np.add.at(changes, shards.starts, 1)
    np.add.at(changes, shards.ends, -1)
    is_within = np.cumsum(changes)[:-1] > 0
    lengths = np.diff(shards.offsets)[is_within]

    longest = seq_len - 3
    long = lengths[lengths > longest]
    cut_ratio = (long - longest).sum() / lengths.sum()
    if cut_ratio > _WORTH_A_WARNING:
        _logger.warning(
            "%s: %d of %d sentences are longer than seq_len=%d: %.1f %% of the tokens are cut off",
            shards.folder,
            len(long),
            len(lengths),
            seq_len,
            100 * cut_ratio,
        )
