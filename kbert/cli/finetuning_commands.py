"""The commands that fine-tune and evaluate."""

import inspect
import logging
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kbert.cli import options as shared
from kbert.cli import pretraining_commands as runs
from kbert.cli.command import Choice, command, names_or_files
from kbert.cli.inputs import TextInput, check_file, check_source, open_checkpoint
from kbert.cli.options import POSITIVE, AliasedChoice, option, takes
from kbert.cli.setting_options import add_run_options, add_settings, select_settings
from kbert.cli.settings_file import add_settings_file
from kbert.data import samples
from kbert.tasks.distillation.settings import check_teacher
from kbert.tasks.finetuning.settings import COLUMNS, FinetuningSettings
from kbert.tasks.finetuning.task import TASKS, read_data, task_of

_TASKS = AliasedChoice("task", TASKS)
_SAMPLES = {"samples.TRAIN": samples.TRAIN, "samples.DEV": samples.DEV}
_SMALL_FILE = 2**26  # bytes that are read in less than the time in which Keras starts


class _LabelledFile(TextInput):
    """A path of labelled data, or a sample by its name in Python, unless a file has that name."""

    sample_names = tuple(_SAMPLES)

    def convert(self, value, param, ctx):
        if ctx.params.get("print_settings"):  # which reads nothing
            return value
        if value in _SAMPLES and not Path(value).is_file():
            return _SAMPLES[value]
        return super().convert(value, param, ctx)


class _Loss(Choice):
    """The names of losses; an unknown one is answered with those of the task, if it is given."""

    def get_invalid_choice_message(self, value, ctx):
        task = ctx.params.get("task") if ctx is not None else None
        if task is None:
            return super().get_invalid_choice_message(value, ctx)
        return f"{value!r} must be {' or '.join(task_of(task).losses)} for the task {task}."


_DATA = _LabelledFile()
_FILES = (
    "a .tsv, .csv, .jsonl or .json file, also .gz, .bz2 or .xz; or .parquet; - reads a .tsv from "
    "standard input"
)
_TASK_HELP = "Task, which decides what the data files contain."


def _list_tasks(function):
    """Write each task and what its files contain into a command's help, in place of TASKS."""
    tasks = []
    for name, (_, data) in TASKS.items():
        title = f"{name}:"
        tasks.append(textwrap.fill(f"{title:<12}{data}", 78, subsequent_indent=" " * 12))

    listed = "\n".join(tasks)
    text = inspect.cleandoc(function.__doc__)
    function.__doc__ = text.replace("\nTASKS\n", f"\n{listed}\n")
    return function


def _check_settings(settings: FinetuningSettings, arguments: Mapping[str, Any]) -> None:
    """Raise a ValueError for settings that do not go with a run's task, dev data or teacher.

    A task that is not given yet is not checked.
    """
    has_teacher = arguments.get("teacher") is not None
    check_teacher(settings, has_teacher)
    settings.check_dev(arguments.get("dev") is not None)
    task = arguments.get("task")
    if task is not None:
        definition = task_of(task).with_positive_label(settings.positive_label)
        settings.check_for(definition, has_teacher)


@command(
    "Fine-tune a checkpoint on labelled data, or resume a run.",
    "kbert finetune bert-base-uncased --task classify --train train.tsv \\",
    "    --dev dev.tsv -o run",
    "kbert finetune --settings run.yaml",
    "kbert finetune --resume run",
    basic="task train dev output run settings_file print_settings epochs batch_size learning_rate "
    "max_length lora_rank precision seed",
)
@click.argument("source", required=False, metavar="[SRC]", shell_complete=names_or_files)
@option("--task", _TASKS, _TASK_HELP, is_eager=True)
@option("--train FILE", _DATA, f"Labelled training data: {_FILES}.")
@option("--dev FILE", _DATA, f"Labelled data for evaluation after each epoch: {_FILES}.")
@option(
    "--teacher SRC",
    str,
    "Teacher checkpoint for distillation; it must have the same labels, unless --alpha is 0.",
)
@runs.OUTPUT_RUN
@runs.RESUME
@add_settings_file(FinetuningSettings, _check_settings)
@option("--uncased/--cased lowercase", bool, shared.CASING_HELP)
@add_settings(
    FinetuningSettings,
    without=("lowercase", "lengths", "optimizer", "metrics"),
    choices={"loss": _Loss},
)
@add_run_options
@_list_tasks
def finetune(source, task, train, dev, teacher, output, run, run_options, **settings):
    """Fine-tune the checkpoint SRC on labelled data.

    A new run needs `--task TASK --train FILE -o RUN`. The task says what FILE contains:

    \b
    TASKS

    To try it without data of your own, use the sample that comes with kbert:
    `--task classify --train samples.TRAIN --dev samples.DEV`.

    `--settings FILE` reads all of these from a file, `--print-settings` prints such a file.

    Ctrl-C saves the run. After Ctrl-C or a crash, `kbert finetune --resume RUN` continues it.
    """
    settings = select_settings(settings, run_options)
    data = {"train": train, "dev": dev, "teacher": teacher}
    if run is not None:
        runs.refuse_with_resume(task=task, output=output)
        moved = data | {"source": source}
        runs.resume_run("finetune", run, settings, run_options, moved, _check_paths)
        return

    needed = {"SRC": source, "--task": task, "--train": train, "-o RUN": output}
    runs.require_options("kbert finetune SRC --task classify --train FILE -o RUN", needed)
    runs.check_new_run(output)
    checked_settings = FinetuningSettings.from_options(settings)
    _check_settings(checked_settings, {"task": task, **data})
    _check_paths(**data, source=source)
    _check_data(task, train, dev, checked_settings.columns)

    runs.run_task("finetune", source, task, output=output, **data, **run_options, **settings)


def _check_paths(train, dev, teacher, source) -> None:
    """Raise for data that are missing, a checkpoint, or the base of an adapter that is the source.

    What is None is not given.
    """
    from kbert.checkpoints import run_models
    from kbert.tasks.finetuning import continued_adapter

    check_file(train)
    check_file(dev)
    if source is not None and not run_models.is_run(Path(source)):
        adapter = continued_adapter.find_adapter(source)
        if adapter:
            source = continued_adapter.find_base(adapter)
    if teacher:
        check_source(teacher)
    if source:
        check_source(source)


def _check_data(task: str, train: Path, dev: Path | None, columns) -> None:
    """Raise for mistakes in small data files before Keras starts; it reads them again."""
    for path in (train, dev):
        if path is None:
            continue
        is_small_file = path.is_file() and path.stat().st_size <= _SMALL_FILE
        if not is_small_file:
            return  # what comes from a pipe can be read once

    logging.disable()  # the warnings come when it is read again
    try:
        read_data(task_of(task), train, dev, columns)
    finally:
        logging.disable(logging.NOTSET)


@command(
    "Evaluate a model on labelled data.",
    "kbert evaluate run --data dev.tsv",
    "kbert evaluate bert-base-NER --task tag --data test.conll",
    basic="task data batch_size form",
)
@shared.SOURCE
@option("--task", _TASKS, f"{_TASK_HELP} Default: the task of the run SRC.")
@option("--data FILE", _DATA, "Labelled data, as for finetune.", required=True)
@option("--max-length", POSITIVE, "Maximum number of tokens per example. Default: the model's.")
@shared.BATCH
@add_settings(FinetuningSettings, *COLUMNS, "no_header", "positive_label")
@takes(shared.PRECISION, shared.JSON)
def evaluate(source, task, data, batch_size, precision, **options):
    """Print the metrics of the model SRC on labelled data.

    If SRC is the folder of a run, the columns, --max-length and --positive-label that are not given
    are those of the run.
    """
    from kbert.tasks.finetuning.evaluate import evaluate_model
    from kbert.tasks.finetuning.run_defaults import find_run

    run = find_run(source)
    if task is None and run is not None:
        task = run.settings.get("task")
    runs.require_options("kbert evaluate SRC --task classify --data FILE", {"--task": task})
    definition = task_of(task)
    check_file(data)

    head = None if definition.trains_embeddings else definition.head
    with open_checkpoint(source, f"--task {task}", head) as bert:
        metrics = evaluate_model(bert, run, task, data, options, batch_size, precision)
    yield metrics

    width = max(len(name) for name in metrics)
    for name, value in metrics.items():
        click.echo(f"{name:<{width}}  {value:.4f}")
