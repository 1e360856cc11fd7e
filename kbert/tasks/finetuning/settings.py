"""What a fine-tuning run is asked for: everything that its result depends on, beside the data."""

from dataclasses import dataclass
from typing import ClassVar

from kbert.io import json_schema as js
from kbert.training.run_settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class FinetuningSettings(RunSettings):
    """Settings of `finetune`; they are kept in the run's settings.json.

    Args:
        epochs: passes over the training data.
        batch_size: examples of an update, over all devices and hosts.
        max_length: tokens of an example at most; the rest is cut off, or read in windows.
        lengths: that batches may have, ascending; None: few where XLA compiles for each, else
            every fourth.
        learning_rate: the highest, reached at the end of the warm-up.
        warmup_share: of the updates, over which the rate grows from 0.
        optimizer: "adamw" or "lamb".
        schedule: "linear" decay to 0 after the warm-up, or "constant".
        weight_decay: of the optimizer; biases and LayerNorm have none.
        clip_norm: what the global norm of the gradients is cut to; None: to nothing.
        accumulation: micro-batches that an update is made of, one after the other.
        precision: "float32", "mixed_bfloat16" or "mixed_float16".
        jit: whether XLA compiles the step; None: as is faster on the device.
        rematerialize: compute each encoder block again for the backward pass instead of keeping
            its activations: less memory, more time, the same numbers.
        seed: of the head's first weights, the order of the data, and the dropout.
        keep_best: whether the result has the weights that did best on the dev data, or the last.
        evaluate_every: updates between two evaluations; None: an epoch.
        save_every: updates between two states; None: at evaluations that are the best so far and
            at the end.
        log_every: updates between two lines of metrics.jsonl.

    Raises:
        ValueError: a value out of its range.
    """

    command: ClassVar[str] = "finetune"
    kept_fields: ClassVar[dict] = {"task": js.TEXT}

    epochs: int = 3
    batch_size: int = 32
    max_length: int = 128
    lengths: tuple[int, ...] | None = None
    learning_rate: float = 5e-5
    warmup_share: float = 0.1
    optimizer: str = "adamw"
    schedule: str = "linear"
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0
    accumulation: int = 1
    precision: str = "float32"
    jit: bool | None = None
    rematerialize: bool = False
    seed: int = 0
    keep_best: bool = True
    evaluate_every: int | None = None
    save_every: int | None = None
    log_every: int = 1
