"""The `kbert` command: its commands, and how it is run."""

import click

import kbert
from kbert.cli import (
    checkpoint_commands,
    data_commands,
    finetuning_commands,
    graph_commands,
    pretraining_commands,
    task_commands,
    vector_commands,
)
from kbert.cli.console import run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(kbert.__version__, prog_name="kbert")
def cli():
    """BERT as a Keras 3 graph: sum it, count it, check it, draw it, train it.

    CONFIG is a preset (base, large, base_uncased, tiny, L4_H256, …) or a JSON file
    (config.json, bert_config.json); base if left out.
    """


for part in (
    graph_commands,
    checkpoint_commands,
    task_commands,
    vector_commands,
    data_commands,
    pretraining_commands,
    finetuning_commands,
):
    for command in part.COMMANDS:
        cli.add_command(command)


def main(arguments=None) -> None:
    """The console script `kbert`."""
    run(cli, arguments)
