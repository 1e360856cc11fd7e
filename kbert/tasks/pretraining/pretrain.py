"""Pretraining of a model from shards.

import kbert
trained = kbert.pretrain("shards", "tiny", output="run", steps=10_000)
kbert.fill_mask(trained.bert, "the capital of france is [MASK]")
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbert.checkpoints.bert import Bert
from kbert.graph.config import BertConfig
from kbert.io import printable
from kbert.tasks.pretraining.recipe import Pretraining, Trained
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training import runner
from kbert.training.recipe import pin_models
from kbert.training.run_settings import RunOptions, Setting

if TYPE_CHECKING:
    import keras


@printable.escape_errors()
def pretrain(
    shards: str | os.PathLike,
    config: BertConfig | dict | str | os.PathLike = "tiny",
    *,
    output: str | os.PathLike,
    steps: int,
    init: str | os.PathLike | None = None,
    dev: str | os.PathLike | None = None,
    teacher: Bert | str | os.PathLike | None = None,
    devices: int | None = None,
    callbacks: "keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None" = (),
    progress: bool = True,
    peak_flops: float | None = None,
    keep_checkpoints: bool | None = None,
    steps_per_execution: int | None = None,
    **options: "Setting | keras.optimizers.Optimizer",
) -> Trained:
    """Pretrain a BERT with MLM and NSP, or with MLM only.

    Args:
        shards: the folder that `kbert.prepare` wrote.
        config: a preset's name, whose vocabulary size becomes the shards'; a `BertConfig`, its
            file, or a dict with the keys of such a file.
        output: the run's folder; new or empty. Unlike `finetune`, `pretrain` needs one.
        steps: number of training steps.
        init: a checkpoint to start from: the name of a model or a path that `kbert.load` opens. The
            model then has its configuration.
        dev: shards to evaluate on; None: a part of `shards` is held out.
        teacher: the teacher of a distillation: a `Bert` or a checkpoint with the shards' vocabulary
            and, unless alpha is 0, both heads; see `DistillationSettings`. Its logits at the
            predicted positions, batch_size · max_predictions · vocab_size numbers, are in memory
            for three batches.
        devices, callbacks, progress, peak_flops, keep_checkpoints, steps_per_execution: see
            `kbert.training.run_settings.RunOptions`.
        options: hyperparameters, such as batch_size, seq_len, learning_rate and optimizer ("adamw",
            "lamb", or one of Keras's, such as `keras.optimizers.Lion()`); see
            `kbert.tasks.pretraining.settings.PretrainingSettings`.

    Returns:
        A `Trained`. `kbert.training.run.run_folder` describes the run's folder.

    Raises:
        ValueError: settings, data and model do not fit each other.
        FileExistsError: `output` is not empty.
        kbert.training.loop.loop.NotFinite: the loss or the gradients were NaN or infinite.
        kbert.training.stopping.Stopped: Ctrl-C or SIGTERM; the state is saved.
        OSError: the disk is full, or data vanished; the last saved state is complete.
    """
    run_options = RunOptions(
        devices, callbacks, progress, peak_flops, keep_checkpoints, steps_per_execution
    )
    settings = PretrainingSettings.from_options({"steps": steps} | options)
    data = {"shards": shards, "dev": dev}
    sources: dict = {name: path and str(Path(path).absolute()) for name, path in data.items()}
    sources |= {"init": init, "teacher": teacher}
    pin_models(sources)
    chosen = BertConfig.from_dict(config) if isinstance(config, dict) else config
    recipe = Pretraining(settings, sources, chosen)
    return runner.start(recipe, output, run_options)
