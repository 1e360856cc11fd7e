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
    short_help="An interactive page of the graph; no Keras.",
    examples=("kbert explore base -o bert.html", "kbert explore bert-base-uncased -o weights.html"),
)
@click.argument("source", default="base", metavar="[SRC]", shell_complete=presets_or_files)
@HEAD
@LABELS
@PREDICTIONS
@click.option("--seq-len", type=int, metavar="S", help="Tokens a sequence; default: all positions.")
@click.option("--batch-size", type=int, default=1, metavar="B", help="Sequences a batch.")
@click.option(
    "--dtype",
    default="float32",
    callback=_check_dtype,
    help="float32, mixed_bfloat16, bfloat16, …",
)
@click.option("-o", "--output", required=True, type=Output(), help="Where to; ends in .html.")
def explore(source, output, batch_size, **options):
    """Write the graph as one interactive page, which opens anywhere and needs no network.

    SRC is a configuration, as CONFIG elsewhere, or a checkpoint of any format: then the page shows
    what is in every tensor. What the options say is where the page begins: it can change them.
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
