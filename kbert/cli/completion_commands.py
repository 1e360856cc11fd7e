"""`kbert completion`: the script with which a shell completes commands, options and names."""

import os
import sys

import click
from click.shell_completion import get_completion_class, shell_complete

from kbert.cli.command import Choice, command

PROGRAM = "kbert"
VARIABLE = "_KBERT_COMPLETE"  # in which the shell's function asks


@command(
    short_help="Print a script for the shell that completes commands.",
    examples=('eval "$(kbert completion bash)"', 'eval "$(kbert completion zsh)"'),
)
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context, shell):
    """Print a script for the shell that completes commands, options, presets, models and files.

    In bash, add the first example to ~/.bashrc. In zsh, add the second to ~/.zshrc. In fish, run
    kbert completion fish > ~/.config/fish/completions/kbert.fish
    """
    kind = get_completion_class(shell)
    click.echo(kind(context.find_root().command, {}, PROGRAM, VARIABLE).source())


COMMANDS = (completion,)


def answer_shell(command: click.Command) -> None:
    """Answers and exits where a shell asks what could follow."""
    if asked := os.environ.get(VARIABLE):
        sys.exit(shell_complete(command, {}, PROGRAM, VARIABLE, asked))
