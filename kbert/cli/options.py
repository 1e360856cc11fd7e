"""Types of values, and options and arguments that several commands share."""

import functools
from collections.abc import Iterable
from pathlib import Path

import click

from kbert.cli.command import Choice, names_or_files, presets_or_files
from kbert.cli.console import exit_if_nan, say_json
from kbert.graph import aliases
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS, HEADS_WITH_LABELS
from kbert.io import bounds
from kbert.io.remote_files import is_remote
from kbert.tasks import PRECISIONS


def option(declaration: str, kind, text: str, *, default=None, **settings):
    """Declare an option, with `settings` as for `click.option`; a `kind` of bool is a flag.

    The declaration is its names, and the metavar in capitals: "-o --output FILE". A word without
    hyphens in lower case is the name of the parameter. The default is added to the text, its help,
    unless that says it.
    """
    *names, last = declaration.split()
    if last[0].isupper():
        settings["metavar"] = last
    else:
        names.append(last)

    if kind is not bool:
        settings["type"] = kind
    elif "/" not in declaration:
        return click.option(*names, is_flag=True, help=text, **settings)

    if default is not None or kind is bool:
        settings["default"] = default
    if default is not None and "Default:" not in text:
        text = f"{text} Default: {default}."
    return click.option(*names, help=text, **settings)


def takes(*parameters):
    """Return a decorator that adds arguments and options to a command, in this order."""

    def decorate(function):
        for parameter in reversed(parameters):
            function = parameter(function)
        return function

    return decorate


class Input(click.Path):
    """A path to read, as a `Path`; an empty one would be the working folder."""

    def __init__(self):
        super().__init__(path_type=Path)

    def convert(self, value, param, ctx):
        if not str(value):
            self.fail("expected a path, got an empty one", param, ctx)
        return super().convert(value, param, ctx)


class Output(Input):
    """A path to write to, as a `Path`; one in a bucket if the command `takes_buckets`."""

    def __init__(self, takes_buckets: bool = False):
        super().__init__()
        self._takes_buckets = takes_buckets

    def convert(self, value, param, ctx):
        if str(value) and not (self._takes_buckets and is_remote(value)):
            bounds.refuse_url(value, to_write=True)
        return super().convert(value, param, ctx)


class Numbers(click.ParamType):
    """Numbers between commas: 16,32."""

    def __init__(self, kind: type, noun: str, metavar: str):
        self._kind = kind
        self._noun = noun
        self.name = metavar

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        try:
            return tuple(self._kind(number) for number in value.split(","))
        except ValueError:
            self.fail(f"expected {self._noun} separated by commas, got {value!r}", param, ctx)


class Names(click.ParamType):
    """Names between commas: toxic,threat."""

    name = "NAME,NAME,…"

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        names = tuple(name.strip() for name in value.split(","))
        if "" in names:
            self.fail(f"expected names separated by commas, got {value!r}", param, ctx)
        return names


class AliasedChoice(Choice):
    """A choice of names of a noun, "head" or "task"; it takes their aliases too."""

    def __init__(self, noun: str, names: Iterable[str]):
        super().__init__(list(names))
        self._noun = noun

    def convert(self, value, param, ctx):
        value = aliases.resolve(self._noun, value)
        way = aliases.find_way("no task", value) if self._noun == "task" else None
        if way:
            self.fail(f"{value!r} is not a task of fine-tuning: {way}", param, ctx)
        return super().convert(value, param, ctx)


CASING_HELP = "Casing of SRC's vocabulary, if its files do not say it."
_CASING = "kbert.lowercase"  # in click's context


def SOURCE(function):
    """Add the argument SRC, a checkpoint, and `--uncased / --cased`, which `casing` returns."""

    def keep_casing(context, parameter, value):
        context.meta[_CASING] = value

    casing_option = option(
        "--uncased/--cased", bool, CASING_HELP, expose_value=False, callback=keep_casing
    )
    source = click.argument("source", metavar="SRC", shell_complete=names_or_files)
    return source(casing_option(function))


def casing() -> bool | None:
    """Return whether SRC is uncased, as the command line says; None: it does not."""
    return click.get_current_context().meta.get(_CASING)


POSITIVE = click.IntRange(min=1)
CONFIG = click.argument(
    "config", default="base", metavar="[CONFIG]", shell_complete=presets_or_files
)
TEXTS = click.argument("texts", nargs=-1, metavar="[TEXT …]")
LINES = option("--lines FILE", str, "File with one text per line; - reads standard input.")
BATCH = option("--batch-size B", POSITIVE, "Number of texts per batch.", default=32)
PRECISION = option(
    "--precision", Choice(PRECISIONS), "Precision of the computation. Default: the model's own."
)

HEAD_NAMES = AliasedChoice("head", HEADS)
HEAD = option(
    "--head",
    HEAD_NAMES,
    "Head on top of the encoder. Default: that of the model if CONFIG is a folder, else "
    "pretraining.",
)
LABELS = option(
    "--num-labels",
    int,
    "Number of labels, for classifier and tokens. Default: that of CONFIG, else 2.",
)
PREDICTIONS = option(
    "--max-predictions M", int, "Number of positions that the MLM head predicts. Default: all."
)
SELECTED = option(
    "--selected-positions",
    bool,
    "Compute the last block only at the positions that the heads read, as training does.",
)
SEQ_LEN = option("--seq-len S", int, "Number of tokens per sequence. Default: all positions.")
SEQUENCES = option("--batch-size B", int, "Number of sequences per batch.", default=1)
DTYPE = option("--dtype", str, "Data type: float32, mixed_bfloat16, bfloat16, …", default="float32")
GRAPH = takes(HEAD, LABELS, PREDICTIONS)  # which `get_spec` takes by name


def output_format(*forms: str):
    """Add `--format`, the printed form, which the command gets as `form`."""
    kind = Choice(["text", *forms])
    return option("--format form", kind, "Form of the printed result.", default="text")


def JSON(command):
    """Add `--format` to a generator, which yields its result for JSON, then prints it as text."""

    @functools.wraps(command)
    def run(form, **options):
        result = command(**options)
        value = next(result)
        if form == "json":
            say_json(value)
        else:
            list(result)  # runs it to its end
            exit_if_nan(value)

    return output_format("json")(run)


def get_spec(
    config, head: str | None, num_labels: int | None, create=GraphSpec.of, **options
) -> GraphSpec:
    """Return the graph that a configuration and the options of `GRAPH` mean."""
    spec = create(config, head=head, num_labels=num_labels, **options)
    check_labels(spec.head, num_labels)
    return spec


def check_labels(head: str, num_labels: int | None) -> None:
    """Raise a UsageError where a number of labels is given to a head that has none."""
    if num_labels is not None and head not in HEADS_WITH_LABELS:
        heads = " or ".join(HEADS_WITH_LABELS)
        raise click.UsageError(f"--num-labels goes with --head {heads}, got {head}")
