"""Options and arguments that several commands have; their choices are those of the tables below."""

import click

from kbert.graph.spec import HEADS

SOURCE = click.argument("source", metavar="SRC")
POSITIVE = click.IntRange(min=1)
HEAD_NAMES = click.Choice(list(HEADS))


def output_format(*forms: str):
    """`--format`, how a command prints, as `form`; text, unless it is said."""
    return click.option("--format", "form", type=click.Choice(["text", *forms]), default="text")
