"""`kbert completion`: what a shell needs to complete commands, options, presets and files."""

import os
import sys

import click
from click.shell_completion import get_completion_class, shell_complete

from kbert.cli.command import command

PROGRAM = "kbert"
VARIABLE = "_KBERT_COMPLETE"  # in which the shell's function asks


@command(
    short_help="Print the shell completion of these commands.",
    examples=('eval "$(kbert completion bash)"', "kbert completion zsh > ~/.zfunc/_kbert"),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context, shell):
    """Print the function with which a shell completes commands, options, presets and files.

    In bash or zsh, run the first example, or add it to ~/.bashrc or ~/.zshrc. In fish, run
    kbert completion fish > ~/.config/fish/completions/kbert.fish
    """
    kind = get_completion_class(shell)
    click.echo(kind(context.find_root().command, {}, PROGRAM, VARIABLE).source())


COMMANDS = (completion,)


def answer_shell(command: click.Command) -> None:
    """Answers and exits where a shell asks what could follow."""
    if asked := os.environ.get(VARIABLE):
        sys.exit(shell_complete(command, {}, PROGRAM, VARIABLE, asked))
