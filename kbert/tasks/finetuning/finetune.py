"""Fine-tuning of a checkpoint on labelled data.

import kbert
tuned = kbert.finetune("bert-base-uncased", "classify", train="train.tsv", output="run")
kbert.classify(tuned.bert, "a fine film")
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.checkpoints.bert import Bert
from kbert.data.labelled.in_memory import Rows
from kbert.io import printable
from kbert.tasks.checks import require_data, require_source
from kbert.tasks.finetuning.recipe import Finetuned
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import task_of
from kbert.training import runner
from kbert.training.run_settings import RunOptions, Setting

if TYPE_CHECKING:
    import keras


@printable.escape_errors()
def finetune(
    source: Bert | str | os.PathLike,
    task: str,
    *,
    train: str | os.PathLike | Rows,
    dev: str | os.PathLike | Rows | None = None,
    teacher: Bert | str | os.PathLike | None = None,
    output: str | os.PathLike | None = None,
    devices: int | None = None,
    callbacks: "keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None" = (),
    progress: bool = True,
    peak_flops: float | None = None,
    keep_checkpoints: bool | None = None,
    steps_per_execution: int | None = None,
    **options: "Setting | keras.optimizers.Optimizer | keras.losses.Loss",
) -> Finetuned:
    """Fine-tune a BERT (the paper, section 4).

    For example::

        kbert.finetune("bert-base-uncased", "classify", train="train.tsv", dev="dev.tsv")

    Args:
        source: the name of a model, the path of a checkpoint of any format that `kbert.load` opens,
            or a `Bert`. If it has a head for this task with all labels of the data, in any order,
            that head is reused; otherwise a new head is initialized. With `lora_rank` it can also
            be the folder of an adapter, or of a run with one: that adapter is trained further, see
            `kbert.tasks.finetuning.continued_adapter`.
        task: the task, which decides what `train` and `dev` hold: one of
            `kbert.tasks.finetuning.task.TASKS`, which says what its files contain.
        train: the file, or rows in memory: a list, a pandas or polars DataFrame, a
            `datasets.Dataset`, a torch `Dataset`, a tf.data data set, or a dict of columns. Each
            row is, by task (others: a dict with the columns of their files),
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
        devices, callbacks, progress, peak_flops, keep_checkpoints, steps_per_execution: see
            `kbert.training.run_settings.RunOptions`.
        options: hyperparameters, such as epochs, batch_size, learning_rate and optimizer ("adamw"
            or one of Keras's, such as `keras.optimizers.Lion()`); `loss`, `metrics` and `score` of
            your own; see `FinetuningSettings`.

    Returns:
        A `Finetuned`.

    Raises:
        ValueError: data, settings and model do not fit each other; the message has file and line.
        FileExistsError: `output` is not empty.
        kbert.training.loop.loop.NotFinite: the loss or the gradients were NaN or infinite.
        kbert.training.stopping.Stopped: Ctrl-C or SIGTERM; the state is saved.
        OSError: a file cannot be read, or the disk is full.
    """
    run_options = RunOptions(
        devices, callbacks, progress, peak_flops, keep_checkpoints, steps_per_execution
    )
    sources = {"source": source, "train": train, "dev": dev, "teacher": teacher}
    require_source(source, "finetune")
    chosen, settings = task_of(task), FinetuningSettings.from_options(options)
    require_data(train=train, dev=dev)
    recipe = chosen.load_recipe()(chosen, settings, sources)
    return runner.start(recipe, output, run_options)
