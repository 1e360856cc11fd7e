"""Fine-tuning of a checkpoint on labelled data.

import kbert
tuned = kbert.finetune("bert-base-uncased", "classify", train="train.tsv", output="run")
kbert.classify(tuned.bert, "a fine film")
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kbert.checkpoints.bert import Bert
from kbert.data.labelled.in_memory import Rows
from kbert.graph import aliases
from kbert.io import printable
from kbert.tasks.common.checks import require_data, require_source
from kbert.tasks.finetuning.results import Finetuned, make_finetuned
from kbert.tasks.finetuning.run_request import request_finetuning
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import task_of
from kbert.training import runner
from kbert.training.settings.run_settings import RunOptions
from kbert.training.settings.setting_texts import collect, document

if TYPE_CHECKING:
    import keras


@printable.escape_errors()
@aliases.answer_old_names
@document(FinetuningSettings, RunOptions)
def finetune(
    source: Bert | str | os.PathLike,
    task: str,
    *,
    train: str | os.PathLike | Rows,
    dev: str | os.PathLike | Rows | None = None,
    teacher: Bert | str | os.PathLike | None = None,
    output: str | os.PathLike | None = None,
    text_column: str | None = None,
    text_pair_column: str | None = None,
    label_column: str | None = None,
    label_columns: Sequence[str] | None = None,
    no_header: bool = False,
    sample_weight_column: str | None = None,
    lowercase: bool | None = None,
    epochs: int = 3,
    batch_size: int = 32,
    max_length: int | None = None,
    lengths: Sequence[int] | None = None,
    packing: bool = False,
    positive_label: str | None = None,
    label_smoothing: float = 0.0,
    class_weights: str | Mapping[str, float] | None = None,
    loss: "str | keras.losses.Loss | Callable | None" = None,
    score: str | None = None,
    metrics: "Sequence[keras.metrics.Metric | Callable] | None" = None,
    pooling: str | None = None,
    scale: float = 20.0,
    margin: float = 5.0,
    dimensions: Sequence[int] | None = None,
    learning_rate: float = 5e-5,
    warmup_ratio: float = 0.1,
    optimizer: "str | keras.optimizers.Optimizer" = "adamw",
    freeze: str | None = None,
    head_learning_rate: float | None = None,
    layer_decay: float | None = None,
    lora_rank: int | None = None,
    lora_targets: str | Sequence[str] = "query,value",
    lora_alpha: float | None = None,
    lora_dropout: float = 0.0,
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
    keep_best: bool = True,
    evaluate_every: int | None = None,
    save_every: int | None = None,
    log_every: int = 1,
    devices: int | None = None,
    callbacks: "keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None" = (),
    progress: bool = True,
    peak_flops: float | None = None,
    keep_checkpoints: bool | None = None,
    report_examples: bool | None = None,
    steps_per_execution: int | None = None,
    profile: str | None = None,
) -> Finetuned:
    """Fine-tune a BERT (the paper, section 4).

    For example::

        kbert.finetune("bert-base-uncased", "classify", train="train.tsv", dev="dev.tsv")

    `FinetuningSettings` says more about each setting, and
    `kbert.training.settings.run_settings.RunOptions` about how the run is done: `devices` and
    the arguments after it.

    Args:
        source: the name of a model, the path of a checkpoint of any format that `kbert.load` opens,
            or a `Bert`. If it has a head for this task with all labels of the data, in any order,
            that head is reused; otherwise a new head is initialized. With `lora_rank` it can also
            be the folder of an adapter, or of a run with one: that adapter is trained further, see
            `kbert.tasks.finetuning.continued_adapter`.
        task: the task, which decides what `train` and `dev` hold: one of
            `kbert.tasks.finetuning.task.TASKS`, which says what its files contain.
        train: the file, or rows in memory: a list, a pandas or polars DataFrame, a
            `datasets.Dataset`, a torch `Dataset`, a tf.data data set, a dict of columns, or a tuple
            of columns, (texts, labels). Each row is, by task (others: a dict with the columns of
            their files),
            "classify": (text, label), (text, second text, label) or a dict.
            "regress": the same with a number as the label.
            "multilabel": the same with a list of labels, or with a 0 or 1 for each label.
            "tag": (words, labels) or a dict.
            "qa": a dict, as in the SQuAD of `datasets`.
            "embed": (text, text), (text, text, negative, …), (text, text, score) or (text, label).
        dev: data of the same kind, evaluated after each epoch; None: no evaluation.
        teacher: the teacher of a distillation, named like `source`: a model of any size, fine-tuned
            for the same task with the same labels and vocabulary; see `DistillationSettings`.
        output: the run's folder, new or empty; None: nothing is saved.

    Returns:
        A `Finetuned`.

    Raises:
        ValueError: data, settings and model do not fit each other; the message has file and line.
        FileExistsError: `output` is not empty.
        kbert.types.NotFinite: the loss or the gradients were NaN or infinite.
        kbert.types.Stopped: Ctrl-C or SIGTERM; the state is saved.
        OSError: a file cannot be read, or the disk is full.
    """
    arguments = dict(locals())  # before any other name is set
    run_options = collect(RunOptions, arguments)
    sources = {"source": source, "train": train, "dev": dev, "teacher": teacher}
    require_source(source, "finetune")
    if teacher is not None:
        require_source(teacher, "finetune")
    chosen, settings = task_of(task), collect(FinetuningSettings, arguments)
    require_data(train=train, dev=dev)
    request = request_finetuning(chosen, settings, sources)
    return make_finetuned(runner.start(request, output, run_options))
