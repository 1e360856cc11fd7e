"""The commands that compute embeddings, and compare, search and sort texts by them."""

import itertools
from pathlib import Path

import click

import kbert
from kbert.checkpoints.sentence_settings import POOLINGS
from kbert.cli import options as shared
from kbert.cli.command import Choice, command
from kbert.cli.console import say, say_json
from kbert.cli.inputs import open_checkpoint, read_texts, read_texts_or_file
from kbert.cli.options import POSITIVE, Input, Output, option, takes
from kbert.io import printable
from kbert.io.atomic_write import atomic_file, check_new_file, refuse_input
from kbert.tasks.embedding import LONG_TEXTS
from kbert.tasks.searching import TOP

_MOST_COLUMNS = 8  # of a matrix of similarities that fits 80 columns

POOLING = option(
    "--pooling HOW",
    Choice(POOLINGS),
    f"How token vectors become one embedding: {', '.join(POOLINGS)}. Default: the checkpoint's "
    "own, else mean.",
)
NUM_LAYERS = option(
    "--num-layers",
    POSITIVE,
    "With --pooling last: concatenate the last N hidden states. Default: 4.",
)
PROMPT_NAME = option(
    "--prompt-name NAME",
    str,
    "Name of the checkpoint's prompt to put before each text. Default: its default prompt.",
)
PROMPT = option("--prompt TEXT", str, "Text to put before each text; '' for none.")
LONG = option(
    "--long",
    Choice(LONG_TEXTS),
    "What to do with long texts: cut them, or average over windows.",
    default="truncate",
)
QUERY_PROMPT_NAME = option(
    "--query-prompt-name NAME",
    str,
    "Name of the checkpoint's prompt for queries. Default: query, if it has one.",
)
TEXT_PROMPT_NAME = option(
    "--text-prompt-name NAME",
    str,
    "Name of the checkpoint's prompt for texts. Default: document, if it has one.",
)


@command(
    "Compute the embeddings of texts.",
    'kbert embed all-MiniLM-L6-v2 "A cat sat." "A dog ran."',
    "kbert embed all-MiniLM-L6-v2 --lines texts.txt -o vectors.npy",
    "cat texts.txt | kbert embed bert-base-uncased - -o vectors.npy --pooling cls",
    basic="lines output overwrite pooling normalize max_length batch_size form",
)
@shared.SOURCE
@click.argument("inputs", nargs=-1, metavar="[TEXT …]")
@shared.LINES
@option("-o --output", Output(), "File to write; it ends in .npy. Default: print the embeddings.")
@option("--overwrite", bool, "Replace a file at --output.")
@takes(POOLING, NUM_LAYERS, PROMPT_NAME, PROMPT)
@option(
    "--normalize/--no-normalize",
    bool,
    "Scale each embedding to length 1. Default: the checkpoint's own.",
)
@LONG
@option("--max-length S", POSITIVE, "Maximum number of tokens per text. Default: the model's.")
@takes(shared.BATCH, shared.PRECISION, shared.output_format("json"))
def embed(source, inputs, lines, output, overwrite, form, **options):
    """Compute one embedding per text: print it, or write all to a float32 .npy file.

    A single TEXT that is the name of a file, or -, is read as with --lines.
    """
    if output is not None:
        check_new_file(output, (".npy",), "--output", overwrite=overwrite)
        refuse_input(output, (lines, *inputs))
        if form == "json":
            raise click.UsageError("--format goes without --output: leave one of them out")
    texts = read_texts_or_file(inputs, lines)

    with open_checkpoint(source) as bert:
        embeddings = kbert.embed(bert, texts, **options)

    if output is not None:
        _write_embeddings(embeddings, output, overwrite)
    elif form == "json":
        pairs = zip(texts, embeddings.tolist(), strict=True)
        say_json([{"text": text, "embedding": embedding} for text, embedding in pairs])
    else:
        for embedding in embeddings:
            click.echo(" ".join(f"{number:.6g}" for number in embedding))


def _write_embeddings(embeddings, output: Path, overwrite: bool) -> None:
    """Write a .npy file, and say what is in it."""
    import numpy as np

    check_new_file(output, overwrite=overwrite)  # it may have come meanwhile
    with atomic_file(output) as part, open(part, "wb") as file:
        np.save(file, embeddings)
    count, size = embeddings.shape
    say(f"wrote {output}: {count:,} × {size:,} {embeddings.dtype}")


@command(
    "Compare texts by their embeddings.",
    'kbert similarity all-MiniLM-L6-v2 "A cat sat." "A dog ran." "Rates rose."',
)
@shared.SOURCE
@click.argument("texts", nargs=-1, required=True, metavar="A B …")
@takes(POOLING, NUM_LAYERS, PROMPT_NAME, PROMPT, LONG, shared.PRECISION, shared.JSON)
def similarity(source, texts, **options):
    """Print the similarity of each pair of texts, by the checkpoint's function or the cosine."""
    if len(texts) < 2:
        raise click.UsageError("similarity needs at least two texts, got one")
    with open_checkpoint(source) as bert:
        matrix = kbert.similarity(bert, texts, **options)
    yield {"texts": texts, "similarity": matrix.tolist()}

    for number, text in enumerate(texts, 1):
        click.echo(printable.cut(f"{number:>3}  {text}"))
    click.echo()
    if len(texts) <= _MOST_COLUMNS:
        _print_matrix(matrix)
    else:
        _print_pairs(matrix)


def _print_matrix(matrix) -> None:
    """Print a matrix of similarities, with the numbers of the texts around it."""
    numbers = range(1, len(matrix) + 1)
    click.echo("     " + "".join(f"{number:>8}" for number in numbers))
    for number, row in zip(numbers, matrix, strict=True):
        cells = "".join(f"{value:>8.4f}" for value in row)
        click.echo(f"{number:>5}{cells}")


def _print_pairs(matrix) -> None:
    """Print the similarities of all pairs of texts, the most similar first."""
    numbers = range(1, len(matrix) + 1)
    pairs = [(matrix[a - 1, b - 1], a, b) for a, b in itertools.combinations(numbers, 2)]
    for value, a, b in sorted(pairs, reverse=True):
        click.echo(f"{value:>8.4f}  {a:>3} {b:>3}")


@command(
    "Search texts by their embeddings.",
    'kbert search all-MiniLM-L6-v2 "who wrote it?" --lines texts.txt --top-k 3',
    'kbert search all-MiniLM-L6-v2 "who?" --lines texts.txt --embeddings texts.npy',
)
@shared.SOURCE
@click.argument("query")
@takes(shared.TEXTS, shared.LINES)
@option("--top-k", POSITIVE, "Number of texts to return.", default=TOP)
@option(
    "--embeddings file FILE",
    Input(),
    "Embeddings of the texts, from kbert embed. Default: they are computed.",
)
@takes(QUERY_PROMPT_NAME, TEXT_PROMPT_NAME, shared.BATCH, shared.PRECISION, shared.JSON)
def search(source, query, texts, lines, file, **options):
    """Print the texts whose embeddings are most similar to the query's, with the similarity."""
    texts = read_texts(texts, lines)
    if file is not None:
        from kbert.data.npy_files import read_npy

        options["embeddings"] = read_npy(file)
    with open_checkpoint(source) as bert:
        yield from _print_hits(kbert.search(bert, query, texts, **options))


@command(
    "Sort texts by how well they fit a query.",
    'kbert rank ms-marco-MiniLM-L6-v2 "who wrote it?" "Ada did." "It rained."',
    'kbert rank run/model "who?" --lines texts.txt --label relevant',
)
@shared.SOURCE
@click.argument("query")
@takes(shared.TEXTS, shared.LINES)
@option("--label", str, "Label of the classifier that says that a text fits.")
@takes(QUERY_PROMPT_NAME, TEXT_PROMPT_NAME, shared.BATCH, shared.PRECISION, shared.JSON)
def rank(source, query, texts, lines, **options):
    """Print every text, the best fit first.

    A model with a classifier reads query and text together. Any other compares embeddings.
    """
    texts = read_texts(texts, lines)
    with open_checkpoint(source) as bert:
        yield from _print_hits(kbert.rank(bert, query, texts, **options))


def _print_hits(hits: list):
    """Yield the hits for JSON, then print them."""
    yield hits
    for hit in hits:
        click.echo(printable.cut(f"{hit.score:>8.4f}  {hit.place + 1:>6}  {hit.text}"))
