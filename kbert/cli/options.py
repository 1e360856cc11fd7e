"""Options and arguments that several commands have; their choices are those of the tables below."""

import click

from kbert.cli.command import files, presets_or_files
from kbert.graph.spec import HEADS
from kbert.tasks.precisions import PRECISIONS

CONFIG = click.argument(
    "config", default="base", metavar="[CONFIG]", shell_complete=presets_or_files
)
SOURCE = click.argument("source", metavar="SRC", shell_complete=files)
POSITIVE = click.IntRange(min=1)
PRECISION = click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="What to compute in; default: the model's own.",
)
HEAD_NAMES = click.Choice(list(HEADS))


def output_format(*forms: str):
    """`--format`, how a command prints, as `form`; text, unless it is said."""
    return click.option("--format", "form", type=click.Choice(["text", *forms]), default="text")
