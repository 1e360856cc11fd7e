"""The commands that look into a checkpoint: vectors of texts, and attention."""

from pathlib import Path

import click

from kbert.checkpoints.sentence_settings import POOLINGS
from kbert.cli.command import Choice, command
from kbert.cli.console import progress, say, say_json
from kbert.cli.early_checks import Output, check_writable
from kbert.cli.inputs import loaded, read_lines
from kbert.cli.options import BATCH, POSITIVE, PRECISION, SOURCE, output_format
from kbert.io import printable
from kbert.io.atomic_write import check_new_file
from kbert.tasks.attention import SPECIAL
from kbert.tasks.embedding import LONG_TEXTS

_MOST_COLUMNS = 8  # of a matrix of similarities that fits 80 columns

FORM = output_format("json")
LAYER = click.option(
    "--layer",
    type=POSITIVE,
    help="Number of one encoder block, from 1. Default: all blocks, or their mean.",
)
HEAD = click.option(
    "--head",
    type=POSITIVE,
    help="Number of one attention head, from 1. Default: all heads, or their mean.",
)
POOLING = click.option(
    "--pooling",
    type=Choice(POOLINGS),
    metavar="HOW",
    help=f"How token vectors become one embedding: {', '.join(POOLINGS)}. Default: the "
    "checkpoint's own, else mean.",
)
LAYERS = click.option(
    "--layers",
    type=POSITIVE,
    help="Number of hidden states that --pooling last concatenates. Default: 4.",
)
PROMPT_NAME = click.option(
    "--prompt-name",
    metavar="NAME",
    help="Name of the checkpoint's prompt to put before each text. Default: its default prompt.",
)
PROMPT = click.option("--prompt", metavar="TEXT", help="Text to put before each text; '' for none.")
LONG = click.option(
    "--long",
    type=Choice(LONG_TEXTS),
    default="truncate",
    help="What to do with long texts: cut them, or average over windows. Default: truncate.",
)


@command(
    short_help="Compute the embeddings of texts.",
    examples=(
        "kbert embed all-MiniLM-L6-v2 texts.txt -o vectors.npy",
        "cat texts.txt | kbert embed bert-base-uncased - -o vectors.npy --pooling cls",
    ),
    basic=("output", "pooling", "normalize", "max_length", "batch_size"),
)
@SOURCE
@click.argument("lines", metavar="LINES")
@click.option(
    "-o", "--output", required=True, type=Output(), help="File to write; it ends in .npy."
)
@POOLING
@LAYERS
@PROMPT_NAME
@PROMPT
@click.option(
    "--normalize/--no-normalize",
    default=None,
    help="Scale each embedding to length 1. Default: the checkpoint's own.",
)
@LONG
@click.option(
    "--max-length",
    type=POSITIVE,
    metavar="S",
    help="Maximum number of tokens per text. Default: the model's.",
)
@BATCH
@PRECISION
def embed(source, lines, output, **options):
    """Write one embedding per line of LINES (- reads standard input) to a float32 .npy file."""
    if output.suffix != ".npy":
        raise click.UsageError(f"--output must end in .npy, got {output.name!r}")
    check_new_file(output)
    check_writable(output)
    texts = read_lines(lines)
    with loaded(source) as bert:
        from kbert.tasks.embedding.inference import embed

        vectors = embed(
            bert,
            texts,
            **options,
        )
    _write_npy(output, vectors)
    say(f"wrote {output}: {len(vectors):,} × {vectors.shape[1]:,} {vectors.dtype}")


@command(
    short_help="Compare texts by their embeddings.",
    examples=('kbert similarity all-MiniLM-L6-v2 "A cat sat." "A dog ran." "Rates rose."',),
)
@SOURCE
@click.argument("texts", nargs=-1, required=True, metavar="A B …")
@POOLING
@LAYERS
@PROMPT_NAME
@PROMPT
@LONG
@PRECISION
@FORM
def similarity(source, texts, form, **options):
    """Print the similarity of all texts: by the checkpoint's function, else the cosine."""
    if len(texts) < 2:
        raise click.UsageError("similarity needs at least two texts, got one")
    with loaded(source) as bert:
        from kbert.tasks.embedding.inference import similarity

        matrix = similarity(bert, texts, **options)
    if form == "json":
        say_json({"texts": texts, "similarity": matrix.tolist()})
    else:
        click.echo(_matrix_text(texts, matrix), nl=False)


@command(
    short_help="Show the attention weights of a text.",
    examples=(
        'kbert attention bert-base-uncased "A cat sat." "It purred." -o attention.html',
        'kbert attention bert-base-uncased "A cat sat." -o map.png --layer 1 --head 2',
    ),
)
@SOURCE
@click.argument("text")
@click.argument("pair", required=False)
@click.option(
    "-o",
    "--output",
    required=True,
    type=Output(),
    help="File to write: .html .npz .png .svg .pdf.",
)
@LAYER
@HEAD
@click.option(
    "--special",
    type=Choice(SPECIAL),
    help="How [CLS] and [SEP] are shown. In a picture: grey if above the scale of the other tokens "
    "(clipped, the default), not at all (hidden), or on one scale for all tokens (whole). On a "
    "page: not at first (hidden, the default), or shown.",
)
@PRECISION
def attention(source, text, pair, output, layer, head, special, precision):
    """Write how much each token attends to each other token.

    \b
    .html            an interactive page: every head, lines between the tokens,
                     a heat map, queries and keys; one file, no network
    .png .svg .pdf   a heat map
    .npz             the numbers
    """
    from kbert.tasks.attention.attention_map import ENDINGS
    from kbert.tasks.pictures import PICTURES, check_path

    picture = check_path(output, ENDINGS).suffix.lower() in PICTURES
    check_writable(output)
    with loaded(source) as bert:
        from kbert.tasks.attention.inference import attention

        found = attention(
            bert, text, pair, layer=layer, head=head, vectors=not picture, precision=precision
        )
    with progress("drawing" if picture else "writing"):
        write = found.plot if picture else found.save
        options = {} if special is None else {"special": special}
        path = write(output, layer=layer, head=head, **options)
    say(f"wrote {path} ({path.stat().st_size:,} bytes)")


COMMANDS = [embed, similarity, attention]


def _write_npy(path: Path, array) -> None:
    import numpy as np

    from kbert.io.atomic_write import atomic_file

    with atomic_file(path) as part, open(part, "wb") as file:
        np.save(file, array)


def _matrix_text(texts: tuple[str, ...], matrix) -> str:
    """A matrix where it fits, else the pairs, the likest first."""
    numbers = range(1, len(texts) + 1)
    listed = [
        printable.cut(f"{number:>3}  {text}") for number, text in zip(numbers, texts, strict=True)
    ]
    if len(texts) <= _MOST_COLUMNS:
        rows = ["     " + "".join(f"{number:>8}" for number in numbers)]
        for number, row in zip(numbers, matrix, strict=True):
            rows.append(f"{number:>5}" + "".join(f"{value:>8.4f}" for value in row))
    else:
        pairs = [(matrix[a - 1, b - 1], a, b) for a in numbers for b in numbers if a < b]
        rows = [f"{value:>8.4f}  {a:>3} {b:>3}" for value, a, b in sorted(pairs, reverse=True)]
    return "\n".join([*listed, "", *rows]) + "\n"
