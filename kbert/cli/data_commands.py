"""The commands that make data for pretraining: parse, call, print; imports wait for the command."""

import click

import kbert
from kbert.cli.command import Choice, command
from kbert.cli.console import progress
from kbert.cli.inputs import CorpusInput
from kbert.cli.options import Output, option, takes
from kbert.data.corpus.text_files import FORMATS

CORPUS = click.argument("corpus", nargs=-1, required=True, metavar="CORPUS …", type=CorpusInput())
READING = takes(
    option(
        "--corpus-format",
        Choice(list(FORMATS)),
        "Format of CORPUS. Default: recognized from each file's first lines.",
    ),
    option(
        "--text-column NAME",
        str,
        "Field or column that holds the text, for JSON lines, Parquet and Arrow; of sources with "
        "names also wiki=NAME,books=NAME.",
        default="text",
    ),
    option(
        "--language CODE", str, "Language, for splitting paragraphs into sentences.", default="en"
    ),
)


@command("Train a WordPiece vocabulary.", 'kbert vocab "corpus/*.txt" --size 8000 -o vocabulary')
@CORPUS
@option("--size N", int, "Number of tokens, including the special ones.", required=True)
@option("-o --output", Output(), "Folder for the vocabulary.", required=True)
@option(
    "--uncased/--cased lowercase",
    bool,
    "Lowercase the texts, or keep their case. Default: --uncased.",
    default=True,
)
@option("--min-frequency", int, "Smallest frequency of two pieces that are merged.", default=2)
@option("--alphabet", int, "Maximum number of characters that get a token.", default=1000)
@option("--unused", int, "Number of [unused…] tokens.", default=0)
@READING
@option("--overwrite", bool, "Write into a folder with files, over those of the same names.")
def vocab(corpus, size, output, **options):
    """Train a WordPiece vocabulary of N tokens on raw text.

    CORPUS is files, folders or globs, also in a bucket (s3://, gs://); - reads standard input.
    The formats are: one sentence per line with a blank line between documents (Google's),
    WikiText, JSON lines, Parquet and Arrow; text files may be .gz, .bz2, .xz or .zst.
    """
    with progress("training the vocabulary"):
        tokenizer = kbert.train_vocab(corpus, size, output, **options)
    click.echo(f"wrote {output}: {tokenizer.vocab_size:,} tokens")


@command(
    "Turn text into shards for pretraining.",
    'kbert prepare "corpus/*.txt" --vocab vocabulary -o shards',
)
@CORPUS
@option("--vocab DIR", str, "Folder with a vocabulary.", required=True)
@option(
    "-o --output",
    Output(takes_buckets=True),
    "Folder for the shards, also s3://… or gs://….",
    required=True,
)
@option(
    "--uncased/--cased lowercase", bool, "Casing of the vocabulary, if its files do not say it."
)
@option(
    "--mix SHARES",
    str,
    "Shares of the tokens that the sources shall have, such as wiki=0.7,books=0.3; CORPUS is then "
    "wiki=PATH books=PATH. Default: all text.",
)
@option(
    "--drop-duplicates SIMILARITY",
    float,
    "Leave out documents that are about this similar to one before them, or more, such as 0.8. "
    "Default: none.",
)
@option("--processes N", int, "Number of processes. Default: one per core, at most 8.")
@option("--dask ADDRESS", str, "Address of a Dask scheduler whose workers tokenize.")
@READING
def prepare(corpus, vocab, output, processes, dask, **options):
    """Tokenize raw text into shards that `kbert pretrain` reads.

    CORPUS is files, folders or globs in one of five formats, as for `kbert vocab`; or several
    sources with names, NAME=PATH. If the command is interrupted, run it again: it continues and
    writes the same bytes.
    """
    from kbert.cli.dask_cluster import executor_at

    if dask is not None and processes is not None:
        raise click.UsageError("--dask and --processes cannot go together: leave one out")
    options |= {"processes": processes, "progress": True}
    with executor_at(dask) as executor:
        index = kbert.prepare(corpus, vocab, output, executor=executor, **options).index

    counts = []
    for name in ("documents", "sentences", "tokens"):
        count = index[name]
        noun = name.removesuffix("s") if count == 1 else name
        counts.append(f"{count:,} {noun}")
    if options["drop_duplicates"] is not None:
        counts.append(f"left out as duplicates: {_describe_counts(index['duplicates'])}")
    click.echo(f"wrote {output}: {', '.join(counts)}")


def _describe_counts(counts: int | dict[str, int]) -> str:
    """Return a number, or the numbers of the sources with their names."""
    if isinstance(counts, int):
        return f"{counts:,}"
    return ", ".join(f"{count:,} of {name}" for name, count in counts.items())
