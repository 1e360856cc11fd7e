"""The command that runs GLUE."""

import logging

import click

import kbert
from kbert.cli.command import Choice, command
from kbert.cli.inputs import check_source, check_writable
from kbert.cli.options import POSITIVE, SOURCE, Input, Numbers, Output, casing, option
from kbert.cli.pretraining_commands import reporting_stop, start_keras
from kbert.tasks.glue.tasks import find_folder, find_tasks, list_settings
from kbert.training.settings.setting_rules import PRECISIONS

_WHOLE = Numbers(int, "numbers", "numbers")
_RATES = Numbers(float, "numbers", "numbers")


@command(
    "Fine-tune on GLUE's nine tasks and report the scores.",
    "kbert glue bert-base-uncased --data glue_data -o glue",
    "kbert glue bert-base-uncased --data glue_data --tasks rte --seeds 3 -o glue",
    "kbert glue run/model --data glue_data --tasks sane --epochs 5 -o glue",
)
@SOURCE
@option("--data DIR", Input(), "Folder of GLUE's files.", required=True)
@option("--tasks", str, "Tasks: all, sane (without WNLI), or names between commas.", default="all")
@option("--seeds", POSITIVE, "Number of seeds of the best setting.", default=5)
@option("-o --output OUT", Output(), "Folder for the runs.", required=True)
@option("--batch-sizes", _WHOLE, "Batch sizes of the grid.", default="16,32")
@option("--learning-rates", _RATES, "Learning rates of the grid.", default="5e-5,3e-5,2e-5")
@option("--epochs", _WHOLE, "Numbers of epochs of the grid.", default="2,3,4")
@option("--max-length", POSITIVE, "Maximum number of tokens per example. Default: 128.")
@option("--precision", Choice(PRECISIONS), "Precision of the computation.", default="float32")
@option("--accumulation-steps", POSITIVE, "Number of micro-batches per training step.", default=1)
@option("--devices", POSITIVE, "Number of local devices to train on. Default: all.")
def glue(source, data, tasks, output, **options):
    """Fine-tune the checkpoint SRC on the GLUE files in DIR: DIR/CoLA/train.tsv, …

    Every point of the grid is trained with one seed. The setting with the best score on the dev
    data is trained with all seeds. Each run has a folder in OUT. If the command is interrupted, run
    it again: it continues, and does not repeat finished runs.
    """
    # These only check, before Keras starts, which takes seconds.
    list_settings(**{name: options[name] for name in ("batch_sizes", "learning_rates", "epochs")})
    for task in find_tasks(tasks):
        find_folder(data, task)
    check_source(source)
    check_writable(output / "a run")  # that OUT itself can be made or written to

    start_keras()
    if casing() is not None:
        source = kbert.load(source, lowercase=casing())
    logging.getLogger("kbert").setLevel(logging.INFO)  # one line per run
    with reporting_stop("stopped and saved. To resume, run the same command again"):
        click.echo(kbert.glue(source, data, output=output, tasks=tasks, **options))
        click.echo(f"wrote {output / 'report.html'}")
