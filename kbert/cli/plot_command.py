"""`kbert plot`: a graph, or the input of a text, as a picture."""

from pathlib import Path

import click
from click.core import ParameterSource

import kbert
from kbert.cli import options as shared
from kbert.cli.command import Choice, command
from kbert.cli.console import progress
from kbert.cli.inputs import start_quietly
from kbert.cli.options import Output, option, takes
from kbert.graph.presets import PRESETS

_STYLES = ("full", "paper")
_LAYOUTS = ("tall", "wide")


@command(
    "Draw the graph as a picture.",
    "kbert plot base -o bert.svg",
    "kbert plot tiny --expand -o tiny.png",
    "kbert plot base --style paper -o figure.pdf",
    'kbert plot bert-base-uncased --text "my dog is cute" -o input.tex',
)
@shared.CONFIG
@click.argument("pair", required=False)
@takes(shared.GRAPH, shared.SELECTED)
@option(
    "-o --output",
    Output(),
    "File to write: .png .svg .pdf .dot .mmd (Mermaid) .tex (TikZ).",
    required=True,
)
@option(
    "--collapse/--expand",
    bool,
    "Draw one encoder block '× 12', or every block. Default: --collapse.",
    default=True,
)
@option(
    "--style",
    Choice(_STYLES),
    "Show every detail (full), or what papers show, 89 mm wide (paper). Default: full; paper for a "
    ".tex file, a wide layout and a text.",
)
@option("--layout", Choice(_LAYOUTS), "Draw upwards (tall), or a slide of 16:9.", default="tall")
@option(
    "--text TEXT",
    str,
    "Draw the input of a text or a pair: its tokens and their embeddings. CONFIG is then a model "
    "with a vocabulary.",
    multiple=True,
)
@option(
    "--uncased/--cased lowercase", bool, "Casing of the vocabulary, if its files do not say it."
)
def plot(config, pair, output, collapse, style, layout, text, lowercase, **graph):
    """Draw the graph as a picture. Graphviz need not be installed.

    CONFIG is a configuration, such as base. With --text it is a model, by its name or its path; the
    weights are not read.
    """
    from kbert.show.plotting import check_path, find_style

    if pair is not None and not text:
        raise click.UsageError(f"got an unexpected extra argument ({pair}): a text needs --text")
    if pair is not None:
        text = (*text, pair)
    check_path(output, find_style(output, style, layout, bool(text)))

    source, options = config, {"style": style, "layout": layout}
    if text:
        _refuse_options(("collapse", *graph), "goes with a graph, got --text")
        options |= {"text": text, "lowercase": lowercase}
        if config not in PRESETS:
            start_quietly(config)
    else:
        _refuse_options(("lowercase",), "goes with --text")
        source = shared.get_spec(config, **graph)
        options["collapse"] = collapse
    draw(source, output, **options)


def draw(source, output: Path, **options) -> None:
    """Write the picture and print its path."""
    with progress("drawing"):
        path = kbert.plot(source, output, **options)
    click.echo(f"wrote {path} ({path.stat().st_size:,} bytes)")


def _refuse_options(names, reason: str) -> None:
    """Raise a UsageError for the first of some options that the command line has."""
    context = click.get_current_context()
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if param.name in names and source is ParameterSource.COMMANDLINE:
            spellings = "/".join([*param.opts, *param.secondary_opts])
            raise click.UsageError(f"{spellings} {reason}")
