"""Settings of a pretraining run: everything that its result depends on, except the data."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kbert.graph.config import BertConfig
from kbert.io import json_schema as js
from kbert.tasks.distillation.settings import DistillationSettings
from kbert.training.settings.run_settings import RunSettings

MOST_WARMUP = 10_000  # the paper's warm-up (appendix A.2)
WARMUP_RATIO = 0.1  # of a time budget
RAMP_RATIO = 0.6  # of the code of Geiping and Goldstein 2022, config/train/bert-o4.yaml
_STEP_SETTINGS = ("warmup_steps", "schedule_timescale")


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings(DistillationSettings, RunSettings):
    """Settings of `pretrain`.

    The settings of every run (`RunSettings`) and of distillation (`DistillationSettings`) belong to
    them; the parts that are trained are those of `init`.

    Args:
        steps: number of training steps. None: `hours` says how long the run is.
        hours: time budget of the run, in hours of training, evaluation and saving. None: the run
            has a number of steps. The learning rate follows the share of the budget that is used.
            `steps` is then how many are expected, by the measured time of one.
        ramp_from: number of examples in the first step, which grows linearly to `batch_size`, by
            micro-batches of `batch_size` / `accumulation_steps` examples. None: each step has
            `batch_size` examples.
        ramp_ratio: share of the steps, or of the time budget, over which batches grow. None: 0.6
            with `ramp_from`.
        seq_len: number of tokens per example.
        max_predictions: maximum number of masked tokens per example. None: `mlm_probability` of the
            tokens, rounded up.
        learning_rate: peak learning rate, reached after warm-up.
        warmup_steps: number of warm-up steps. None: a tenth of `steps`, at most 10,000. The rate
            grows linearly.
        warmup_ratio: share of the steps, or of the time budget, that warm up, in place of
            `warmup_steps`. None: a tenth of a time budget.
        mlm_probability: share of the tokens that the model predicts.
        evaluation_mlm_probability: share of the tokens that the model predicts in an evaluation.
            None: that of training.
        dropout: dropout rate of hidden states and attention. None: the configuration's.
        short_seq_probability: share of the examples that are shorter than `seq_len`.
        whole_word: mask whole words.
        mlm_only: train on full sequences, without next-sentence prediction.
        separate_documents: let tokens attend to their own document alone, where a sequence holds
            several, with `mlm_only`. Positions run through the whole sequence.
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
        "hours",
        "batch_size",
        "ramp_from",
        "ramp_ratio",
        "seq_len",
        "max_predictions",
        "optimizer",
        "learning_rate",
        "warmup_steps",
        "warmup_ratio",
    )
    last: ClassVar[tuple[str, ...]] = (
        "freeze",
        "lora_rank",
        "lora_targets",
        "lora_alpha",
        "lora_dropout",
    )
    other_fields: ClassVar[dict] = {"config": js.OBJECT}

    steps: int | None = None
    hours: float | None = None
    ramp_from: int | None = None
    ramp_ratio: float | None = None
    seq_len: int = 128
    max_predictions: int | None = None
    learning_rate: float = 1e-4
    warmup_steps: int | None = None
    warmup_ratio: float | None = None
    mlm_probability: float = 0.15
    evaluation_mlm_probability: float | None = None
    dropout: float | None = None
    short_seq_probability: float = 0.1
    whole_word: bool = False
    mlm_only: bool = False
    separate_documents: bool = False
    dev_ratio: float | None = None
    evaluate_every: int | None = None
    evaluation_batches: int = 50
    save_every: int | None = None
    log_every: int | None = None

    def complete(self, expected_steps: int | None = None) -> Self:
        """Return the settings with numbers for None, which the number of steps gives.

        `expected_steps` is that of a time budget; None: it is not measured yet.
        """
        steps = self.steps or expected_steps or 1
        defaults: dict[str, Any] = {
            "steps": steps,
            "evaluate_every": max(1, steps // 10),
            "save_every": max(1, min(1000, steps // 10)),
            "log_every": -(-steps // 10_000),
        }
        if self.ramp_from is not None:
            defaults["ramp_ratio"] = RAMP_RATIO
        has_schedule = isinstance(self.schedule, dict)  # which has its own warm-up
        if self.hours is not None:
            defaults["warmup_ratio"] = WARMUP_RATIO
        elif self.warmup_ratio is not None:
            defaults["warmup_steps"] = round(self.warmup_ratio * steps)
        else:
            defaults["warmup_steps"] = 0 if has_schedule else min(MOST_WARMUP, steps // 10)
        missing = {}
        for name, value in defaults.items():
            if getattr(self, name) is None:
                missing[name] = value
        return dataclasses.replace(self, **missing)


def check_length(settings: PretrainingSettings) -> None:
    """Raise a ValueError if a new run has no length."""
    if settings.steps is None and settings.hours is None:
        raise ValueError("steps or hours must be given, the length of the run, got neither")


def check_budget(settings: PretrainingSettings) -> None:
    """Raise a ValueError for a run of two lengths, or for a count of steps in a time budget."""
    hours = settings.hours
    if settings.steps is not None and hours is not None:
        raise ValueError(
            f"steps and hours cannot go together: leave one out, got {settings.steps:,} steps and "
            f"{hours:g} hours"
        )
    if settings.warmup_steps is not None and settings.warmup_ratio is not None:
        raise ValueError(
            "warmup_steps and warmup_ratio cannot go together: leave one out, got "
            f"{settings.warmup_steps} and {settings.warmup_ratio}"
        )
    if hours is None:
        return
    step_settings = {name: getattr(settings, name) for name in _STEP_SETTINGS}
    if isinstance(settings.schedule, dict):
        step_settings["schedule"] = f"keras.optimizers.schedules.{settings.schedule['class_name']}"
    for name, value in step_settings.items():
        if value is not None:
            raise ValueError(
                f"{name} counts in steps and cannot go with hours, the time budget: leave one "
                f"out, got {value} and {hours:g} hours"
            )


def check_ramp(settings: PretrainingSettings, has_teacher: bool) -> None:
    """Raise a ValueError for batches that cannot grow by whole micro-batches."""
    first, ratio = settings.ramp_from, settings.ramp_ratio
    if first is not None and has_teacher:
        raise ValueError(f"ramp_from does not go with a teacher: leave one out, got {first}")
    if first is None:
        if ratio is not None:
            raise ValueError(
                f"ramp_ratio must go with ramp_from, the size of the first batch, got {ratio:g} "
                "alone: give ramp_from too, or leave it out"
            )
        return
    micro_batch = settings.batch_size // settings.accumulation_steps
    if first >= settings.batch_size or first % micro_batch:
        raise ValueError(
            f"ramp_from must be below batch_size, {settings.batch_size}, and a multiple of "
            f"{micro_batch}, its micro-batches' size with {settings.accumulation_steps} "
            f"accumulation_steps, got {first}"
        )


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
