"""The command that shows which tokens an answer is due to."""

import click

from kbert.cli.command import command
from kbert.cli.console import progress, say
from kbert.cli.early_checks import Output, check_writable
from kbert.cli.inputs import loaded
from kbert.cli.options import POSITIVE, SOURCE, output_format
from kbert.io import printable
from kbert.tasks.attribution import BASELINES, VALUES


@command(
    short_help="Which words an answer is due to.",
    examples=(
        'kbert attribute run "A fine film." -o why.html',
        'kbert attribute run "A fine film." --target negative --value logit',
        'kbert attribute bert-base-uncased "the [MASK] is deep" --target sea',
        'kbert attribute all-MiniLM-L6-v2 "A cat." --similar-to "A dog." -o why.png',
    ),
)
@SOURCE
@click.argument("text")
@click.argument("pair", required=False)
@click.option("-o", "--output", type=Output(), help="A coloured text: .html .png .svg .pdf.")
@click.option("--target", metavar="NAME", help="The label or token; default: the likeliest.")
@click.option("--similar-to", metavar="TEXT", help="Of the cosine to this text, for any head.")
@click.option("--mask", type=POSITIVE, default=1, help="Which [MASK] of the text, from 1.")
@click.option("--value", type=click.Choice(VALUES), default="probability", help="Of the target.")
@click.option(
    "--baseline",
    type=click.Choice(BASELINES),
    default="pad",
    help="What stands for the words where they do not count.",
)
@click.option("--steps", type=POSITIVE, help="Points of the integral; default: 50 and more.")
@output_format("json")
def attribute(source, text, pair, output, form, **options):
    """Show how much each word of a text counts for what the model answers.

    Integrated gradients (Sundararajan et al. 2017) from a text of [PAD] alone: the scores of all
    words sum to the difference between the two answers. A model with labels: of a label. One with
    [MASK]: of a token behind it. Any, with --similar-to: of the cosine of two texts.
    """
    from kbert.io import row_formats

    if output is not None:
        from kbert.tasks.attribution.attribution import check_path

        check_path(output)
        check_writable(output)
    with loaded(source) as bert:
        from kbert.tasks.attribution.inference import attribute

        with progress("integrating"):
            found = attribute(bert, text, pair, **options)
    if form == "json":
        click.echo(row_formats.to_json(found.to_dict()), nl=False)
    else:
        for word in found.words():
            click.echo(printable.cut(f"{word.score:+.4f}  {word.word}"))
        say(found.summary())
    if output is not None:
        with progress("drawing"):
            path = found.save(output)
        if form == "text":
            say(f"wrote {path} ({path.stat().st_size:,} bytes)")


COMMANDS = [attribute]
