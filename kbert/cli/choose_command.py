"""`kbert choose`: which of several choices fits a prompt."""

import click

import kbert
from kbert.cli.command import command
from kbert.cli.console import say, say_json
from kbert.cli.inputs import open_checkpoint
from kbert.cli.options import PRECISION, SOURCE, option, output_format


@command(
    "Choose the right one of several endings.",
    'kbert choose run "She opens the door." "She walks in." "She is a piano."',
    'kbert choose run "She opens the door." --start "Then she" "walks in." "sings."',
)
@SOURCE
@click.argument("text", metavar="PROMPT")
@click.argument("texts", nargs=-1, required=True, metavar="CHOICE CHOICE …")
@option("--start TEXT", str, "Text that begins every choice, as SWAG's sent2. Default: none.")
@PRECISION
@output_format("json")
def choose(source, text, texts, start, form, **options):
    """Print the choices for a prompt with their probabilities, the most likely first."""
    with open_checkpoint(source, "choose", "choice") as bert:
        choices = kbert.choose(bert, text, texts, start=start or "", **options)
    if form == "json":
        say_json(choices)
        return
    for choice in choices:
        say(f"{choice.probability:.4f}  {choice.text}")
