"""The command line has help in sentences, examples, sections, completion, --quiet and NO_COLOR."""

import os
import re
import shlex
import subprocess
import sys
import time

import click
import pytest
from click.shell_completion import get_completion_class
from helpers.command_line import kbert

from kbert.cli import console
from kbert.cli.main import SECTIONS, cli
from kbert.hub.names import list_known_models
from kbert.io import progress

ESCAPE = "\x1b["


@pytest.fixture
def terminal(monkeypatch):
    """Streams that click takes for a terminal's."""
    is_file = lambda stream=None, color=None: color is False  # noqa: E731
    monkeypatch.setattr("click.utils.should_strip_ansi", is_file)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


def examples():
    for name, command in cli.commands.items():
        joined = "\n".join(command.examples).replace("\\\n", "")
        for line in joined.splitlines():
            yield pytest.param(name, line, id=line[:40])


@pytest.mark.parametrize(("name", "line"), list(examples()))
def test_example_in_help_parses(name, line):
    line = re.search(r"kbert .*", line).group().split("|")[0].split(">")[0].strip(')" ')
    words = shlex.split(line + ('"' if line.count('"') % 2 else ""))
    assert words[:2] == ["kbert", name]
    with click.Context(cli, **cli.context_settings) as context:
        cli.commands[name].make_context(name, words[2:], parent=context)


def test_every_command_is_in_one_section_of_the_help():
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(cli.commands)


def test_help_has_sections_and_examples(capsys):
    out = kbert(capsys, "--help").out
    assert all(f"\n{heading}:\n" in out for heading in SECTIONS)
    for name, command in cli.commands.items():
        out = kbert(capsys, name, "--help").out
        assert "Examples:\n  " + "\n  ".join(command.examples) in out


def test_terminal_has_colours_and_a_pipe_has_none(capsys, terminal):
    coloured = kbert(capsys, "--help").out
    refused = kbert(capsys, "summary", "nope").err
    assert ESCAPE in coloured and refused.startswith(ESCAPE)
    terminal.setenv("NO_COLOR", "1")
    plain = kbert(capsys, "--help").out
    assert plain == click.unstyle(coloured)
    assert kbert(capsys, "summary", "nope").err == click.unstyle(refused)
    terminal.setenv("NO_COLOR", "")  # as if it were not set: no-color.org
    assert ESCAPE in kbert(capsys, "--help").out
    terminal.undo()
    assert kbert(capsys, "--help").out == plain


def test_message_on_a_terminal_is_one_line(capsys, monkeypatch):
    """A command in it can be copied: only the terminal wraps it."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    err = kbert(capsys, "summary", "x" * 60 + "/" + "y" * 60).err
    assert len(err) > 160 and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("summ", {"summary"}),
        ("summary ti", {"tiny"}),
        ("plan large_", {"large_uncased", "large_cased"}),
        ("params L12_H7", {"L12_H768"}),
        ("summary --hea", {"--head"}),
        ("summary --head cl", {"classifier"}),
        ("inspect some", {"some"}),
        ("evaluate folder --task ta", {"tag"}),
        ("completion z", {"zsh"}),
        ("download bert-base-c", {"bert-base-cased", "bert-base-chinese"}),
        ("download BAAI/bge-s", {"BAAI/bge-small-en-v1.5"}),
        ("embed LaB", {"LaBSE"}),
        ("inspect intfloat/e5-l", {"intfloat/e5-large-v2"}),
    ],
)
def test_shell_completion_offers_what_fits(words, offered):
    *before, last = words.split()
    found = get_completion_class("bash")(cli, {}, "kbert", "X").get_completions(before, last)
    assert {item.value for item in found} == offered


def test_shell_completion_offers_every_model_and_its_use():
    found = get_completion_class("zsh")(cli, {}, "kbert", "X").get_completions(["download"], "")
    assert {item.value: item.help for item in found} == {
        name: row["use"] for name, row in list_known_models().items()
    }


def test_bash_completion_works_in_bash(tmp_path):
    """As in a shell: its own function is asked, which asks kbert."""
    folder = os.path.dirname(sys.executable)
    script = """
        eval "$(kbert completion bash)"
        COMP_WORDS=(kbert summary ti) COMP_CWORD=2
        _kbert_completion kbert
        echo "${COMPREPLY[@]}"
    """
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["tiny"]


@pytest.mark.full
def test_quiet_keeps_results_and_errors(capsys, saved, monkeypatch):
    folder, _ = saved
    monkeypatch.setattr(progress, "PROGRESS_DELAY_S", 0.0)
    arguments = ("similarity", folder / "encoder", "one text", "another")
    loud = kbert(capsys, *arguments)
    quiet = kbert(capsys, *arguments, "--quiet")
    assert "reading" in loud.err and "reading" not in quiet.err
    assert (quiet.status, quiet.out) == (0, loud.out)
    assert "reading" in kbert(capsys, *arguments).err  # the next is not quiet
    refused = kbert(capsys, "similarity", folder / "nope", "a", "b", "-q")
    assert (refused.status, len(refused.err.splitlines())) == (2, 1)


def test_quiet_run_has_no_progress_line(capsys):
    from kbert.training.loop.progress_line import Live

    with progress.silent(), Live(7, first="compiling") as live:
        live.show_evaluation(3, {"loss": 1.0})
    with progress.silent(), console.progress("what takes long"):
        pass
    assert capsys.readouterr().err == ""
    with Live(7) as live:
        live.show_evaluation(3, {"loss": 1.0})
    assert "3/7" in capsys.readouterr().err


def test_progress_of_a_plan_in_a_pipe_is_one_line(capsys, monkeypatch):
    def compile_plan(plan, waited=lambda seconds: None):
        time.sleep(0.2)  # until the timer has said it
        waited(99.0)
        return plan

    monkeypatch.setattr(progress, "PROGRESS_DELAY_S", 0.0)
    monkeypatch.setattr("kbert.compile_plan", compile_plan)
    done = kbert(capsys, "plan", "base", "--gpu", "H100", "--compile", "--format", "json")
    assert (done.status, done.err.count("\n")) == (0, 1) and "H100" in done.err


def options(name: str) -> list[click.Option]:
    return [one for one in cli.commands[name].params if isinstance(one, click.Option)]


@pytest.mark.parametrize("name", cli.commands)
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


@pytest.mark.parametrize("name", cli.commands)
def test_output_format_and_batch_size_mean_the_same_everywhere(name):
    found = {option: one for one in options(name) for option in one.opts}
    if "--output" in found:
        assert "-o" in found["--output"].opts and isinstance(found["--output"].type, click.Path)
    if "--format" in found:
        assert found["--format"].type.choices[0] == "text"
    assert not found.keys() & {"--json", "--batch"}
