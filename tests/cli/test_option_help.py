"""Each option says what it does in a sentence; the long commands show the basic ones first."""

import re

import click
import pytest
from helpers.command_line import kbert

from kbert.cli.main import cli

COMMANDS = list(cli.commands)


def options(name: str) -> list[click.Option]:
    return [one for one in cli.commands[name].params if isinstance(one, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_options_and_commands_is_in_sentences(name):
    command = cli.commands[name]
    said = [(one.opts[-1], one.help) for one in options(name)]
    for what, text in [*said, (name, command.short_help)]:
        assert text and re.match(r"[A-Z].*[.]$", text), (what, text)
        assert len(text.split()) >= 2 and "update" not in text.lower().split(), (what, text)


@pytest.mark.parametrize("name", ["pretrain", "finetune", "embed", "evaluate", "convert"])
def test_help_shows_basic_options_first(capsys, name):
    command = cli.commands[name]
    out = kbert(capsys, name, "--help").out
    basic, advanced = out.split("\nOptions:\n")[1].split("\nAdvanced options:\n")
    assert set(command.basic) <= {one.name for one in options(name)}
    for one in options(name):
        first = one.name in command.basic or one.is_eager
        listed = f"  {', '.join(one.opts)}", f"  {'/'.join(one.opts)}"
        assert any(line in (basic if first else advanced) for line in listed), one.name


@pytest.mark.parametrize("name", COMMANDS)
def test_output_format_and_batch_size_mean_the_same_everywhere(name):
    found = {option: one for one in options(name) for option in one.opts}
    if "--output" in found:
        assert "-o" in found["--output"].opts and isinstance(found["--output"].type, click.Path)
    if "--format" in found:
        assert found["--format"].type.choices[0] == "text"
    assert not found.keys() & {"--json", "--batch"}
