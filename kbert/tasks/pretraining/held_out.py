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

    `paths` are the folders of "shards" and "dev"; the latter may be None.
    """
    shards, dev = open_shards(paths["shards"]), None
    share = settings.dev_ratio
    if paths.get("dev") is not None:
        if share:
            raise ValueError(f"dev and dev_ratio cannot go together: leave one out, got {share}")
        dev = open_shards(paths["dev"])
        if dev.tokenizer.tokens != shards.tokenizer.tokens:
            raise ValueError(f"dev must have the vocabulary of {paths['shards']}, got another")
    elif share is None and shards.documents >= ENOUGH_DOCUMENTS:
        share = SHARE
    opened = [shards] if dev is None else [shards, dev]
    if share:
        shards, dev = shards.split(share)
    names = ["batch_size", "seq_len", "max_predictions", "seed", "mlm_probability"]
    names += ["short_seq_probability", "whole_word", "mlm_only"]
    options = {name: getattr(settings, name) for name in names}
    train = PretrainingBatches(shards, **options)
    batches = train, None if dev is None else PretrainingBatches(dev, **options)
    if not settings.mlm_only:
        for whole in opened:
            warn_of_long(whole, settings.seq_len)
    return batches


def evaluate_held_out(engine, batches: PretrainingBatches, most: int) -> dict[str, float]:
    """Return each output's loss and accuracy over held-out batches, and the losses' sum.

    Examples and masks are the same every time: `most` batches, or those of one pass, at least one.
    """
    count = min(most, max(1, batches.examples_per_epoch(0) // batches.batch_size))
    part = engine.slice_examples(batches.batch_size)
    sums: dict[str, np.ndarray] = {}
    for step in range(count):
        for name, pair in engine.evaluate(batches.batch(step, part)).items():
            sums[name] = sums.get(name, 0.0) + np.array(pair)
    metrics = {name: float(total / weight) for name, (total, weight) in sums.items() if weight}
    losses = [value for name, value in metrics.items() if name.endswith("_loss")]
    return {"loss": sum(losses)} | metrics
