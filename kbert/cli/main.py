"""The `kbert` command: its commands, and how it is run."""

import importlib
import itertools
import os
import sys
from collections import UserDict
from pathlib import Path

import click
from click.shell_completion import get_completion_class, shell_complete

from kbert.cli.command import Choice, Group, command
from kbert.cli.console import run
from kbert.version import __version__

# The modules and their commands. A module X_command has one command, X.
MODULES = {
    "graph_commands": "summary account heads verify explore demo",
    "checkpoint_commands": "download cache push inspect convert params",
    "task_commands": "fill-mask next-sentence classify regress tag answer choose attention "
    "attribute",
    "embedding_commands": "embed similarity search rank",
    "data_commands": "vocab prepare",
    "pretraining_commands": "pretrain",
    "finetuning_commands": "finetune evaluate",
    "main": "completion",
}
for _path in sorted(Path(__file__).parent.glob("*_command.py")):
    _name = _path.stem.removesuffix("_command")
    MODULES[_path.stem] = _name.replace("_", "-")
_MODULE_OF: dict[str, str] = {}  # of a command
for _module, _names in MODULES.items():
    _MODULE_OF |= dict.fromkeys(_names.split(), _module)
_HELP = {
    "See and count": "summary explore plot account params heads verify plan demo",
    "Checkpoints": "download cache push inspect convert",
    "Use a checkpoint": "embed similarity search rank attention attribute fill-mask next-sentence "
    "classify regress tag answer choose",
    "Train": "vocab prepare pretrain recipe finetune evaluate glue",
    "The shell": "completion",
}
SECTIONS = {heading: tuple(names.split()) for heading, names in _HELP.items()}
_LISTED = set(itertools.chain.from_iterable(SECTIONS.values()))
SECTIONS["Use a checkpoint"] += tuple(name for name in _MODULE_OF if name not in _LISTED)
_PROGRAM = "kbert"
_COMPLETE = "_KBERT_COMPLETE"  # the environment variable with which the shell's function asks


class _Commands(UserDict):
    """Commands by name; the module of one is imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        module = importlib.import_module(f"kbert.cli.{self.data[name]}")
        return getattr(module, name.replace("-", "_"))


@click.group(
    cls=Group,
    sections=SECTIONS,
    commands=_Commands(_MODULE_OF),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name=_PROGRAM)
def cli():
    """BERT in plain Keras 3: inspect, use, fine-tune, pretrain and export it.

    Most commands take SRC or CONFIG. SRC is a model with its weights: a name, such as
    bert-base-uncased, or the path of a checkpoint. CONFIG is a configuration without weights: a
    preset (base, large, base_uncased, tiny, L4_H256, …) or the path of a config.json. Without
    CONFIG, a command takes base. kbert pretrain has --config in its place, and takes tiny.

    kbert COMMAND --help shows the options of a command, with examples.
    """


@command(
    "Print a script for the shell that completes commands.",
    'eval "$(kbert completion bash)"',
    'eval "$(kbert completion zsh)"',
)
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
def completion(shell):
    """Print a script for the shell that completes commands, options, presets, models and files.

    In bash, add the first example to ~/.bashrc. In zsh, add the second to ~/.zshrc. In fish, run
    kbert completion fish > ~/.config/fish/completions/kbert.fish
    """
    completion_class = get_completion_class(shell)
    script = completion_class(cli, {}, _PROGRAM, _COMPLETE)
    click.echo(script.source())


def main(arguments=None) -> None:
    """The console script `kbert`."""
    instruction = os.environ.get(_COMPLETE)
    if instruction:  # the shell asks what could follow
        sys.exit(shell_complete(cli, {}, _PROGRAM, _COMPLETE, instruction))
    run(cli, arguments)
