"""`kbert recipe`: the recipes, and everything from a corpus to GLUE's table by one of them."""

import logging

import click

import kbert
from kbert.cli.command import Command, command
from kbert.cli.inputs import CorpusInput, check_writable
from kbert.cli.options import POSITIVE, Input, Output, option
from kbert.cli.pretraining_commands import reporting_stop, require_options, start_keras
from kbert.cli.setting_options import add_run_options, add_settings, select_settings
from kbert.data.corpus.sources import find_sources
from kbert.tasks.glue.tasks import find_folder, find_tasks
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.tasks.recipes.recipes import find_recipe, list_recipes
from kbert.training.settings.setting_texts import list_fields

_EXAMPLE = "kbert recipe run cramming --corpus corpus --hours 24 -o run"
_SETTINGS = list_fields(PretrainingSettings)


class _RecipeCommand(Command):
    """A command that refuses an option that is given twice: click takes the last one."""

    def parse_args(self, ctx, args):
        *_, order = self.make_parser(ctx).parse_args(list(args))
        for param in order:
            is_repeated = isinstance(param, click.Option) and order.count(param) > 1
            if is_repeated and not param.multiple:
                raise click.UsageError(f"{max(param.opts, key=len)} is given twice: leave one out")
        return super().parse_args(ctx, args)


@command(
    "Pretrain by a published recipe, from a corpus to GLUE.",
    "kbert recipe",
    "kbert recipe cramming > cramming.yaml",
    f"{_EXAMPLE} --glue glue_data",
    cls=_RecipeCommand,
    basic="corpus shards output config vocab_size glue_data tasks seeds hours steps batch_size "
    "accumulation_steps precision",
)
@click.argument("arguments", nargs=-1, metavar="[run] [NAME]")
@option(
    "--corpus PATH",
    CorpusInput(),
    "Files, folders or globs of text, as for kbert prepare; may be given several times.",
    multiple=True,
)
@option("--shards DIR", Input(), "Folder that kbert prepare wrote, in place of --corpus.")
@option("-o --output OUT", Output(), "Folder for all steps.")
@option("--config", str, "Configuration: a preset or a JSON file.", default="base")
@option("--vocab-size N", POSITIVE, "Number of tokens. Default: as the recipe was published.")
@option("--mix SHARES", str, "Shares of the sources' tokens, as for kbert prepare.")
@option("--text-column NAME", str, "Column of the texts, as for kbert prepare.", default="text")
@option("--glue glue_data DIR", Input(), "Folder of GLUE's files. Default: no GLUE.")
@option("--tasks", str, "Tasks of GLUE: all, sane (without WNLI), or names.", default="sane")
@option("--seeds", POSITIVE, "Number of seeds of each task.", default=5)
@add_settings(PretrainingSettings)
@add_run_options
def recipe(arguments, **options):
    """List the recipes; print the settings of NAME, with their sources; or run it.

    `kbert recipe run NAME` trains a vocabulary, prepares shards, plans for this device, pretrains,
    runs GLUE, and writes one report beside the published scores. If it is interrupted, run it
    again: it continues. Settings that are given take the place of the recipe's. The defaults below
    are those of kbert pretrain; a recipe has its own.
    """
    match arguments:
        case []:
            for one in list_recipes():
                click.echo(one.comments[0])
            click.echo(f"\nkbert recipe NAME prints its settings. To run it:\n{_EXAMPLE}")
        case ["run", name]:
            find_recipe(name)
            _run(name, **options)
        case [name] if name != "run":
            click.echo(find_recipe(name).text, nl=False)
        case _:
            raise click.UsageError(f"expected: {_EXAMPLE}, got {' '.join(arguments)}")


def _run(name: str, corpus, run_options, **options) -> None:
    """Check the options before Keras starts, and do all the steps."""
    output, length = options["output"], options["hours"] or options["steps"]
    text = corpus or options["shards"]
    needed = {"--corpus": text, "-o OUT": output, "--hours or --steps": length}
    require_options(_EXAMPLE, {option: value or None for option, value in needed.items()})
    settings = {key: options[key] for key in _SETTINGS}
    select_settings(settings, run_options)
    kbert.get_config(options["config"])
    if corpus:
        find_sources(corpus, options["mix"], options["text_column"])
    if options["glue_data"] is not None:
        for task in find_tasks(options["tasks"]):
            find_folder(options["glue_data"], task)
    check_writable(output / "run")

    start_keras()
    logging.getLogger("kbert").setLevel(logging.INFO)
    options |= run_options
    values = {key: value for key, value in options.items() if value is not None}
    with reporting_stop("stopped and saved. To resume, run the same command again"):
        click.echo(kbert.run_recipe(name, corpus or None, **values))
    click.echo(f"wrote {output / 'report.html'}")
