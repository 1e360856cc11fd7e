"""Commands on pages that do not run have valid options; shown and printed text are compared."""

import re
import shlex

import click
import pytest
from helpers.page_blocks import OURS, blocks, runs, same


def commands_that_do_not_run():
    for page in OURS:
        for block in blocks(page):
            lines = block.text.replace("\\\n", " ").splitlines()
            if not runs(block) and block.kind in ("", "bash"):
                found = [line for line in lines if re.search(r"\bkbert [a-z-]+ ", line)]
                yield from (line for line in found if not line.startswith("python benchmarks/"))


@pytest.mark.parametrize("line", list(commands_that_do_not_run()))
def test_commands_on_pages_have_valid_options(line):
    from kbert.cli.main import cli

    _, name, *words = shlex.split(re.search(r"\bkbert [^#&|>;]*", line)[0])
    with click.Context(cli, **cli.context_settings) as context:
        cli.commands[name].make_context(name, words, parent=context)


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("a\n…\nz", "a\nb\nc\nz", True),
        ("a\n…\nz", "a\nb\nc\ny", False),
        ("0.85 x", "0.86 x", True),
        ("0.85 x", "0.87 x", False),
        ("1.2e-07", "9.0e-07", True),
        ("1.2e-07", "9.0e-05", False),
        ("Bert(… 12)", "Bert(tiny, 12)", True),
        ("[1, 2]", "[1, 2]\n3", False),
        ("1,234", "1,235", False),
    ],
)
def test_comparison_of_printed_and_shown_text(shown, printed, equal):
    assert same(shown, printed) is equal
