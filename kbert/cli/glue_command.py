"""The command that runs GLUE: parses, calls, prints; imports wait for the command."""

import logging

import click

from kbert.cli.command import Choice, command
from kbert.cli.console import say, starting_keras
from kbert.cli.early_checks import Input, Output, check_source, check_writable
from kbert.cli.options import POSITIVE, SOURCE, casing
from kbert.cli.pretraining_commands import import_engine
from kbert.tasks.glue.benchmark import tasks_named
from kbert.tasks.glue.grid import Grid
from kbert.training.setting_rules import PRECISIONS


class _Numbers(click.ParamType):
    """Numbers between commas: 16,32."""

    name = "numbers"

    def __init__(self, kind: type):
        self._kind = kind

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        try:
            return tuple(self._kind(part) for part in value.split(","))
        except ValueError:
            self.fail(f"expected numbers separated by commas, got {value!r}", param, ctx)


@command(
    short_help="Fine-tune on GLUE's nine tasks and report the scores.",
    examples=(
        "kbert glue bert-base-uncased --data glue_data -o glue",
        "kbert glue bert-base-uncased --data glue_data --tasks rte --seeds 3 -o glue",
    ),
)
@SOURCE
@click.option(
    "--data",
    metavar="DIR",
    type=Input(),
    required=True,
    help="Folder of GLUE's files.",
)
@click.option(
    "--tasks", default="all", help="Names of the tasks, separated by commas. Default: all."
)
@click.option(
    "--seeds",
    type=POSITIVE,
    default=Grid.seeds,
    help=f"Number of seeds of the best setting. Default: {Grid.seeds}.",
)
@click.option(
    "-o", "--output", metavar="OUT", type=Output(), required=True, help="Folder for the runs."
)
@click.option(
    "--batch-sizes",
    type=_Numbers(int),
    default="16,32",
    help="Batch sizes of the grid. Default: 16,32.",
)
@click.option(
    "--learning-rates",
    type=_Numbers(float),
    default="5e-5,3e-5,2e-5",
    help="Learning rates of the grid. Default: 5e-5,3e-5,2e-5.",
)
@click.option(
    "--epochs",
    type=_Numbers(int),
    default="2,3,4",
    help="Numbers of epochs of the grid. Default: 2,3,4.",
)
@click.option(
    "--max-length", type=POSITIVE, help="Maximum number of tokens per example. Default: 128."
)
@click.option(
    "--precision",
    type=Choice(PRECISIONS),
    default="float32",
    help="Precision of the computation. Default: float32.",
)
@click.option(
    "--accumulation-steps",
    type=POSITIVE,
    default=1,
    help="Number of micro-batches per training step. Default: 1.",
)
@click.option("--devices", type=POSITIVE, help="Number of local devices to train on. Default: all.")
def glue(source, data, tasks, seeds, output, batch_sizes, learning_rates, epochs, **options):
    """Fine-tune the checkpoint SRC on the GLUE files in DIR: DIR/CoLA/train.tsv, …

    Every point of the grid is trained with one seed. The setting with the best score on the dev
    data is trained with all seeds. Each run has a folder in OUT. If the command is interrupted, run
    it again: it continues, and does not repeat finished runs.
    """
    from kbert.tasks.glue.reading import folders

    if options["max_length"] is None:  # the model may have fewer positions than the default
        del options["max_length"]
    grid = {"batch_sizes": batch_sizes, "learning_rates": learning_rates, "epochs": epochs}
    Grid(**grid, seeds=seeds)
    folders(data, tasks_named(tasks))
    check_source(source)
    check_writable(output / "a run")
    with starting_keras():
        from kbert.tasks.glue.glue import glue as start

        import_engine()
        from kbert.checkpoints.bert import load
    if casing() is not None:
        source = load(source, lowercase=casing())
    from kbert.training.stopping import Stopped

    logging.getLogger("kbert").setLevel(logging.INFO)  # a line a run
    try:
        found = start(source, data, output=output, tasks=tasks, seeds=seeds, **grid, **options)
    except Stopped as stopped:
        say("kbert: stopped and saved. To resume, run the same command again", err=True)
        raise click.exceptions.Exit(stopped.status) from None
    click.echo(str(found))
    click.echo(f"wrote {output / 'report.html'}")


COMMANDS = (glue,)
