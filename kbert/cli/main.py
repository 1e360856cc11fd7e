"""The `kbert` command: its commands, and how it is run."""

import importlib
from collections import UserDict

import click

import kbert
from kbert.cli.command import Group
from kbert.cli.completion_commands import answer_shell
from kbert.cli.console import run

MODULES = {
    "graph_commands": ("summary", "account", "heads", "verify", "plot", "demo"),
    "explore_command": ("explore",),
    "plan_commands": ("plan",),
    "hub_commands": ("download", "cache", "push"),
    "checkpoint_commands": ("inspect", "convert", "params"),
    "task_commands": ("fill-mask", "next-sentence", "classify", "regress", "tag", "answer"),
    "vector_commands": ("embed", "similarity", "attention"),
    "search_commands": ("search", "rank"),
    "attribution_command": ("attribute",),
    "data_commands": ("vocab", "prepare"),
    "pretraining_commands": ("pretrain",),
    "finetuning_commands": ("finetune", "evaluate"),
    "glue_command": ("glue",),
    "completion_commands": ("completion",),
}
SECTIONS = {
    "See and count": (
        *("summary", "explore", "plot", "account", "params"),
        *("heads", "verify", "plan", "demo"),
    ),
    "Checkpoints": ("download", "cache", "push", "inspect", "convert"),
    "Use a checkpoint": (
        *("embed", "similarity", "search", "rank", "attention", "attribute", "fill-mask"),
        *("next-sentence", "classify", "regress", "tag", "answer"),
    ),
    "Train": ("vocab", "prepare", "pretrain", "finetune", "evaluate", "glue"),
    "The shell": ("completion",),
}


class _Commands(UserDict):
    """Commands by name; the module of one is imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        module = importlib.import_module(f"kbert.cli.{self.data[name]}")
        return next(command for command in module.COMMANDS if command.name == name)


@click.group(
    cls=Group,
    sections=SECTIONS,
    commands=_Commands({name: module for module, names in MODULES.items() for name in names}),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(kbert.__version__, prog_name="kbert")
def cli():
    """BERT in plain Keras 3: inspect, use, fine-tune, pretrain and export it.

    Most commands take SRC or CONFIG. SRC is a model with its weights: a name, such as
    bert-base-uncased, or the path of a checkpoint. CONFIG is a configuration without weights: a
    preset (base, large, base_uncased, tiny, L4_H256, …) or the path of a config.json. Without
    CONFIG, a command takes base.

    kbert COMMAND --help shows the options of a command, with examples.
    """


def main(arguments=None) -> None:
    """The console script `kbert`."""
    answer_shell(cli)
    run(cli, arguments)
