"""Names of older releases: accepted, with the new one named."""

import inspect

import click
import numpy as np
import pytest
from helpers.command_line import kbert as run
from helpers.errors import check_named, collected_logs, logged, raises
from helpers.sizes import ROOT

import kbert
from kbert.cli.main import cli
from kbert.graph.aliases import table

NAMES, OPTIONS = table()["old name"], table()["old option"]
RENAMED = [tuple(name.split()) for name in NAMES]


def list_renamed_options():
    """(command, old option, new option) of each option that has an old name."""
    for name, command in cli.commands.items():
        opts = {opt for param in command.params for opt in param.opts}
        of_command = {old: new for old, new in OPTIONS.items() if old.startswith(f"{name} ")}
        for old, new in (of_command | table()["old setting"]).items():
            option = f"--{new.replace('_', '-')}"
            if option in opts:
                yield name, f"--{old.split()[-1].replace('_', '-')}", option


def test_old_name_of_an_argument_gives_the_new_one_and_is_reported(small):
    with collected_logs() as lines:
        old = kbert.compare_heads(small, length=3, built=False)
        assert old == kbert.compare_heads(small, seq_len=3, built=False)
    (line,) = lines
    check_named(line, "compare_heads", "length", "seq_len")
    with raises(TypeError, "seq_len", "length"):
        kbert.compare_heads(small, length=5, seq_len=6)
    with raises(TypeError, "compare_heads", "width"):
        kbert.compare_heads(small, width=5)


@pytest.mark.parametrize(("name", "old"), RENAMED)
def test_signature_has_the_new_name_alone(name, old):
    parameters = inspect.signature(getattr(kbert, name)).parameters
    assert NAMES[f"{name} {old}"] in parameters and old not in parameters


@pytest.mark.full
def test_old_names_of_public_functions_give_the_same_result(tmp_path, small):
    model = kbert.build_bert(small, seq_len=None, max_predictions=2)
    ids, positions = [[7, 3, 5, 2, 9]], [[1, 3]]
    new = kbert.predict(model, ids, mask_positions=positions)
    with logged("marks", "mask_positions"):
        old = kbert.predict(model, ids, marks=positions)
    assert all(np.array_equal(new[name], old[name]) for name in new)
    assert not np.array_equal(new["MLM"], kbert.predict(model, ids)["MLM"])

    with logged("blocks", "layers"):
        old = kbert.build_hidden_states(model, blocks=[1])
    new = kbert.build_hidden_states(model, layers=[1])
    assert old.output_names == new.output_names

    with logged("path", "output"):
        kbert.plot(model=small, path=tmp_path / "old.dot")
    kbert.plot(small, tmp_path / "new.dot")
    assert (tmp_path / "old.dot").read_bytes() == (tmp_path / "new.dot").read_bytes()


def test_a_corpus_is_read_by_the_old_names_too(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"body": "a fine film"}\n{"body": "a dull film"}\n', encoding="utf-8")
    with collected_logs() as lines:
        old = kbert.train_vocab(corpus, 30, tmp_path / "old", text_field="body", format="jsonl")
    new = kbert.train_vocab(corpus, 30, tmp_path / "new", text_column="body", corpus_format="jsonl")
    assert old.tokens == new.tokens and len(old.tokens) > 5
    assert sum("train_vocab" in line for line in lines) == 2


@pytest.mark.parametrize(("command", "old", "new"), [*list_renamed_options()])
def test_help_does_not_show_the_old_name(command, old, new):
    context = click.Context(cli.commands[command], info_name=command)
    shown = cli.commands[command].get_help(context)
    assert new in shown and f"{old} " not in shown


@pytest.mark.parametrize(
    ("old", "new", "value"), [("--peak", "--peak-flops", "9T"), ("--peak", "--peak-flops", None)]
)
def test_old_option_is_accepted_and_the_new_one_named_on_stderr(capsys, old, new, value):
    """With its value as the next word, or after =."""
    rest = ["--memory", "7GiB", "--batch-size", "3"]
    wanted = run(capsys, "plan", "base", f"{new}=9T", *rest)
    given = [old, value] if value else [f"{old}=9T"]
    done = run(capsys, "plan", "base", *given, *rest)
    assert (done.status, done.out) == (0, wanted.out) and wanted.status == 0
    assert done.err.count("\n") == wanted.err.count("\n") + 1
    assert old in done.err and new in done.err


def test_old_flag_is_accepted(capsys, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("A Fine Film\n\nA Dull Film\n", encoding="utf-8")
    tokens = {}
    for flag in ("--lowercase", "--uncased", "--cased"):
        folder = tmp_path / flag.strip("-")
        done = run(capsys, "vocab", corpus, "--size", "40", "-o", folder, flag)
        assert done.status == 0 and ("--uncased now" in done.err) == (flag == "--lowercase")
        tokens[flag] = (folder / "vocab.txt").read_bytes()
    assert tokens["--lowercase"] == tokens["--uncased"] != tokens["--cased"]


def test_error_of_an_old_option_names_the_new_one(capsys):
    done = run(capsys, "embed", "none", "a text", "--pooling", "last", "--layers", "none")
    assert done.status == 2 and "'--num-layers'" in done.err


def test_text_after_two_hyphens_is_no_option(capsys):
    done = run(capsys, "search", "none", "query", "--", "--vectors")
    assert done.status == 2 and "is called" not in done.err


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("account", ["--lora", "2", "--lora-rank", "4"]),
        ("account", ["--lora-rank=4", "--lora=2"]),
        ("plan", ["--peak", "9T", "--peak-flops", "9T"]),
    ],
)
def test_both_names_of_an_option_are_refused(capsys, command, options):
    done = run(capsys, command, "base", *options)
    old, new = sorted({option.partition("=")[0] for option in options if "--" in option}, key=len)
    assert done.status == 2 and old in done.err and new in done.err and not done.out


def test_old_name_with_the_new_one_by_position_is_refused():
    with raises(TypeError, "inspect", "source"):
        kbert.inspect("nowhere", path="nowhere")


@pytest.mark.parametrize("function", ["finetune", "pretrain", "account", "plan"])
def test_page_lists_the_old_settings_that_python_accepts(function):
    """Each is given to the function, which answers it by its new name."""
    page = (ROOT / "docs/reference/aliases.md").read_text(encoding="utf-8")
    parameters = inspect.signature(getattr(kbert, function)).parameters
    accepted = {old: new for old, new in table()["old setting"].items() if new in parameters}
    assert accepted
    for old, new in accepted.items():
        assert f"| `kbert.{function}(…, {old}=)` | `{new}=` |" in page
        with logged(old, new), pytest.raises((TypeError, ValueError, OSError)):
            getattr(kbert, function)("nowhere", **{old: object()})
