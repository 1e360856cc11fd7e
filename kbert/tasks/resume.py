"""Resuming of a run of any kind."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from kbert.graph import aliases
from kbert.io import printable
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_rules import read_settings
from kbert.training.settings.setting_texts import collect, document, list_fields

if TYPE_CHECKING:
    import keras

    from kbert.checkpoints.bert import Bert
    from kbert.data.labelled.in_memory import Rows
    from kbert.tasks.finetuning.results import Finetuned
    from kbert.tasks.pretraining.results import Trained


@printable.escape_errors()
@aliases.answer_old_names
@document(RunOptions)
@document(FinetuningSettings, PretrainingSettings, inherited=True)
def resume(
    folder: str | os.PathLike,
    *,
    source: "Bert | str | os.PathLike | None" = None,
    train: "str | os.PathLike | Rows | None" = None,
    shards: str | os.PathLike | None = None,
    dev: "str | os.PathLike | Rows | None" = None,
    teacher: "Bert | str | os.PathLike | None" = None,
    text_column: str | None = None,
    text_pair_column: str | None = None,
    label_column: str | None = None,
    label_columns: Sequence[str] | None = None,
    no_header: bool | None = None,
    sample_weight_column: str | None = None,
    lowercase: bool | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    max_length: int | None = None,
    lengths: Sequence[int] | None = None,
    packing: bool | None = None,
    positive_label: str | None = None,
    label_smoothing: float | None = None,
    class_weights: str | Mapping[str, float] | None = None,
    loss: "str | keras.losses.Loss | Callable | None" = None,
    score: str | None = None,
    metrics: "Sequence[keras.metrics.Metric | Callable] | None" = None,
    pooling: str | None = None,
    scale: float | None = None,
    margin: float | None = None,
    dimensions: Sequence[int] | None = None,
    learning_rate: float | None = None,
    warmup_ratio: float | None = None,
    optimizer: "str | keras.optimizers.Optimizer | None" = None,
    freeze: str | None = None,
    head_learning_rate: float | None = None,
    layer_decay: float | None = None,
    lora_rank: int | None = None,
    lora_targets: str | Sequence[str] | None = None,
    lora_alpha: float | None = None,
    lora_dropout: float | None = None,
    schedule: "str | keras.optimizers.schedules.LearningRateSchedule | None" = None,
    min_learning_rate_ratio: float | None = None,
    schedule_power: float | None = None,
    schedule_timescale: int | None = None,
    weight_decay: float | None = None,
    beta_1: float | None = None,
    beta_2: float | None = None,
    epsilon: float | None = None,
    ema: float | None = None,
    clip_norm: float | None = None,
    accumulation_steps: int | None = None,
    precision: str | None = None,
    jit: bool | None = None,
    gradient_checkpointing: bool | None = None,
    seed: int | None = None,
    patience: int | None = None,
    temperature: float | None = None,
    alpha: float | None = None,
    hidden_loss: str | None = None,
    hidden_loss_weight: float | None = None,
    keep_best: bool | None = None,
    evaluate_every: int | None = None,
    save_every: int | None = None,
    log_every: int | None = None,
    steps: int | None = None,
    hours: float | None = None,
    ramp_from: int | None = None,
    ramp_ratio: float | None = None,
    seq_len: int | None = None,
    max_predictions: int | None = None,
    warmup_steps: int | None = None,
    mlm_probability: float | None = None,
    evaluation_mlm_probability: float | None = None,
    dropout: float | None = None,
    short_seq_probability: float | None = None,
    whole_word: bool | None = None,
    mlm_only: bool | None = None,
    separate_documents: bool | None = None,
    dev_ratio: float | None = None,
    evaluation_batches: int | None = None,
    devices: int | None = None,
    callbacks: "keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None" = (),
    progress: bool = True,
    peak_flops: float | None = None,
    keep_checkpoints: bool | None = None,
    report_examples: bool | None = None,
    steps_per_execution: int | None = None,
    profile: str | None = None,
) -> "Trained | Finetuned":
    """Resume a run. The result is bit-identical to that of a run that was never stopped.

    On another number of devices, or another backend, it is equal to rounding, and the log says so;
    pretraining then uses other dropout masks.

    A run has its settings from its start. Those that are given must equal the run's; None: they are
    the run's. `kbert.training.settings.run_settings.RunOptions` says more about how the run is
    done: `devices` and the arguments after it may differ each time.

    Args:
        folder: the run's folder.
        source, train, shards, dev, teacher: data and models that have moved since the run started,
            as for `finetune` and `pretrain`; None: they are where they were.

    Returns:
        The result of `pretrain` or `finetune`. A finished run is opened, and the log says that it
        is finished.

    Raises:
        FileNotFoundError: there is no run in the folder.
        ValueError: data, vocabulary or settings differ from the run's; the message has the
            difference. Or a version of kbert that computes other steps started the run.
        Exception: any error of `pretrain` and `finetune`.
    """
    arguments = dict(locals())  # before any other name is set

    from kbert.tasks.finetuning import run_request as finetuning
    from kbert.tasks.finetuning.results import make_finetuned
    from kbert.tasks.pretraining import run_request as pretraining
    from kbert.tasks.pretraining.results import make_trained
    from kbert.training import runner
    from kbert.training.run.run_folder import RunFolder

    run = RunFolder.open(folder)
    is_finetuning = run.task == "finetune"
    run_request: ModuleType = finetuning if is_finetuning else pretraining
    run_options = collect(RunOptions, arguments)
    moved = {name: arguments[name] for name in run_request.MOVABLE}
    no_settings = {"folder", *moved, *list_fields(RunOptions)}
    settings = {}
    for name, value in arguments.items():
        if name not in no_settings and value is not None:
            settings[name] = value
    settings = read_settings(settings)

    if run_options.keep_checkpoints is not None:
        run.keep_checkpoints = run_options.keep_checkpoints
    if run_options.report_examples is not None:
        run.report_examples = run_options.report_examples
    json = run.result
    if json is not None:
        run.check(run.fingerprint, run.settings | settings)
        result = runner.open_finished(run, json)
    else:
        run.check_computation()
        request = run_request.request_resumed(run, moved, settings)
        result = runner.resume(request, run_options)
    return make_finetuned(result) if is_finetuning else make_trained(result)
