"""The commands that use a checkpoint: parse, call, print; imports wait for the command."""

import contextlib
import logging
import sys
from pathlib import Path

import click

from kbert.checkpoints.sentence_settings import POOLINGS
from kbert.cli.console import progress, say, starting_keras
from kbert.cli.early_checks import Output, check_source, check_writable
from kbert.cli.options import POSITIVE, SOURCE, output_format
from kbert.data.corpus.text_files import decoded
from kbert.io import printable
from kbert.io.atomic_write import check_new_file
from kbert.tasks.attention import SPECIAL
from kbert.tasks.embedding import LONG_TEXTS

_WIDTH = 80
_MOST_COLUMNS = 8  # of a matrix of similarities that fits 80 columns

FORM = output_format("json")
LINES = click.option("--lines", metavar="FILE", help="A text a line, from a file; - for stdin.")
BATCH = click.option(
    "--batch-size", type=POSITIVE, default=32, metavar="B", help="Texts at a time."
)
LAYER = click.option(
    "--layer", type=POSITIVE, help="One encoder block, from 1; default: their mean."
)
HEAD = click.option("--head", type=POSITIVE, help="One head, from 1; default: their mean.")
POOLING = click.option(
    "--pooling",
    type=click.Choice(POOLINGS),
    help="From token vectors to one; default: the checkpoint's own, else mean.",
)
LAYERS = click.option("--layers", type=POSITIVE, default=4, help="Hidden states that 'last' joins.")
LONG = click.option(
    "--long",
    type=click.Choice(LONG_TEXTS),
    default="truncate",
    help="Cut long texts, or take the mean over windows.",
)


@click.command("fill-mask", short_help="The likeliest tokens for [MASK].")
@SOURCE
@click.argument("text")
@click.option("--top-k", type=POSITIVE, default=5, help="How many for each [MASK].")
@FORM
def fill_mask(source, text, top_k, form):
    """The likeliest tokens for every [MASK] of a text, with their probabilities."""
    from kbert.io import row_formats

    with _loaded(source, "fill-mask", "pretraining") as bert:
        from kbert.tasks.fill_mask.inference import fill_mask

        filled = fill_mask(bert, text, top_k=top_k)
    if form == "json":
        click.echo(row_formats.to_json(filled), nl=False)
        return
    for number, candidates in enumerate(filled, 1):
        if len(filled) > 1:
            click.echo(f"[MASK] {number}")
        for candidate in candidates:
            say(f"{candidate.probability:.4f}  {candidate.token}")


@click.command("next-sentence", short_help="Does B follow A?")
@SOURCE
@click.argument("a")
@click.argument("b")
@FORM
def next_sentence(source, a, b, form):
    """The probability that the text B follows the text A."""
    from kbert.io import row_formats

    with _loaded(source, "next-sentence", "pretraining") as bert:
        from kbert.tasks.classification.inference import next_sentence

        probability = next_sentence(bert, a, b)
    if form == "json":
        click.echo(row_formats.to_json({"is_next": probability}), nl=False)
    else:
        click.echo(f"{probability:.4f}  is next\n{1 - probability:.4f}  is not")


@click.command(short_help="Texts to vectors, as .npy.")
@SOURCE
@click.argument("lines", metavar="LINES")
@click.option("-o", "--output", required=True, type=Output(), help="Where to; ends in .npy.")
@POOLING
@LAYERS
@click.option(
    "--normalize/--no-normalize", default=None, help="Length 1; default: the checkpoint's own."
)
@LONG
@click.option("--max-length", type=POSITIVE, metavar="S", help="Tokens that a text is cut to.")
@BATCH
def embed(source, lines, output, pooling, layers, normalize, long, max_length, batch_size):
    """One vector for every line of LINES (- for stdin), as a float32 array in an .npy file."""
    if output.suffix != ".npy":
        raise click.UsageError(f"--output must end in .npy, got {output.name!r}")
    check_new_file(output)
    check_writable(output)
    texts = read_lines(lines)
    with _loaded(source) as bert:
        from kbert.tasks.embedding.inference import embed

        vectors = embed(
            bert,
            texts,
            pooling=pooling,
            layers=layers,
            normalize=normalize,
            long=long,
            max_length=max_length,
            batch_size=batch_size,
        )
    _write_npy(output, vectors)
    say(f"wrote {output}: {len(vectors):,} × {vectors.shape[1]:,} {vectors.dtype}")


@click.command(short_help="Cosine similarity of texts.")
@SOURCE
@click.argument("texts", nargs=-1, required=True, metavar="A B …")
@POOLING
@LAYERS
@LONG
@FORM
def similarity(source, texts, pooling, layers, long, form):
    """The cosine similarity of every text with every other."""
    from kbert.io import row_formats

    if len(texts) < 2:
        raise click.UsageError("similarity needs at least two texts, got one")
    with _loaded(source) as bert:
        from kbert.tasks.embedding.inference import similarity

        matrix = similarity(bert, texts, pooling=pooling, layers=layers, long=long)
    if form == "json":
        click.echo(row_formats.to_json({"texts": texts, "similarity": matrix.tolist()}), nl=False)
    else:
        click.echo(_matrix_text(texts, matrix), nl=False)


@click.command(short_help="Draw who attends to whom.")
@SOURCE
@click.argument("text")
@click.argument("pair", required=False)
@click.option(
    "-o",
    "--output",
    required=True,
    type=Output(),
    help="Where to: .png .svg .pdf.",
)
@LAYER
@HEAD
@click.option(
    "--special",
    type=click.Choice(SPECIAL),
    default="clipped",
    help="[CLS] and [SEP]: grey above the others' scale, left out, or on one scale with them.",
)
def attention(source, text, pair, output, layer, head, special):
    """Draw a heat map of how much each token attends to each."""
    from kbert.tasks.attention.heat_map import check_path

    check_path(output)
    check_writable(output)
    with _loaded(source) as bert:
        from kbert.tasks.attention.inference import attention

        found = attention(bert, text, pair, layer=layer, head=head)
    with progress("drawing"):
        path = found.plot(output, layer=layer, head=head, special=special)
    say(f"wrote {path} ({path.stat().st_size:,} bytes)")


@click.command(short_help="The labels of texts.")
@SOURCE
@click.argument("texts", nargs=-1, metavar="[TEXT …]")
@LINES
@BATCH
@FORM
def classify(source, texts, lines, batch_size, form):
    """Every label of a text, with its probability; of many, the likeliest one a line."""
    from kbert.io import row_formats

    texts = _texts(texts, lines)
    with _loaded(source, "classify", "classifier") as bert:
        from kbert.tasks.classification.inference import classify

        found = classify(bert, texts, batch_size=batch_size)
    if form == "json":
        click.echo(row_formats.to_json(_records(texts, "labels", found)), nl=False)
    elif len(texts) == 1:
        for label in found[0]:
            say(f"{label.probability:.4f}  {label.label}")
    else:
        for text, (best, *_) in zip(texts, found, strict=True):
            click.echo(_cut(f"{best.probability:.4f}  {best.label}  {text}"))


@click.command(short_help="The label of every word.")
@SOURCE
@click.argument("texts", nargs=-1, metavar="[TEXT …]")
@LINES
@BATCH
@FORM
def tag(source, texts, lines, batch_size, form):
    """The label of every word of a text, with its probability and place."""
    from kbert.io import row_formats

    texts = _texts(texts, lines)
    with _loaded(source, "tag", "tokens") as bert:
        from kbert.tasks.tagging.inference import tag

        found = tag(bert, texts, batch_size=batch_size)
    if form == "json":
        click.echo(row_formats.to_json(_records(texts, "words", found)), nl=False)
        return
    for number, words in enumerate(found):
        if number:
            click.echo()
        for word in words:
            place = f"{word.start}:{word.end}"
            label = printable.line(word.label)
            say(f"{word.probability:.4f}  {label:<12}  {place:<9}  {word.word}")


@click.command(short_help="The answer to a question.")
@SOURCE
@click.argument("question")
@click.argument("context")
@click.option("--stride", type=POSITIVE, default=128, help="Tokens that two windows share.")
@click.option(
    "--no-answer-threshold",
    type=float,
    metavar="X",
    help="Odds of no answer above X are none, as SQuAD 2.0's; default: always an answer.",
)
@FORM
def answer(source, question, context, stride, no_answer_threshold, form):
    """The span of a context that answers a question, its score and place."""
    from kbert.io import row_formats

    with _loaded(source, "answer", "qa") as bert:
        from kbert.tasks.answering.inference import answer

        found = answer(
            bert, question, context, stride=stride, no_answer_threshold=no_answer_threshold
        )
    if form == "json":
        click.echo(row_formats.to_json(found), nl=False)
    else:
        place = f"characters {found.start}:{found.end}" if found.text else f"odds {found.odds:.4f}"
        say(found.text or "no answer")
        click.echo(f"{found.score:.4f}  {place}")


COMMANDS = [fill_mask, next_sentence, embed, similarity, attention, classify, tag, answer]


def read_lines(path: str) -> list[str]:
    """The lines of a UTF-8 file, or of stdin for "-"; an empty line is an empty text.

    Raises:
        OSError: it cannot be read.
        ValueError: nothing in it, or a line that is not UTF-8: named.
    """
    name = "stdin" if path == "-" else path
    if path == "-" and (sys.stdin is None or sys.stdin.closed):
        raise ValueError("stdin must have a text a line, got one that is closed: give a file")
    content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:  # what follows the last line's end
        lines.pop()
    if not lines:
        raise ValueError(f"{name} must have a text a line, got an empty file")
    return [
        decoded(line.removesuffix(b"\r"), f"{name}, line {number}")
        for number, line in enumerate(lines, 1)
    ]


@contextlib.contextmanager
def _loaded(source: str, command: str = "", head: str | None = None):
    """The checkpoint, opened; the block is for what computes with it, and may need a head."""
    check_source(source, command, head)
    with starting_keras():
        from kbert.checkpoints.bert import load
        from kbert.model import builder  # noqa: F401
    with _without_missing_heads():
        with progress(f"reading {source}"):
            bert = load(source)
        if head is not None:
            from kbert.tasks.checks import require_head_of

            require_head_of(source, command, head, bert.head)
        yield bert


@contextlib.contextmanager
def _without_missing_heads():
    """No warning of heads that the checkpoint lacks: the task itself says whether it needs them."""
    logger = logging.getLogger("kbert")

    def matters(record) -> bool:
        return "first weights stay in" not in str(record.msg)

    logger.addFilter(matters)
    try:
        yield
    finally:
        logger.removeFilter(matters)


def _texts(texts: tuple[str, ...], lines: str | None) -> list[str]:
    if bool(texts) == bool(lines):
        got = "both" if texts else "neither"
        raise click.UsageError(f"give texts or --lines FILE, got {got}")
    return read_lines(lines) if lines else list(texts)


def _records(texts: list[str], name: str, found: list) -> list[dict]:
    return [{"text": text, name: result} for text, result in zip(texts, found, strict=True)]


def _write_npy(path: Path, array) -> None:
    import numpy as np

    from kbert.io.atomic_write import atomic_file

    with atomic_file(path) as part, open(part, "wb") as file:
        np.save(file, array)


def _matrix_text(texts: tuple[str, ...], matrix) -> str:
    """A matrix where it fits, else the pairs, the likest first."""
    numbers = range(1, len(texts) + 1)
    listed = [_cut(f"{number:>3}  {text}") for number, text in zip(numbers, texts, strict=True)]
    if len(texts) <= _MOST_COLUMNS:
        rows = ["     " + "".join(f"{number:>8}" for number in numbers)]
        for number, row in zip(numbers, matrix, strict=True):
            rows.append(f"{number:>5}" + "".join(f"{value:>8.4f}" for value in row))
    else:
        pairs = [(matrix[a - 1, b - 1], a, b) for a in numbers for b in numbers if a < b]
        rows = [f"{value:>8.4f}  {a:>3} {b:>3}" for value, a, b in sorted(pairs, reverse=True)]
    return "\n".join([*listed, "", *rows]) + "\n"


def _cut(line: str) -> str:
    line = printable.line(" ".join(line.split("\n")))
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
