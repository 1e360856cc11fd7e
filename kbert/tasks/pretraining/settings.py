"""Settings of a pretraining run: everything that its result depends on, except the data."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kbert.graph.config import BertConfig
from kbert.io import json_schema as js
from kbert.tasks.distillation.settings import DistillationSettings
from kbert.training.settings.run_settings import RunSettings

MOST_WARMUP = 10_000  # the paper's warm-up (appendix A.2)


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings(DistillationSettings, RunSettings):
    """Settings of `pretrain`.

    The settings of every run (`RunSettings`) and of distillation (`DistillationSettings`) belong to
    them; the parts that are trained are those of `init`.

    Args:
        steps: number of training steps.
        seq_len: number of tokens per example.
        max_predictions: maximum number of masked tokens per example. None: `mlm_probability` of the
            tokens, rounded up.
        learning_rate: peak learning rate, reached after warm-up.
        warmup_steps: number of warm-up steps. None: a tenth of `steps`, at most 10,000. The rate
            grows linearly.
        mlm_probability: share of the tokens that the model predicts.
        short_seq_probability: share of the examples that are shorter than `seq_len`.
        whole_word: mask whole words.
        mlm_only: train on full sequences, without next-sentence prediction.
        dev_ratio: share of the documents that is held out for evaluation; 0 for none. None: 0.05 of
            100 documents or more, if there is no `dev`.
        evaluate_every: number of steps between two evaluations. None: a tenth of `steps`.
        evaluation_batches: maximum number of batches per evaluation.
        save_every: number of steps between two saved training states. None: a tenth of `steps`, at
            most 1,000.
        log_every: number of steps between two lines of metrics.jsonl. None: so many that there are
            at most 10,000 lines.

    Raises:
        ValueError: a value out of its range.
    """

    command: ClassVar[str] = "pretrain"
    first: ClassVar[tuple[str, ...]] = (
        "steps",
        "batch_size",
        "seq_len",
        "max_predictions",
        "optimizer",
        "learning_rate",
        "warmup_steps",
    )
    last: ClassVar[tuple[str, ...]] = (
        "freeze",
        "lora_rank",
        "lora_targets",
        "lora_alpha",
        "lora_dropout",
    )
    other_fields: ClassVar[dict] = {"config": js.OBJECT}

    steps: int
    seq_len: int = 128
    max_predictions: int | None = None
    learning_rate: float = 1e-4
    warmup_steps: int | None = None
    mlm_probability: float = 0.15
    short_seq_probability: float = 0.1
    whole_word: bool = False
    mlm_only: bool = False
    dev_ratio: float | None = None
    evaluate_every: int | None = None
    evaluation_batches: int = 50
    save_every: int | None = None
    log_every: int | None = None

    def complete(self) -> Self:
        """Return the settings with numbers for None, which the number of steps gives."""
        defaults: dict[str, Any] = {
            "warmup_steps": self._default_warmup(),
            "evaluate_every": max(1, self.steps // 10),
            "save_every": max(1, min(1000, self.steps // 10)),
            "log_every": -(-self.steps // 10_000),
        }
        missing = {}
        for name, value in defaults.items():
            if getattr(self, name) is None:
                missing[name] = value
        return dataclasses.replace(self, **missing)

    def _default_warmup(self) -> int:
        if isinstance(self.schedule, dict):  # it has its own
            return 0
        return min(MOST_WARMUP, self.steps // 10)


def check_init(settings: PretrainingSettings, has_init: bool) -> None:
    """Raise a ValueError for settings of a trained part without a checkpoint to start from."""
    for name in ("freeze", "lora_rank"):
        value = getattr(settings, name)
        if value is not None and not has_init:
            raise ValueError(
                f"{name} needs a checkpoint to start from (init), got {value!r} without one: "
                f"give init, or leave {name} out"
            )


def check_dev(settings: PretrainingSettings, has_dev: bool) -> None:
    """Raise a ValueError for a share that is held out, beside dev data."""
    share = settings.dev_ratio
    if has_dev and share:
        raise ValueError(f"dev and dev_ratio cannot go together: leave one out, got {share}")


def check_fits(config: BertConfig, whose: str, vocab_size: int, seq_len: int) -> None:
    """Raise a ValueError for a model with too few tokens or positions."""
    if config.vocab_size < vocab_size:
        raise ValueError(
            f"{whose} must have a vocab_size of at least the shards' {vocab_size:,} tokens, got "
            f"{config.vocab_size:,}: prepare with this model's vocabulary, or change the size"
        )
    if not config.family.next_sentence:
        raise ValueError(
            f"{whose} must be of BERT, which pretraining is for, got {config.family.title}, which "
            "is trained without next sentences: fine-tune it"
        )
    if config.positions < seq_len:
        raise ValueError(
            f"seq_len must be at most the model's {config.positions} positions, got "
            f"{seq_len}: take shorter examples, or a model with more positions"
        )
