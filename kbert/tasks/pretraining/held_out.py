"""Split of shards into training and held-out data, and metrics on the latter."""

import numpy as np

from kbert.data.corpus.shards import open_shards
from kbert.data.pretraining.pretraining_batches import PretrainingBatches, warn_of_long
from kbert.tasks.pretraining.settings import PretrainingSettings

SHARE = 0.05  # of the documents, where there are enough to spare them
ENOUGH_DOCUMENTS = 100


def open_batches(
    paths: dict, settings: PretrainingSettings
) -> tuple[PretrainingBatches, PretrainingBatches | None]:
    """Return the batches to train with, and those to evaluate with or None.

    Args:
        paths: the folders of "shards" and "dev"; the latter may be None.
        settings: the run's.

    Raises:
        OSError, ValueError: shards that cannot be read, or do not fit each other.
    """
    shards, dev = open_shards(paths["shards"]), None
    share = _share(shards, paths["dev"], settings.dev_ratio)
    if paths["dev"] is not None:
        dev = open_shards(paths["dev"])
        if dev.tokenizer.tokens != shards.tokenizer.tokens:
            raise ValueError(f"dev must have the vocabulary of {paths['shards']}, got another")
    opened = [shards] if dev is None else [shards, dev]
    if share:
        shards, dev = shards.split(share)
    names = (
        "batch_size",
        "seq_len",
        "max_predictions",
        "seed",
        "mlm_probability",
        "short_seq_probability",
    )
    options = {name: getattr(settings, name) for name in (*names, "whole_word", "mlm_only")}
    train = PretrainingBatches(shards, **options)
    batches = train, None if dev is None else PretrainingBatches(dev, **options)
    if not settings.mlm_only:
        for whole in opened:
            warn_of_long(whole, settings.seq_len)
    return batches


def _share(shards, dev, dev_ratio: float | None) -> float:
    """Return the ratio of the shards to evaluate on."""
    if dev is not None:
        if dev_ratio:
            raise ValueError(
                f"dev and dev_ratio cannot go together: leave one out, got {dev_ratio}"
            )
        return 0
    if dev_ratio is None:
        return SHARE if shards.documents >= ENOUGH_DOCUMENTS else 0
    return dev_ratio


class HeldOutEvaluation:
    """Losses and accuracies on held-out batches: the same examples and masks every time.

    Args:
        engine: whose weights are evaluated.
        batches: the held-out ones.
        most: how many at most; one pass has as many as there are whole ones, at least one.
    """

    def __init__(self, engine, batches: PretrainingBatches, most: int):
        self._engine, self._batches = engine, batches
        self._count = min(most, max(1, batches.examples_per_epoch(0) // batches.batch_size))

    def __call__(self) -> dict[str, float]:
        """Return each output's loss and accuracy over all the batches, and the losses' sum."""
        part = self._engine.slice_examples(self._batches.batch_size)
        sums: dict[str, np.ndarray] = {}
        for step in range(self._count):
            metrics_and_weights = self._engine.evaluate(self._batches.batch(step, part))
            for name, pair in metrics_and_weights.items():
                sums[name] = sums.get(name, 0.0) + np.array(pair)
        metrics = {name: float(total / weight) for name, (total, weight) in sums.items() if weight}
        losses = [value for name, value in metrics.items() if name.endswith("_loss")]
        return {"loss": sum(losses)} | metrics
