"""Fine-tuning: a checkpoint and labelled data to a model with a head.

import kbert
tuned = kbert.finetune("bert-base-uncased", "classify", train="train.tsv", output="run")
kbert.classify(tuned.bert, "a fine film")
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.checkpoints.bert import Bert
from kbert.data.labelled.in_memory import Rows
from kbert.tasks.finetuning.recipe import Finetuned, Finetuning
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import task_of
from kbert.training import runner
from kbert.training.run_settings import Setting, Surroundings

if TYPE_CHECKING:
    import keras


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
    **options: Setting,
) -> Finetuned:
    """Fine-tune a BERT (the paper, section 4)::

        kbert.finetune("bert-base-uncased", "classify", train="train.tsv", dev="dev.tsv")

    Args:
        source: the name of a model, the path of a checkpoint of any format that `kbert.load` opens,
            or a `Bert`. If it has a head for this task with the same labels, that head is reused;
            otherwise a new head is initialized. With `lora_rank`, the folder of an adapter or of a
            run
            that has one: its adapter is trained further, see
            `kbert.tasks.finetuning.continued_adapter`.
        task: "classify": text, [second text,] label between tabs; "regress": with a number for the
            label; "multilabel": with labels between commas, or none; "tag": CoNLL, a word and its
            label a line; "qa": SQuAD's JSON; "embed":
            pairs, triplets, scored pairs or labelled sentences.
        train: the file, or rows in memory: a list of them, a pandas or polars DataFrame, a
            `datasets.Dataset`, a tf.data data set, a dict of columns. A row is for "classify"
            (text, label), (text, second text, label) or a dict, where "regress" has a number and
            "multilabel" a list of labels; for "tag" (words, labels) or a
            dict; for "qa" a dict as `datasets` has SQuAD; for "embed" (text, text), (text, text,
            negative, …), (text, text, score) or (text, label). See `given_labelled`,
            `given_tagged`, `given_questions` and `given_records` in the tasks' reading.
        dev: the same, to evaluate with after each epoch; None: no evaluation.
        teacher: to learn of, as `source`: a model fine-tuned for the same task with the same
            labels, of any size, and of the same vocabulary; see `DistillationSettings`.
        output: the run's folder, new or empty; None: nothing is kept.
        devices, callbacks, progress, peak_flops, keep_checkpoints, steps_per_execution: see
            `Surroundings`.
        options: see `FinetuningSettings`.

    Returns:
        A `Finetuned`.

    Raises:
        ValueError: data, settings and model that do not fit each other; with file and line.
        FileExistsError: `output` holds something.
        kbert.training.loop.loop.NotFinite: loss or gradients were NaN or infinite.
        kbert.training.stopping.Stopped: Ctrl-C or SIGTERM; the state is saved.
        OSError: a file that cannot be read, a full disk.
    """
    surroundings = Surroundings(
        devices, callbacks, progress, peak_flops, keep_checkpoints, steps_per_execution
    )
    sources = {"source": source, "train": train, "dev": dev, "teacher": teacher}
    recipe = Finetuning.of_task(task_of(task), FinetuningSettings.of(options), sources)
    return runner.start(recipe, output, surroundings)
