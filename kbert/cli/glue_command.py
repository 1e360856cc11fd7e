"""The command that runs GLUE."""

import logging

import click

import kbert
from kbert.cli.command import Choice, command
from kbert.cli.console import say
from kbert.cli.inputs import check_source, check_writable
from kbert.cli.options import POSITIVE, SOURCE, Input, Numbers, Output, casing, option
from kbert.cli.pretraining_commands import start_keras
from kbert.tasks.glue.tasks import find_folder, find_tasks, list_settings
from kbert.training.settings.setting_rules import PRECISIONS


def _grid(declaration: str, kind: type, text: str, default: str):
    """Declare an option with the numbers of an axis of the grid."""
    return option(declaration, Numbers(kind, "numbers", "numbers"), text, default=default)


@command(
    "Fine-tune on GLUE's nine tasks and report the scores.",
    "kbert glue bert-base-uncased --data glue_data -o glue",
    "kbert glue bert-base-uncased --data glue_data --tasks rte --seeds 3 -o glue",
)
@SOURCE
@option("--data DIR", Input(), "Folder of GLUE's files.", required=True)
@option("--tasks", str, "Tasks: all, sane (without WNLI), or names between commas.", default="all")
@option("--seeds", POSITIVE, "Number of seeds of the best setting.", default=5)
@option("-o --output OUT", Output(), "Folder for the runs.", required=True)
@_grid("--batch-sizes", int, "Batch sizes of the grid.", "16,32")
@_grid("--learning-rates", float, "Learning rates of the grid.", "5e-5,3e-5,2e-5")
@_grid("--epochs", int, "Numbers of epochs of the grid.", "2,3,4")
@option("--max-length", POSITIVE, "Maximum number of tokens per example. Default: 128.")
@option("--precision", Choice(PRECISIONS), "Precision of the computation.", default="float32")
@option("--accumulation-steps", POSITIVE, "Number of micro-batches per training step.", default=1)
@option("--devices", POSITIVE, "Number of local devices to train on. Default: all.")
def glue(source, data, tasks, seeds, output, batch_sizes, learning_rates, epochs, **options):
    """Fine-tune the checkpoint SRC on the GLUE files in DIR: DIR/CoLA/train.tsv, …

    Every point of the grid is trained with one seed. The setting with the best score on the dev
    data is trained with all seeds. Each run has a folder in OUT. If the command is interrupted, run
    it again: it continues, and does not repeat finished runs.
    """
    grid = {"batch_sizes": batch_sizes, "learning_rates": learning_rates, "epochs": epochs}
    # These only check, before Keras starts, which takes seconds.
    list_settings(**grid)
    for task in find_tasks(tasks):
        find_folder(data, task)
    check_source(source)
    check_writable(output / "a run")  # that OUT itself can be made or written to

    start_keras()
    if casing() is not None:
        source = kbert.load(source, lowercase=casing())
    from kbert.training.stopping import Stopped

    logging.getLogger("kbert").setLevel(logging.INFO)  # one line per run
    try:
        results = kbert.glue(
            source, data, output=output, tasks=tasks, seeds=seeds, **grid, **options
        )
    except Stopped as stopped:
        say("kbert: stopped and saved. To resume, run the same command again", err=True)
        raise click.exceptions.Exit(stopped.status) from None

    click.echo(str(results))
    click.echo(f"wrote {output / 'report.html'}")
