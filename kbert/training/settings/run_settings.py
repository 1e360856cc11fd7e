"""The settings of runs of every kind, from keyword arguments, and a run's options."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

from kbert.graph import aliases
from kbert.graph.trained_parts import LORA_TARGETS
from kbert.io import json_schema as js
from kbert.training.settings.setting_rules import RATE_SETTINGS, check_settings, check_together
from kbert.training.settings.user_objects import UserFunction, refuse_missing_functions

USUAL_SETTINGS = (  # on every model card and every run's page
    "epochs",
    "steps",
    "batch_size",
    "max_length",
    "seq_len",
    "optimizer",
    "learning_rate",
    "schedule",
    "warmup_ratio",
    "warmup_steps",
    "weight_decay",
    "precision",
    "seed",
)
_ON_NO_CARD = ("lengths", "evaluate_every", "save_every", "log_every", "metrics")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings that every run has; they are kept in the run's settings.json.

    The first sentence of each is the help of its option, with the one that begins with "None:".

    Args:
        batch_size: number of examples per training step, over all devices and hosts.
        optimizer: optimizer that updates the weights. "adamw", with which BERT was trained, "lamb"
            (pretraining; fine-tuning takes `keras.optimizers.Lamb()`), or a
            `keras.optimizers.Optimizer`, in a settings file its JSON. Learning rate, weight decay
            and clipping are the run's for each of them.
        schedule: schedule of the learning rate after warm-up. "linear", "cosine" and "polynomial"
            decay to `min_learning_rate_ratio` of the peak rate at the last step, "inverse_sqrt"
            decays as 1 / √step, "one_cycle" is torch's OneCycleLR, "triangle" is linear with a
            warm-up that begins at a quarter of the peak rate (cramming's is 0.75 of the run). Or a
            `keras.optimizers.schedules.LearningRateSchedule`, which gives the whole rate: learning
            rate and warm-up are then left out.
        min_learning_rate_ratio: share of the peak learning rate at which the schedules linear,
            cosine and polynomial end.
        schedule_power: power of the schedule polynomial. 1 is linear decay.
        schedule_timescale: steps after which the schedule inverse_sqrt begins to decay. None: the
            number of warm-up steps, or 10,000 without warm-up. The rate of step t is the peak rate
            times √(timescale / (t - warm-up + timescale)).
        weight_decay: weight decay, which biases and LayerNorm weights do not have.
        beta_1: decay rate of the first moment, for adamw, and lamb in pretraining.
        beta_2: decay rate of the second moment, for adamw, and lamb in pretraining.
        epsilon: number added to the root of the second moment, for adamw, and lamb in pretraining.
        ema: share of a moving average of the weights that a step keeps, such as 0.999. None: no
            average. The averages are evaluated and saved as the result, as with Keras's `use_ema`
            and `ema_momentum`. They need the memory of one more copy of the trained weights.
        clip_norm: global norm to which the gradients are clipped. None: no clipping.
        accumulation_steps: number of micro-batches per training step; more need less memory.
        precision: precision of the computation. "float32", "mixed_bfloat16" or "mixed_float16".
        jit: compile the training step with XLA. None: what is faster on the device.
        gradient_checkpointing: recompute the encoder blocks in the backward pass, which needs less
            memory and more time. The results are the same.
        seed: random seed of the initial weights, the order of the data, masks and dropout.
        patience: stop after this many evaluations on the dev data without improvement. None: all
            steps are done. Improvement is measured by the score that `keep_best` uses: the task's
            metric, or the loss of pretraining.
        freeze: parts that are not trained, such as embeddings,1-8. None: all are trained. The parts
            are embeddings, encoder, pooler, head, and blocks, counted from 1. They have no
            gradients and no moments.
        lora_rank: rank of LoRA adapters; they and the heads are trained, all other weights frozen.
            None: no adapters. Hu et al. 2021, arXiv 2106.09685. The result contains them, merged
            into its weights and as `Bert.adapter`; the run's folder contains them as adapter/, in
            PEFT's format.
        lora_targets: matrices that get an adapter, separated by commas. "query", "key", "value",
            "attention_output", "intermediate" and "output", in each block that is not frozen. A
            list of names will do too.
        lora_alpha: scale of the adapters: they count `lora_alpha` / `lora_rank` times. None: once.
        lora_dropout: dropout rate of the adapters' inputs. It is as in PEFT: the base weights'
            inputs have no dropout from it.

    Raises:
        ValueError: a value out of its range, or a setting that needs another one or excludes it.
    """

    command: ClassVar[str]
    # the fields that stand before those of every run, in settings.json and in --help
    first: ClassVar[tuple[str, ...]] = ()
    last: ClassVar[tuple[str, ...]] = ()  # those that stand behind all others there
    other_fields: ClassVar[dict]  # what else a run's settings.json has, and its kind

    batch_size: int = 32
    optimizer: str | dict = "adamw"
    schedule: str | dict = "linear"
    min_learning_rate_ratio: float = 0.0
    schedule_power: float = 1.0
    schedule_timescale: int | None = None
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    ema: float | None = None
    clip_norm: float | None = 1.0
    accumulation_steps: int = 1
    precision: str = "float32"
    jit: bool | None = None
    gradient_checkpointing: bool = False
    seed: int = 0
    patience: int | None = None
    freeze: str | None = None
    lora_rank: int | None = None
    lora_targets: str = LORA_TARGETS
    lora_alpha: float | None = None
    lora_dropout: float = 0.0

    @classmethod
    def from_options(cls, options: dict, command: str | None = None) -> Self:
        """Return the settings of keyword arguments, or raise a ValueError for an unknown name."""
        names = [field.name for field in cls.fields()]
        renamed = aliases.rename_options(command or cls.command, options, names)
        return cls(**renamed)

    @classmethod
    def from_run(cls, run, options: Mapping[str, Any] | None = None) -> Self:
        """Return the settings of a run that is resumed.

        Args:
            run: its `RunFolder`.
            options: settings that the user gives again, such as functions, of which a run has the
                names alone.

        Raises:
            ValueError: the rules refuse the run's file; or a setting is not the run's; or a
                function is not given.
        """
        names = [field.name for field in cls.fields()]
        source = str(run.path / "settings.json")
        kinds = dict.fromkeys(names, js.ANYTHING) | cls.other_fields
        js.check(run.settings, js.fields(kinds), source, "settings")

        options = dict(options or {})
        options = aliases.rename_options(cls.command, options, names)
        with_options = run.settings | options
        run.check(run.fingerprint, with_options)
        refuse_missing_functions(run.path, with_options, run.list_in_memory())

        values = {name: run.settings[name] for name in names}
        try:
            settings = cls(**values)
        except ValueError as error:
            raise ValueError(f"{source}: settings.{error}") from None

        # with the functions of the user, which settings.json only names
        return dataclasses.replace(settings, **options)

    @classmethod
    def fields(cls) -> list[dataclasses.Field]:
        """In the order of settings.json and of --help."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        between = [name for name in fields if name not in cls.first and name not in cls.last]
        ordered = (*cls.first, *between, *cls.last)
        return [fields[name] for name in ordered]

    def as_dict(self) -> dict:
        """Return the values by name, as settings.json has them."""
        return {field.name: getattr(self, field.name) for field in self.fields()}

    def as_hyperparameters(self) -> dict:
        """Return the values for a model card: the usual ones, and those that were changed."""
        settings = {}
        for field in self.fields():
            value = getattr(self, field.name)
            is_changed = field.name not in _ON_NO_CARD and value != field.default
            if field.name in USUAL_SETTINGS or is_changed:
                settings[field.name] = value
        if isinstance(self.schedule, dict):
            settings = {name: settings[name] for name in settings if name not in RATE_SETTINGS}

        for name in ("optimizer", "schedule", "loss"):
            value = settings.get(name)
            if isinstance(value, dict):
                settings[name] = value["class_name"]
            elif isinstance(value, UserFunction):
                settings[name] = value.name
        return settings

    def __post_init__(self):
        fields = self.fields()
        optional = {field.name for field in fields if type(None) in get_args(field.type)}
        checked = check_settings(self.as_dict(), optional)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        defaults = {field.name: field.default for field in fields}
        check_together(self.as_dict(), defaults)
        for name in ("lora_targets", "lora_alpha", "lora_dropout"):
            if not self.lora_rank and getattr(self, name) != getattr(type(self), name):
                raise ValueError(
                    f"{name} must go with lora_rank, the adapters' rank, got {name} alone: give "
                    "lora_rank too, or leave it out"
                )


@dataclass(frozen=True)
class RunOptions:
    """What may differ between two starts of a run.

    Args:
        devices: number of local devices to train on. None: all. With torch it is 1, the process's
            own.
        callbacks: Keras callbacks: several, one, or None, as in `fit`.
        progress: whether the progress line is printed.
        peak_flops: peak FLOP/s of all devices together, from which the MFU is computed. None: it is
            measured; on a CPU there is no MFU. A matrix product is timed.
        keep_checkpoints: keep the training states after the run has finished. None: only the model
            is kept; a resumed run keeps its setting. The states are the last two and the best,
            each three times the model's size, four times with `ema`.
        report_examples: show dev examples that were predicted worst, with their texts, in the
            run's page, report.html. None: they are shown; a resumed run keeps its setting.
        steps_per_execution: number of steps per call of the device. None: 8 for TensorFlow on TPU,
            else 1. It is as in Keras's `compile`: the results are the same, with fewer waits for
            the host. A saved state, an evaluation and the end of an epoch end a call; a signal
            waits for its end.
        profile: steps to profile, such as 10:20: from step 10 to step 20, counted from 1. None: no
            profile. The backend's profiler writes a trace with the names of the layers to the run's
            folder, profile/, for TensorBoard and Perfetto. The result is the same.

    Raises:
        ValueError: a value out of its range.
    """

    devices: int | None = None
    callbacks: Any = ()  # a tuple from now on
    progress: bool = True
    peak_flops: float | None = None
    keep_checkpoints: bool | None = None
    report_examples: bool | None = None
    steps_per_execution: int | None = None
    profile: str | None = None

    def __post_init__(self):
        optional = (
            "devices",
            "peak_flops",
            "keep_checkpoints",
            "report_examples",
            "steps_per_execution",
            "profile",
        )
        values = {name: getattr(self, name) for name in ("progress", *optional)}
        check_settings(values, optional)

        callbacks = () if self.callbacks is None else self.callbacks
        has_several = isinstance(callbacks, Iterable)
        callbacks = tuple(callbacks) if has_several else (callbacks,)
        object.__setattr__(self, "callbacks", callbacks)
