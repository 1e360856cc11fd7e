"""What a fine-tuning run is asked for: everything that its result depends on, beside the data."""

from dataclasses import dataclass
from typing import ClassVar

from kbert.io import json_schema as js
from kbert.tasks.distillation.settings import DEFAULTS, DistillationSettings
from kbert.training.run_settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class FinetuningSettings(DistillationSettings, RunSettings):
    """Settings of `finetune`, beside those of every run (`RunSettings`) and of a teacher.

    Args:
        epochs: passes over the training data.
        max_length: tokens of an example at most; the rest is cut off, or read in windows.
        lengths: that batches may have, ascending; None: few where XLA compiles for each, else
            every fourth. With `packing` the one of its rows; None: the one that wastes least.
        packing: whether several examples share a row, each with attention within it and positions
            of its own: the same numbers, nearly no padding and one shape. Batches are then of all
            lengths, where else each is of like lengths. For "classify" and "tag", on one device.
        label_smoothing: share of each label that goes to all labels alike (Szegedy et al. 2016,
            section 7); for "classify" and "tag".
        class_weights: "balanced" has a label of a class count for the number of labels over that of
            the classes and of its own (as scikit-learn's); None: each the same. For "classify" and
            "tag"; losses of evaluations have neither.
        learning_rate: the highest, reached at the end of the warm-up.
        warmup_share: of the updates, over which the rate grows from 0.
        keep_best: whether the result has the weights that did best on the dev data, or the last.
        evaluate_every: updates between two evaluations; None: an epoch.
        save_every: updates between two states; None: at evaluations that are the best so far and
            at the end.
        log_every: updates between two lines of metrics.jsonl.

    Raises:
        ValueError: a value out of its range.
    """

    command: ClassVar[str] = "finetune"
    first: ClassVar[tuple[str, ...]] = (
        *("epochs", "batch_size", "max_length", "lengths", "packing"),
        *("label_smoothing", "class_weights"),
        *("learning_rate", "warmup_share", "optimizer"),
    )
    other_fields: ClassVar[dict] = {"task": js.TEXT}
    later: ClassVar[dict] = {
        "packing": False,
        "label_smoothing": 0.0,
        "class_weights": None,
    } | DEFAULTS

    epochs: int = 3
    max_length: int = 128
    lengths: tuple[int, ...] | None = None
    packing: bool = False
    label_smoothing: float = 0.0
    class_weights: str | None = None
    learning_rate: float = 5e-5
    warmup_share: float = 0.1
    keep_best: bool = True
    evaluate_every: int | None = None
    save_every: int | None = None
    log_every: int = 1
