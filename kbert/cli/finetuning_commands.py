"""The commands that fine-tune and evaluate: parse, call, print; imports wait for the command."""

import inspect
import json
import logging
import textwrap
from pathlib import Path

import click

from kbert.cli.command import command, names_or_files
from kbert.cli.console import starting_keras
from kbert.cli.early_checks import Input, Output, check_file, check_source
from kbert.cli.options import (
    BATCH,
    CASING_HELP,
    POSITIVE,
    PRECISION,
    SOURCE,
    AliasedChoice,
    casing,
    output_format,
)
from kbert.cli.pretraining_commands import (
    check_new_run,
    import_engine,
    refuse_other_task,
    refuse_with_resume,
    say_finished,
    say_metrics,
    say_where,
    stoppable,
)
from kbert.cli.setting_options import given, with_run_options, with_settings
from kbert.data import samples
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.finetuning.task import TASKS, read_data, task_of

_TASKS = AliasedChoice("task", TASKS)
_SAMPLES = {"samples.TRAIN": samples.TRAIN, "samples.DEV": samples.DEV}
_SMALL_FILE = 2**26  # bytes that are read in less than the time in which Keras starts
_COLUMNS = {
    "text_column": "Column of the texts, or of the words. Default: found by its name.",
    "text_pair_column": "Column of the second texts. Default: found by its name.",
    "label_column": "Column of the labels or numbers. Default: found by its name.",
    "no_header": "Read the first line as an example, even if it looks like a header.",
}
_HELP = _COLUMNS | {
    "epochs": "Number of passes over the training data.",
    "max_length": "Maximum number of tokens per example. Default: 128, or as many as the model "
    "has positions.",
    "packing": "Pack several examples into one row: less padding, the same results. "
    "It does not go with the tasks qa and embed.",
    "label_smoothing": "Share of each label that is spread over all labels, for classify and tag.",
    "class_weights": "Give rare labels more weight in the loss, for classify and tag.",
    "loss": "Loss of the task embed. Default: infonce; cosent for scored pairs.",
    "pooling": "Pooling of the task embed. Default: the checkpoint's own, else mean.",
    "scale": "Factor of the cosines in the losses infonce and cosent.",
    "margin": "Margin of the loss triplet.",
    "dimensions": "Lengths to which embeddings can be cut, for the task embed (Matryoshka).",
    "optimizer": "",  # AdamW; from Python, one of Keras's
    "warmup_ratio": "Share of the steps that are warm-up.",
    "freeze": "Parts that are not trained, such as embeddings,1-8.",
    "head_learning_rate": "Peak learning rate of the head. Default: --learning-rate.",
    "layer_decay": "Factor of the learning rate from each layer to the one below, such as 0.95.",
    "lora_rank": "Rank of LoRA adapters. They and the head are trained, all other weights frozen.",
    "lora_targets": "Matrices that get an adapter, separated by commas.",
    "lora_alpha": "Scale of the adapters: they count alpha / rank times. Default: once.",
    "lora_dropout": "Dropout rate of the adapters' inputs.",
    "seed": "Random seed of the head, the order of the examples and dropout.",
    "keep_best": "Return the weights with the best score on the dev data, or the last ones. "
    "Default: the best.",
    "evaluate_every": "Number of steps between two evaluations. Default: one epoch.",
    "save_every": "Number of steps between two saved training states. "
    "Default: at the best evaluations and at the end.",
}


class _LabelledFile(Input):
    """A path of labelled data, or a sample by its name in Python, unless a file has that name."""

    sample_names = tuple(_SAMPLES)

    def convert(self, value, param, ctx):
        if value in _SAMPLES and not Path(value).is_file():
            return _SAMPLES[value]
        return super().convert(value, param, ctx)


_DATA = _LabelledFile()
_FILES = "a .tsv, .csv, .jsonl or .json file"
_TASK_HELP = f"Task: {', '.join(TASKS)}."
_BASIC = (
    *("task", "train", "dev", "output", "run", "epochs", "batch_size", "learning_rate"),
    *("max_length", "lora_rank", "precision", "seed"),
)


def _list_tasks(function):
    """Write each task and what its files contain into a command's help, in place of TASKS."""
    tasks = "\n".join(
        textwrap.fill(f"{name + ':':<12}{data}", 78, subsequent_indent=" " * 12)
        for name, (_, data) in TASKS.items()
    )
    function.__doc__ = inspect.cleandoc(function.__doc__).replace("\nTASKS\n", f"\n{tasks}\n")
    return function


@command(
    short_help="Fine-tune a checkpoint on labelled data, or resume a run.",
    examples=(
        "kbert finetune bert-base-uncased --task classify --train train.tsv \\",
        "    --dev dev.tsv -o run",
        "kbert finetune --resume run",
    ),
    basic=_BASIC,
)
@click.argument("source", required=False, metavar="[SRC]", shell_complete=names_or_files)
@click.option("--task", type=_TASKS, help=_TASK_HELP)
@click.option("--train", metavar="FILE", type=_DATA, help=f"Labelled training data: {_FILES}.")
@click.option(
    "--dev",
    metavar="FILE",
    type=_DATA,
    help=f"Labelled data for evaluation after each epoch: {_FILES}.",
)
@click.option(
    "--teacher",
    metavar="SRC",
    help="Teacher checkpoint for distillation; it must have the same labels, unless --alpha is 0.",
)
@click.option("-o", "--output", metavar="RUN", type=Output(), help="New folder for the run.")
@click.option("--resume", "run", metavar="RUN", type=Input(), help="Resume the run in this folder.")
@click.option("--uncased/--cased", "lowercase", default=None, help=CASING_HELP)
@with_settings(FinetuningSettings, _HELP)
@with_run_options
@_list_tasks
def finetune(source, task, train, dev, teacher, output, run, around, **settings):
    """Fine-tune the checkpoint SRC on labelled data.

    A new run needs `--task TASK --train FILE -o RUN`. The task says what FILE contains:

    \b
    TASKS

    To try it without data of your own, use the sample that comes with kbert:
    `--task classify --train samples.TRAIN --dev samples.DEV`.

    Ctrl-C saves the run. After Ctrl-C or a crash, `kbert finetune --resume RUN` continues it.
    """
    settings = given(settings, around)
    if run is not None:
        refuse_with_resume(task=task, output=output)
        moved = {"source": source, "train": train, "dev": dev, "teacher": teacher}
        _go_on(run, settings, **moved, **around)
        return
    needed = (("SRC", source), ("--task", task), ("--train", train), ("-o RUN", output))
    for name, value in needed:
        if value is None:
            raise click.UsageError(
                f"{name} is missing: kbert finetune SRC --task classify --train FILE -o RUN"
            )
    check_new_run(output, "finetune")
    columns = FinetuningSettings.from_options(settings).columns
    check_file(train)
    check_file(dev)
    _check_source(source)
    _check_data(task, train, dev, columns)
    if teacher is not None:
        check_source(teacher)
    with starting_keras():
        from kbert.tasks.finetuning.finetune import finetune as start

        import_engine()
    data = {"train": train, "dev": dev, "teacher": teacher, "output": output}
    tuned = stoppable(start, source, task, **data, **around, **settings)
    _say(tuned)


def _check_source(source) -> None:
    """Raise where neither a checkpoint nor an adapter of one is at a path."""
    from kbert.checkpoints import run_models
    from kbert.tasks.finetuning import continued_adapter

    folder, is_run = continued_adapter.find_adapter(source), run_models.is_run(Path(source))
    check_source(continued_adapter.find_base(folder) if folder and not is_run else source)


def _check_data(task: str, train: Path, dev: Path | None, columns) -> None:
    """Raise for mistakes in small data files before Keras starts; it reads them again."""
    for path in (train, dev):
        if path is not None and not (path.is_file() and path.stat().st_size <= _SMALL_FILE):
            return  # what comes from a pipe can be read once
    logging.disable()  # the warnings come when it is read again
    try:
        read_data(task_of(task), train, dev, columns)
    finally:
        logging.disable(logging.NOTSET)


def _go_on(run: Path, settings: dict, **options) -> None:
    from kbert.training.run.run_folder import RunFolder

    folder = RunFolder.open(run)
    refuse_other_task(folder, "finetune")
    if say_finished(folder, settings, options["keep_checkpoints"]):
        return
    for name in ("source", "teacher"):
        if options[name] is not None:
            check_source(options[name])
    check_file(options["train"])
    check_file(options["dev"])
    with starting_keras():
        from kbert.tasks.resume import resume

        import_engine()
    _say(stoppable(resume, run, **options, **settings))


def _say(tuned) -> None:
    say_metrics(tuned.metrics)
    say_where(tuned)


@command(
    short_help="Evaluate a model on labelled data.",
    examples=("kbert evaluate run/model --task classify --data dev.tsv",),
    basic=("task", "data", "batch_size", "form"),
)
@SOURCE
@click.option("--task", type=_TASKS, required=True, help=_TASK_HELP)
@click.option(
    "--data", metavar="FILE", type=_DATA, required=True, help="Labelled data, as for finetune."
)
@click.option(
    "--max-length",
    type=POSITIVE,
    help="Maximum number of tokens per example. Default: the model's.",
)
@BATCH
@click.option("--text-column", help=_COLUMNS["text_column"])
@click.option("--text-pair-column", help=_COLUMNS["text_pair_column"])
@click.option("--label-column", help=_COLUMNS["label_column"])
@click.option("--no-header", is_flag=True, help=_COLUMNS["no_header"])
@PRECISION
@output_format("json")
def evaluate(source, task, data, form, **options):
    """Print the metrics of the model SRC on labelled data."""
    found = task_of(task)
    check_source(source, f"--task {task}", None if found.trains_embeddings else found.head)
    check_file(data)
    with starting_keras():
        import kbert.tasks.running  # noqa: F401
        from kbert.checkpoints.bert import load
        from kbert.tasks.finetuning.evaluate import evaluate as metrics_of
    if casing() is not None:
        source = load(source, lowercase=casing())
    metrics = metrics_of(source, task, data, **options)
    if form == "json":
        click.echo(json.dumps(metrics, indent=2))
        return
    width = max(map(len, metrics))
    for name, value in metrics.items():
        click.echo(f"{name:<{width}}  {value:.4f}")


COMMANDS = (finetune, evaluate)
