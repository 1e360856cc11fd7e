"""Pretraining of a model from shards.

import kbert
trained = kbert.pretrain("shards", "tiny", output="run", steps=10_000)
kbert.fill_mask(trained.bert, "the capital of france is [MASK]")
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.checkpoints.bert import Bert
from kbert.graph import aliases
from kbert.graph.config import BertConfig
from kbert.io import printable
from kbert.io.remote_files import locate
from kbert.tasks.pretraining.results import Trained, make_trained
from kbert.tasks.pretraining.run_request import request_pretraining
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training import runner
from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_texts import collect, document

if TYPE_CHECKING:
    import keras


@printable.escape_errors()
@aliases.answer_old_names
@document(PretrainingSettings, RunOptions)
def pretrain(
    shards: str | os.PathLike,
    config: BertConfig | dict | str | os.PathLike = "tiny",
    *,
    output: str | os.PathLike,
    steps: int | None = None,
    hours: float | None = None,
    init: str | os.PathLike | None = None,
    dev: str | os.PathLike | None = None,
    teacher: Bert | str | os.PathLike | None = None,
    batch_size: int = 32,
    ramp_from: int | None = None,
    ramp_ratio: float | None = None,
    seq_len: int = 128,
    max_predictions: int | None = None,
    optimizer: "str | keras.optimizers.Optimizer" = "adamw",
    learning_rate: float = 1e-4,
    warmup_steps: int | None = None,
    warmup_ratio: float | None = None,
    schedule: "str | keras.optimizers.schedules.LearningRateSchedule" = "linear",
    min_learning_rate_ratio: float = 0.0,
    schedule_power: float = 1.0,
    schedule_timescale: int | None = None,
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    ema: float | None = None,
    clip_norm: float | None = 1.0,
    accumulation_steps: int = 1,
    precision: str = "float32",
    jit: bool | None = None,
    gradient_checkpointing: bool = False,
    seed: int = 0,
    patience: int | None = None,
    temperature: float = 2.0,
    alpha: float = 0.5,
    hidden_loss: str | None = None,
    hidden_loss_weight: float = 1.0,
    mlm_probability: float = 0.15,
    evaluation_mlm_probability: float | None = None,
    dropout: float | None = None,
    short_seq_probability: float = 0.1,
    whole_word: bool = False,
    mlm_only: bool = False,
    separate_documents: bool = False,
    dev_ratio: float | None = None,
    evaluate_every: int | None = None,
    evaluation_batches: int = 50,
    save_every: int | None = None,
    log_every: int | None = None,
    freeze: str | None = None,
    lora_rank: int | None = None,
    lora_targets: str | Sequence[str] = "query,value",
    lora_alpha: float | None = None,
    lora_dropout: float = 0.0,
    devices: int | None = None,
    callbacks: "keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None" = (),
    progress: bool = True,
    peak_flops: float | None = None,
    keep_checkpoints: bool | None = None,
    report_examples: bool | None = None,
    steps_per_execution: int | None = None,
    profile: str | None = None,
) -> Trained:
    """Pretrain a BERT with MLM and NSP, or with MLM only.

    `kbert.tasks.pretraining.settings.PretrainingSettings` says more about each setting, and
    `kbert.training.settings.run_settings.RunOptions` about how the run is done: `devices` and the
    arguments after it.

    Args:
        shards: the folder that `kbert.prepare` wrote.
        config: a preset's name, whose vocabulary size becomes the shards'; a `BertConfig`, its
            file, or a dict with the keys of such a file.
        output: the run's folder; new or empty. Unlike `finetune`, `pretrain` needs one.
        init: a checkpoint to start from: the name of a model or a path that `kbert.load` opens. The
            model then has its configuration.
        dev: shards to evaluate on; None: a part of `shards` is held out.
        teacher: the teacher of a distillation: a `Bert` or a checkpoint with the shards' vocabulary
            and, unless alpha is 0, both heads; see `DistillationSettings`. Its logits at the
            predicted positions, batch_size · max_predictions · vocab_size numbers, are in memory
            for three batches.

    Returns:
        A `Trained`. `kbert.training.run.run_folder` describes the run's folder.

    Raises:
        ValueError: settings, data and model do not fit each other.
        FileExistsError: `output` is not empty.
        kbert.types.NotFinite: the loss or the gradients were NaN or infinite.
        kbert.types.Stopped: Ctrl-C or SIGTERM; the state is saved.
        OSError: the disk is full, or data vanished; the last saved state is complete.
    """
    arguments = dict(locals())  # before any other name is set
    run_options = collect(RunOptions, arguments)
    settings = collect(PretrainingSettings, arguments)
    data = {"shards": shards, "dev": dev}
    sources: dict = {}
    for name, path in data.items():
        sources[name] = locate(path)
    sources |= {"init": init, "teacher": teacher}
    chosen = BertConfig.from_dict(config) if isinstance(config, dict) else config
    request = request_pretraining(settings, sources, chosen)
    return make_trained(runner.start(request, output, run_options))
