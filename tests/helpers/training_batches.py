"""Small batches for training, made without kbert's own data code."""

import numpy as np

from kbert.data.training_batch import TrainingBatch
from kbert.graph import names

LENGTH, PREDICTIONS = 11, 5


def arrays(kind: str, updates: int, batch_size: int, vocab_size: int = 99) -> dict:
    """Random ids of different lengths, and labels, by name: (updates, batch_size, …) int64."""
    random = np.random.default_rng(7)
    shape = (updates, batch_size)
    tokens = random.integers(5, vocab_size, (*shape, LENGTH))
    lengths = random.integers(6, LENGTH + 1, shape)
    tokens[np.arange(LENGTH) >= lengths[..., None]] = 0
    ids = {"tokens": tokens, "segments": random.integers(0, 3, tokens.shape)}
    if kind == "classifier":
        return ids | {"labels": random.integers(0, 3, shape)}
    shuffled = random.permuted(np.broadcast_to(np.arange(1, 6), (*shape, 5)), axis=-1)
    counts = random.integers(1, PREDICTIONS + 1, shape)  # the rest is padding, position 0
    positions = np.where(np.arange(PREDICTIONS) < counts[..., None], shuffled, 0)
    labels = random.integers(5, vocab_size, positions.shape)
    return ids | {"positions": positions, "labels": labels, "nsp": random.integers(0, 2, shape)}


def batch_of(arrays: dict, step: int) -> TrainingBatch:
    """An update of `arrays` as the engines take it."""
    one = {name: array[step].astype("int32") for name, array in arrays.items()}
    size = len(one["tokens"])
    inputs = {names.TOKEN_IDS: one["tokens"], names.SEGMENT_IDS: one["segments"]}
    even = np.full(size, 1 / size, "float32")
    if "positions" not in one:
        return TrainingBatch(inputs, {names.CLASSIFIER: one["labels"]}, {names.CLASSIFIER: even})
    real = (one["positions"] != 0).astype("float32")
    return TrainingBatch(
        inputs | {names.MASKED_POSITIONS: one["positions"]},
        {names.MLM: one["labels"], names.NSP: one["nsp"]},
        {names.MLM: real / real.sum(), names.NSP: even},
    )
