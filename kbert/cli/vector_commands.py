"""The commands that look into a checkpoint: vectors of texts, and attention."""

from pathlib import Path

import click

from kbert.checkpoints.sentence_settings import POOLINGS
from kbert.cli.command import command
from kbert.cli.console import progress, say
from kbert.cli.early_checks import Output, check_writable
from kbert.cli.inputs import loaded, read_lines
from kbert.cli.options import POSITIVE, PRECISION, SOURCE, output_format
from kbert.io import printable
from kbert.io.atomic_write import check_new_file
from kbert.tasks.attention import SPECIAL
from kbert.tasks.embedding import LONG_TEXTS

_MOST_COLUMNS = 8  # of a matrix of similarities that fits 80 columns

FORM = output_format("json")
BATCH = click.option(
    "--batch-size", type=POSITIVE, default=32, metavar="B", help="Texts at a time."
)
LAYER = click.option(
    "--layer", type=POSITIVE, help="One encoder block, from 1; default: all, or their mean."
)
HEAD = click.option("--head", type=POSITIVE, help="One head, from 1; default: all, or their mean.")
POOLING = click.option(
    "--pooling",
    type=click.Choice(POOLINGS),
    metavar="HOW",
    help=f"From token vectors to one: {', '.join(POOLINGS)}; default: the checkpoint's own, else "
    "mean.",
)
LAYERS = click.option(
    "--layers", type=POSITIVE, help="Hidden states that --pooling last joins; default: 4."
)
PROMPT_NAME = click.option(
    "--prompt-name",
    metavar="NAME",
    help="The checkpoint's prompt that is put before each text; default: its default prompt.",
)
PROMPT = click.option("--prompt", metavar="TEXT", help="A prompt of your own; '' for none.")
LONG = click.option(
    "--long",
    type=click.Choice(LONG_TEXTS),
    default="truncate",
    help="Cut long texts, or take the mean over windows.",
)


@command(
    short_help="Texts to vectors, as .npy.",
    examples=(
        "kbert embed all-MiniLM-L6-v2 texts.txt -o vectors.npy",
        "cat texts.txt | kbert embed bert-base-uncased - -o vectors.npy --pooling cls",
    ),
)
@SOURCE
@click.argument("lines", metavar="LINES")
@click.option("-o", "--output", required=True, type=Output(), help="Where to; ends in .npy.")
@POOLING
@LAYERS
@PROMPT_NAME
@PROMPT
@click.option(
    "--normalize/--no-normalize", default=None, help="Length 1; default: the checkpoint's own."
)
@LONG
@click.option("--max-length", type=POSITIVE, metavar="S", help="Tokens that a text is cut to.")
@BATCH
@PRECISION
def embed(source, lines, output, **options):
    """One vector for every line of LINES (- for stdin), as a float32 array in an .npy file."""
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
    short_help="Similarity of texts, by their vectors.",
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
    """The similarity of every text with every other: the checkpoint's function, else the cosine."""
    from kbert.io import row_formats

    if len(texts) < 2:
        raise click.UsageError("similarity needs at least two texts, got one")
    with loaded(source) as bert:
        from kbert.tasks.embedding.inference import similarity

        matrix = similarity(bert, texts, **options)
    if form == "json":
        click.echo(row_formats.to_json({"texts": texts, "similarity": matrix.tolist()}), nl=False)
    else:
        click.echo(_matrix_text(texts, matrix), nl=False)


@command(
    short_help="Draw who attends to whom.",
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
    help="Where to: .html .npz .png .svg .pdf.",
)
@LAYER
@HEAD
@click.option(
    "--special",
    type=click.Choice(SPECIAL),
    help="How [CLS] and [SEP] are shown. A picture has them grey above the others' scale (clipped, "
    "the default), leaves them out (hidden) or has one scale for all (whole). A page leaves them "
    "out at first (hidden, the default) or shows them.",
)
@PRECISION
def attention(source, text, pair, output, layer, head, special, precision):
    """Show how much each token attends to each.

    \b
    .html            a page to look at it: every head, lines between the tokens,
                     a heat map, queries and keys; one file, no network
    .png .svg .pdf   a heat map
    .npz             the numbers
    """
    from kbert.tasks.attention.files import ENDINGS, PICTURES, check_path

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
