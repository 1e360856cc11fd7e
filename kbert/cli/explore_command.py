"""The command that writes the interactive page."""

import click
from click.core import ParameterSource

from kbert.cli.command import command, presets_or_files
from kbert.cli.console import progress, say
from kbert.cli.early_checks import Output
from kbert.cli.inputs import start_quietly
from kbert.cli.options import HEAD, LABELS, PREDICTIONS, labels_of


def _check_dtype(context, parameter, value):
    from kbert.graph.accounting import DTYPES

    if value not in DTYPES:
        raise click.UsageError(f"--dtype must be one of {', '.join(DTYPES)}, got {value!r}")
    return value


@command(
    short_help="Write an interactive page of a model.",
    examples=("kbert explore base -o bert.html", "kbert explore bert-base-uncased -o weights.html"),
)
@click.argument("source", default="base", metavar="[SRC]", shell_complete=presets_or_files)
@HEAD
@LABELS
@PREDICTIONS
@click.option(
    "--seq-len",
    type=int,
    metavar="S",
    help="Number of tokens per sequence. Default: all positions.",
)
@click.option(
    "--batch-size",
    type=int,
    default=1,
    metavar="B",
    help="Number of sequences per batch. Default: 1.",
)
@click.option(
    "--dtype",
    default="float32",
    callback=_check_dtype,
    help="Data type: float32, mixed_bfloat16, bfloat16, … Default: float32.",
)
@click.option(
    "-o", "--output", required=True, type=Output(), help="File to write; it ends in .html."
)
def explore(source, output, batch_size, **options):
    """Write an interactive page of a model, in one file that needs no network.

    SRC is a configuration, such as base, or a checkpoint of any format. Of a checkpoint the page
    also shows what is in every tensor. The options set what the page shows first; you can change
    them on the page.
    """
    from kbert.show.explorer.explore import check_path, is_checkpoint
    from kbert.show.explorer.explore import explore as write

    check_path(output)
    graph, title = source, None
    if is_checkpoint(source):
        _refuse_options()
        start_quietly(source)
    else:
        graph, title = _graph(source, **options), source
    with progress(f"exploring {source}"):
        page = write(graph, output, batch_size=batch_size, title=title)
    say(f"wrote {page.path} ({output.stat().st_size:,} bytes)")


COMMANDS = [explore]


def _graph(source, head, num_labels, seq_len, **options):
    from kbert.show.explorer.explore import graph_of

    options |= {"num_labels": labels_of(head, num_labels)}
    if seq_len is not None:
        options["seq_len"] = seq_len
    return graph_of(source, head=head, **options)


def _refuse_options() -> None:
    """A checkpoint says what its graph is."""
    context = click.get_current_context()
    for name in ("head", "num_labels", "max_predictions", "seq_len", "dtype"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} goes with a configuration, got a checkpoint")
