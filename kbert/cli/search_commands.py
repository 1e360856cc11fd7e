"""The commands that look through texts for a query; imports wait for the command."""

import click

from kbert.cli.command import command
from kbert.cli.console import say_json
from kbert.cli.early_checks import Input
from kbert.cli.inputs import loaded, texts_of
from kbert.cli.options import BATCH, LINES, POSITIVE, PRECISION, SOURCE, output_format
from kbert.io import printable
from kbert.tasks.searching import TOP

FORM = output_format("json")
QUERY_PROMPT_NAME = click.option(
    "--query-prompt-name",
    metavar="NAME",
    help="Name of the checkpoint's prompt for queries. Default: query, if it has one.",
)
TEXT_PROMPT_NAME = click.option(
    "--text-prompt-name",
    metavar="NAME",
    help="Name of the checkpoint's prompt for texts. Default: document, if it has one.",
)


@command(
    short_help="Search texts by their embeddings.",
    examples=(
        'kbert search all-MiniLM-L6-v2 "who wrote it?" --lines texts.txt --top-k 3',
        'kbert search all-MiniLM-L6-v2 "who?" --lines texts.txt --vectors vectors.npy',
    ),
)
@SOURCE
@click.argument("query")
@click.argument("texts", nargs=-1, metavar="[TEXT …]")
@LINES
@click.option(
    "--top-k", type=POSITIVE, default=TOP, help=f"Number of texts to return. Default: {TOP}."
)
@click.option(
    "--vectors",
    metavar="FILE",
    type=Input(),
    help="Embeddings of the texts, from kbert embed. Default: they are computed.",
)
@QUERY_PROMPT_NAME
@TEXT_PROMPT_NAME
@BATCH
@PRECISION
@FORM
def search(source, query, texts, lines, vectors, form, **options):
    """Print the texts whose embeddings are most similar to the query's, with the similarity."""
    texts = texts_of(texts, lines)
    found = None
    if vectors is not None:
        from kbert.data.npy_files import read_npy

        found = read_npy(vectors)
    with loaded(source) as bert:
        from kbert.tasks.searching.inference import search

        hits = search(bert, query, texts, vectors=found, **options)
    _print(hits, form)


@command(
    short_help="Sort texts by how well they fit a query.",
    examples=(
        'kbert rank ms-marco-MiniLM-L6-v2 "who wrote it?" "Ada did." "It rained."',
        'kbert rank run/model "who?" --lines texts.txt --label relevant',
    ),
)
@SOURCE
@click.argument("query")
@click.argument("texts", nargs=-1, metavar="[TEXT …]")
@LINES
@click.option("--label", help="Label of the classifier that says that a text fits.")
@QUERY_PROMPT_NAME
@TEXT_PROMPT_NAME
@BATCH
@PRECISION
@FORM
def rank(source, query, texts, lines, form, **options):
    """Print every text, the best fit first.

    A model with a classifier reads query and text together. Any other compares embeddings.
    """
    texts = texts_of(texts, lines)
    with loaded(source) as bert:
        from kbert.tasks.searching.inference import rank

        hits = rank(bert, query, texts, **options)
    _print(hits, form)


COMMANDS = [search, rank]


def _print(hits: list, form: str) -> None:
    if form == "json":
        say_json(hits)
        return
    for hit in hits:
        click.echo(printable.cut(f"{hit.score:>8.4f}  {hit.place + 1:>6}  {hit.text}"))
