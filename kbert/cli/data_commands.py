"""The commands that make data for pretraining: parse, call, print; imports wait for the command."""

import click

from kbert.cli.command import command
from kbert.cli.console import progress
from kbert.cli.early_checks import Output
from kbert.data.corpus.text_files import FORMATS

CORPUS = click.argument("corpus", nargs=-1, required=True, metavar="CORPUS …")
FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="Of the text; default: by each file's first lines.",
)
TEXT_FIELD = click.option(
    "--text-field", default="text", metavar="NAME", help="The text's field in JSON lines."
)
LANGUAGE = click.option(
    "--language", default="en", metavar="CODE", help="For cutting paragraphs into sentences."
)


@command(
    short_help="Train a WordPiece vocabulary.",
    examples=('kbert vocab "corpus/*.txt" --size 8000 -o vocabulary',),
)
@CORPUS
@click.option("--size", type=int, required=True, metavar="N", help="Tokens, special ones included.")
@click.option("-o", "--output", required=True, type=Output(), help="The folder.")
@click.option("--lowercase/--cased", default=True, help="Whether texts are lowercased.")
@click.option("--min-frequency", type=int, default=2, help="Of two pieces that are joined.")
@click.option("--alphabet", type=int, default=1000, help="Characters that get a token.")
@click.option("--unused", type=int, default=0, help="How many [unused…] tokens.")
@FORMAT
@TEXT_FIELD
@LANGUAGE
def vocab(corpus, size, output, form, **options):
    """Train a WordPiece vocabulary of N tokens on raw text.

    CORPUS is files, folders or globs, also .gz: a sentence a line with a blank line between
    documents (Google's), WikiText, or JSON lines.
    """
    from kbert.data.corpus.vocab_training import train_vocab

    with progress("training the vocabulary"):
        tokenizer = train_vocab(corpus, size, output, format=form, **options)
    click.echo(f"wrote {output}: {tokenizer.vocab_size:,} tokens")


@command(
    short_help="Text to shards for pretraining.",
    examples=('kbert prepare "corpus/*.txt" --vocab vocabulary -o shards',),
)
@CORPUS
@click.option("--vocab", required=True, metavar="DIR", help="A folder with a vocabulary.")
@click.option("-o", "--output", required=True, type=Output(), help="The folder.")
@click.option("--processes", type=int, metavar="N", help="Default: one a core, 8 at most.")
@click.option("--dask", metavar="ADDRESS", help="Of a scheduler, whose workers tokenize instead.")
@FORMAT
@TEXT_FIELD
@LANGUAGE
def prepare(corpus, vocab, output, processes, dask, form, text_field, language):
    """Tokenize raw text, once, into shards that `kbert pretrain` reads.

    CORPUS is files, folders or globs, also .gz, in one of three formats, see `kbert vocab`.
    Interrupted and run again, it goes on and ends with the same bytes.
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
            format=form,
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
