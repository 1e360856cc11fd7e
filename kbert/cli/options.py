"""Options and arguments that several commands have; their choices are those of the tables below."""

import functools
from collections.abc import Iterable

import click

from kbert.cli.command import Choice, names_or_files, presets_or_files
from kbert.graph import aliases
from kbert.graph.spec import GraphSpec
from kbert.graph.trained_parts import LORA_TARGETS
from kbert.heads import HEADS, HEADS_WITH_LABELS
from kbert.tasks import PRECISIONS

CONFIG = click.argument(
    "config", default="base", metavar="[CONFIG]", shell_complete=presets_or_files
)
_CASING = "kbert.lowercase"  # in click's context


def _keep_casing(context, parameter, value):
    context.meta[_CASING] = value


CASING_HELP = "Casing of SRC's vocabulary, if its files do not say it."


def with_casing(function):
    """Add `--uncased / --cased` to a command that opens SRC; `casing` gives what was said."""
    option = click.option(
        "--uncased/--cased",
        default=None,
        expose_value=False,
        callback=_keep_casing,
        help=CASING_HELP,
    )
    return option(function)


def casing() -> bool | None:
    """Return whether SRC is uncased, as the command line says; None: it does not."""
    return click.get_current_context().meta.get(_CASING)


def SOURCE(function):
    """Add the argument SRC, a checkpoint, and its casing."""
    return click.argument("source", metavar="SRC", shell_complete=names_or_files)(
        with_casing(function)
    )


POSITIVE = click.IntRange(min=1)
PRECISION = click.option(
    "--precision",
    type=Choice(PRECISIONS),
    help="Precision of the computation. Default: the model's own.",
)
BATCH = click.option(
    "--batch-size",
    type=POSITIVE,
    default=32,
    metavar="B",
    help="Number of texts per batch. Default: 32.",
)
LINES = click.option(
    "--lines", metavar="FILE", help="File with one text per line; - reads standard input."
)


class AliasedChoice(Choice):
    """A choice of names that takes their aliases too; see `kbert.graph.aliases`.

    Args:
        of: "head" or "task".
        names: kbert's own.
    """

    def __init__(self, of: str, names: Iterable[str]):
        super().__init__(list(names))
        self._of = of

    def convert(self, value, param, ctx):
        value = aliases.resolve(self._of, value)
        if self._of == "task" and (way := aliases.no_task(value)):
            self.fail(f"{value!r} is not a task of fine-tuning: {way}", param, ctx)
        return super().convert(value, param, ctx)


HEAD_NAMES = AliasedChoice("head", HEADS)
HEAD = click.option(
    "--head",
    type=HEAD_NAMES,
    default="pretraining",
    help="Head on top of the encoder. Default: pretraining.",
)
LABELS = click.option(
    "--num-labels", type=int, help="Number of labels, for classifier and tokens. Default: 2."
)
PREDICTIONS = click.option(
    "--max-predictions",
    type=int,
    metavar="M",
    help="Number of positions that the MLM head predicts. Default: all.",
)
SELECTED = click.option(
    "--selected-positions",
    is_flag=True,
    help="Compute the last block only at the positions that the heads read, as training does.",
)

_TRAINED = (
    click.option(
        "--freeze", metavar="PARTS", help="Parts that are not trained, such as embeddings,1-8."
    ),
    click.option(
        "--lora-rank",
        type=POSITIVE,
        metavar="RANK",
        help="Rank of LoRA adapters. They and the head are trained, all other weights frozen.",
    ),
    click.option(
        "--lora-targets",
        metavar="NAMES",
        help=f"Matrices that get an adapter, separated by commas. Default: {LORA_TARGETS}.",
    ),
)


def output_format(*forms: str):
    """Add `--format`, the printed form, which the command gets as `form`."""
    return click.option(
        "--format",
        "form",
        type=Choice(["text", *forms]),
        default="text",
        help="Form of the printed result. Default: text.",
    )


def trained_in_part(command):
    """A decorator: options of what is trained, which the command gets by name as `trained`."""

    @functools.wraps(command)
    def called(freeze, lora_rank, lora_targets, **others):
        if lora_targets is not None and lora_rank is None:
            raise click.UsageError(
                f"--lora-targets goes with --lora-rank, got {lora_targets} alone"
            )
        given = {"freeze": freeze, "lora_rank": lora_rank, "lora_targets": lora_targets}
        trained = {name: value for name, value in given.items() if value is not None}
        return command(trained=trained, **others)

    for option in reversed(_TRAINED):
        called = option(called)
    return called


def spec_of(
    config,
    head: str,
    num_labels: int | None,
    max_predictions: int | None,
    selected_positions: bool = False,
    **options,
):
    """The graph that a configuration and these options mean."""
    options |= {"max_predictions": max_predictions, "selected_positions": selected_positions}
    return GraphSpec.of(config, head, num_labels=labels_of(head, num_labels), **options)


def labels_of(head: str, num_labels: int | None) -> int:
    """How many labels there are; a UsageError where they are given to a head that has none."""
    if num_labels is not None and head not in HEADS_WITH_LABELS:
        heads = " or ".join(HEADS_WITH_LABELS)
        raise click.UsageError(f"--num-labels goes with --head {heads}, got {head}")
    return 2 if num_labels is None else num_labels
