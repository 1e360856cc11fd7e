"""The command that shows which tokens an answer is due to."""

import click

from kbert.cli.command import Choice, command
from kbert.cli.console import progress, say, say_json
from kbert.cli.early_checks import Output, check_writable
from kbert.cli.inputs import loaded
from kbert.cli.options import POSITIVE, SOURCE, output_format
from kbert.io import printable
from kbert.tasks.attribution import BASELINES, VALUES


@command(
    short_help="Show which words cause an answer.",
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
@click.option(
    "-o", "--output", type=Output(), help="File for the coloured text: .html .png .svg .pdf."
)
@click.option(
    "--target", metavar="NAME", help="Label or token to explain. Default: the most likely one."
)
@click.option(
    "--similar-to",
    metavar="TEXT",
    help="Explain the cosine similarity to this text; any model can.",
)
@click.option(
    "--mask", type=POSITIVE, default=1, help="Number of the [MASK] to explain. Default: 1."
)
@click.option(
    "--value",
    type=Choice(VALUES),
    default="probability",
    help="Value of the target to explain. Default: probability.",
)
@click.option(
    "--baseline",
    type=Choice(BASELINES),
    default="pad",
    help="Token that replaces the words in the baseline text. Default: pad.",
)
@click.option(
    "--steps", type=POSITIVE, help="Number of points of the integral. Default: 50 and more."
)
@output_format("json")
def attribute(source, text, pair, output, form, **options):
    """Show how much each word of a text contributes to the model's answer.

    The method is integrated gradients (Sundararajan et al. 2017) from a text of [PAD] only. The
    scores of all words add up to the difference between the two answers. A classifier's answer is
    a label, and a masked language model's is a token for [MASK]. With --similar-to, it is the
    cosine similarity of two texts, for any model.
    """
    if output is not None:
        from kbert.tasks.attribution.attribution import ENDINGS
        from kbert.tasks.pictures import check_path

        check_path(output, ENDINGS)
        check_writable(output)
    with loaded(source) as bert:
        from kbert.tasks.attribution.inference import attribute

        with progress("integrating"):
            found = attribute(bert, text, pair, **options)
    if form == "json":
        say_json(found.to_dict())
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
