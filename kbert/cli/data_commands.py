"""The commands that make data for pretraining: parse, call, print; imports wait for the command."""

import click

from kbert.cli.command import Choice, command
from kbert.cli.console import progress
from kbert.cli.early_checks import Output
from kbert.data.corpus.text_files import FORMATS

CORPUS = click.argument("corpus", nargs=-1, required=True, metavar="CORPUS …")
FORMAT = click.option(
    "--corpus-format",
    type=Choice(list(FORMATS)),
    help="Format of CORPUS. Default: recognized from each file's first lines.",
)
TEXT_FIELD = click.option(
    "--text-field",
    default="text",
    metavar="NAME",
    help="Field that holds the text, for JSON lines. Default: text.",
)
LANGUAGE = click.option(
    "--language",
    default="en",
    metavar="CODE",
    help="Language, for splitting paragraphs into sentences. Default: en.",
)


@command(
    short_help="Train a WordPiece vocabulary.",
    examples=('kbert vocab "corpus/*.txt" --size 8000 -o vocabulary',),
)
@CORPUS
@click.option(
    "--size",
    type=int,
    required=True,
    metavar="N",
    help="Number of tokens, including the special ones.",
)
@click.option("-o", "--output", required=True, type=Output(), help="Folder for the vocabulary.")
@click.option(
    "--lowercase/--cased",
    default=True,
    help="Lowercase the texts, or keep their case. Default: --lowercase.",
)
@click.option(
    "--min-frequency",
    type=int,
    default=2,
    help="Smallest frequency of two pieces that are merged. Default: 2.",
)
@click.option(
    "--alphabet",
    type=int,
    default=1000,
    help="Maximum number of characters that get a token. Default: 1000.",
)
@click.option("--unused", type=int, default=0, help="Number of [unused…] tokens. Default: 0.")
@FORMAT
@TEXT_FIELD
@LANGUAGE
def vocab(corpus, size, output, corpus_format, **options):
    """Train a WordPiece vocabulary of N tokens on raw text.

    CORPUS is files, folders or globs; files may end in .gz. The formats are: one sentence per line
    with a blank line between documents (Google's), WikiText, and JSON lines.
    """
    from kbert.data.corpus.vocab_training import train_vocab

    with progress("training the vocabulary"):
        tokenizer = train_vocab(corpus, size, output, format=corpus_format, **options)
    click.echo(f"wrote {output}: {tokenizer.vocab_size:,} tokens")


@command(
    short_help="Turn text into shards for pretraining.",
    examples=('kbert prepare "corpus/*.txt" --vocab vocabulary -o shards',),
)
@CORPUS
@click.option("--vocab", required=True, metavar="DIR", help="Folder with a vocabulary.")
@click.option("-o", "--output", required=True, type=Output(), help="Folder for the shards.")
@click.option(
    "--processes",
    type=int,
    metavar="N",
    help="Number of processes. Default: one per core, at most 8.",
)
@click.option(
    "--dask", metavar="ADDRESS", help="Address of a Dask scheduler whose workers tokenize."
)
@FORMAT
@TEXT_FIELD
@LANGUAGE
def prepare(corpus, vocab, output, processes, dask, corpus_format, text_field, language):
    """Tokenize raw text into shards that `kbert pretrain` reads.

    CORPUS is files, folders or globs in one of three formats, as for `kbert vocab`. If the command
    is interrupted, run it again: it continues and writes the same bytes.
    """
    from kbert.cli.dask_cluster import executor_at
    from kbert.data.corpus.preparing import prepare

    if dask is not None and processes is not None:
        raise click.UsageError("--dask and --processes cannot go together: leave one out")
    with executor_at(dask) as executor:
        shards = prepare(
            corpus,
            vocab,
            output,
            format=corpus_format,
            text_field=text_field,
            language=language,
            processes=processes,
            executor=executor,
            progress=True,
        )
    counts = [(shards.index[name], name) for name in ("documents", "sentences", "tokens")]
    words = [
        f"{count:,} {name.removesuffix('s') if count == 1 else name}" for count, name in counts
    ]
    click.echo(f"wrote {output}: {', '.join(words)}")


COMMANDS = (vocab, prepare)
