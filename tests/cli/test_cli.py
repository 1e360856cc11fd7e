"""The command line prints, imports and exits as documented."""

import csv
import io
import json
import re
import subprocess
import sys
from importlib.metadata import entry_points

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import pytest
from helpers.command_line import kbert
from helpers.errors import raises
from helpers.marks import full
from helpers.sizes import SIZES

from kbert import PRESETS, __version__, account
from kbert.cli.main import cli
from kbert.graph.closed_form import Row
from kbert.heads import HEADS

COMMANDS = list(cli.commands)
OTHER_HEADS = [head for head in HEADS if head != "pretraining"]
# Parameters of document 004's 14 steps, in its order; steps 6 to 9 come 12 times.
STEPS = [0, 23_040_000, 1536, 393_216, 1536, 2_362_368, 1536, 4_722_432, 1536, 590_592]
STEPS += [1536, 30_000, 590_592, 1538]


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("configuration") / "small.json"
    path.write_text(json.dumps(SIZES), encoding="utf-8")
    return path


def test_commands_are_registered_and_installed():
    for name in COMMANDS:
        assert cli.commands[name].name == name
    (script,) = (entry for entry in entry_points(group="console_scripts") if entry.name == "kbert")
    assert script.load() is kbert.__globals__["main"]


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_fits_80_columns_and_lists_every_option(capsys, command):
    done = kbert(capsys, *command, "-h")
    assert done == kbert(capsys, *command, "--help")
    assert (done.status, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.out.startswith("Usage: kbert")
    parts = cli.commands[command[0]].params if command else cli.params
    for name in [flag for part in parts for flag in part.opts if flag.startswith("--")]:
        assert name in done.out
    if not command:
        assert all(re.search(rf"^  {name} +\w", done.out, re.MULTILINE) for name in COMMANDS)


def test_no_command_shows_the_help(capsys):
    done = kbert(capsys)
    assert kbert(capsys, "--help").out in (done.out + done.err)


def test_version_is_the_packages(capsys):
    assert __version__ in kbert(capsys, "--version").out


def test_default_configuration_is_base(capsys):
    assert kbert(capsys, "account") == kbert(capsys, "account", "base")
    assert kbert(capsys, "params") == kbert(capsys, "params", "base")


def test_account_of_base_shows_document_004s_14_steps(capsys):
    text = kbert(capsys, "account", "base").out
    steps = re.findall(r"^ ?(\d+)  (\S.*?)  +(?:(12) × )?([\d,]+)$", text, re.MULTILINE)
    assert [int(number) for number, *_ in steps] == list(range(1, 15))
    assert [int(params.replace(",", "")) for *_, params in steps] == STEPS
    assert [times for *_, times, _ in steps] == ["12" if 5 <= n <= 8 else "" for n in range(14)]
    total = sum(int(times or 1) * int(params.replace(",", "")) for *_, times, params in steps)
    assert f"{total:,}" == "109,705,010"


def test_account_shows_each_steps_formula_with_numbers(capsys):
    text = kbert(capsys, "account", "base").out
    formulas = re.findall(r"^ {6}(.+?) = (.+)$", text, re.MULTILINE)
    assert len(formulas) == 13  # the inputs have none
    for (formula, arithmetic), params in zip(formulas, STEPS[1:], strict=True):
        letters = {"T": 30_000, "H": 768, "A": 12, "L": 12, "P": 512, "FFD": 3072}
        source = formula.replace("·", "*").replace("/", "//")
        assert eval(source, {"__builtins__": {}}, letters) == params
        assert eval(arithmetic.replace("·", "*"), {"__builtins__": {}}) == params


def test_account_shows_its_totals_conventions_and_sources(capsys):
    text = " ".join(kbert(capsys, "account", "base").out.split())
    numbers = ["109,705,010", "109,482,240", "110,106,428", "110M", "27.75", "76"]
    numbers += ["335,141,888", "336,226,108", "340M"]
    for said in [*numbers, "2204.02311", "2205.05198", "34", "multiply-add", "Adam"]:
        assert said in text, said
    uncased = kbert(capsys, "account", "base_uncased").out
    assert "(3.0087e+11)" in uncased  # 3.009e11 in the issue
    assert "(1.0198e+12)" in kbert(capsys, "account", "large_uncased").out


@pytest.mark.full
@pytest.mark.parametrize("head", ["pretraining", *(full(head) for head in OTHER_HEADS)])
@pytest.mark.parametrize("name", ["large_cased", "base_multilingual_cased"])
@pytest.mark.parametrize("options", ["", "--rows", "--seq-len 7", "--dtype mixed_bfloat16"])
def test_accounts_fit_80_columns(capsys, name, head, options):
    done = kbert(capsys, "account", name, "--head", head, *options.split())
    assert done.status == 0
    assert max(map(len, done.out.splitlines())) <= 80


def test_comparison_of_heads_fits_80_columns(capsys):
    text = kbert(capsys, "heads", "base").out
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("form", ["json", "csv", "markdown", "text"])
def test_every_format_of_an_account_holds_the_same_rows(capsys, form, config_file):
    full = account(PRESETS["base"].replace(**SIZES), 7, 13, dtype="bfloat16")
    options = ["--seq-len", "7", "--batch-size", "13", "--dtype", "bfloat16", "--rows"]
    out = kbert(capsys, "account", config_file, "--format", form, *options).out
    numbers = [(row.layer, row.params, row.flops, row.activation_bytes) for row in full.rows]
    if form == "json":
        record = json.loads(out)
        rows = record["rows"]
        assert record["params"] == full.params
        assert record["forward_flops"] == full.flops
        assert record["training_memory_bytes"] == vars(full.memory)
        assert record["conventions"]
        assert {name: group["params"] for name, group in record["groups"].items()} == {
            name: group.params for name, group in full.groups.items()
        }
    elif form == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
    elif form == "markdown":
        header, _, *lines = (
            [cell.strip() for cell in line.split("|")] for line in out.splitlines()
        )
        rows = [dict(zip(header, line, strict=True)) for line in lines]
    else:
        table = out[out.index("EVERY ROW") :].split("\n\n")[0]
        lines = re.findall(r"^(\S+) +([\d,]+) +([\d,]+) +([\d,]+)$", table, re.MULTILINE)
        names = ("layer", "params", "flops", "activation_bytes")
        rows = [dict(zip(names, line, strict=True)) for line in lines]
    names = ("params", "flops", "activation_bytes")
    found = [(row["layer"], *(int(str(row[n]).replace(",", "")) for n in names)) for row in rows]
    assert found == numbers


@pytest.mark.parametrize("built", [[], ["--built"]])
def test_heads_shows_12_slices_and_both_ways_agree(capsys, built):
    text = kbert(capsys, "heads", "base", *built).out
    slices = re.findall(r"^ +(\d+)  (\d+) … (\d+) +\(768, 64\) +([\d,]+)$", text, re.MULTILINE)
    assert [(int(head), int(first), int(last)) for head, first, last, _ in slices] == [
        (head + 1, 64 * head, 64 * head + 63) for head in range(12)
    ]
    assert sum(int(weights.replace(",", "")) for *_, weights in slices) == 768 * 768
    differences = [float(number) for number in re.findall(r" (\d\.\de[+-]\d+)$", text, re.M)]
    assert len(differences) == 4
    assert max(differences) < 1e-5


def test_verify_exits_with_0_if_all_agree(capsys, config_file):
    done = kbert(capsys, "verify", config_file)
    assert done.status == 0
    assert "agree" in done.out.splitlines()[-1] and "published" not in done.out


def test_verify_exits_with_1_and_names_a_row_that_differs(capsys, config_file, monkeypatch):
    from kbert.graph import closed_form

    true_rows = closed_form.rows

    def wrong_rows(*args, **kwargs):
        rows = list(true_rows(*args, **kwargs))
        rows[-1] = Row("NSP", "Dense", "(None, 2)", 51, "NSP-Dense[0][0]")  # 2·24 + 2 = 50
        return tuple(rows)

    monkeypatch.setattr(closed_form, "rows", wrong_rows)
    done = kbert(capsys, "verify", config_file)
    assert done.status == 1
    assert re.search(r"NSP: params expected 51, found 50", done.out)
    assert "agree" not in done.out.splitlines()[-1]


def test_demo_fits_150_lines_and_shows_parts_of_the_commands_it_names(
    capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr("kbert.graph.summary_table.width_shown", lambda: 80)
    done = kbert(capsys, "demo", "-o", tmp_path / "x.dot")
    assert (done.status, done.err) == (0, "")
    lines = done.out.replace(str(tmp_path), "").splitlines()
    assert len(lines) <= 150 and max(map(len, lines)) <= 80
    parts = dict(re.findall(r"^\$ kbert (\w+ base)(?: .*)?\n((?:(?!\$).*\n)+)", done.out, re.M))
    for command in ("summary base", "account base", "verify base"):
        whole = kbert(capsys, *command.split()).out.splitlines()
        assert len(parts[command]) > 500 and set(parts[command].splitlines()) <= {*whole, ""}
    assert "Total params: 109,705,010\n" in done.out and "plot base" in parts


@pytest.mark.full
@pytest.mark.parametrize(
    "line",
    (
        "--help",
        "--version",
        "account base",
        full("heads tiny"),
        full("params base"),
        full("plot base -o x.dot"),
        "explore base -o x.html",
        full("summary base"),
    ),
)
def test_commands_without_keras_import_none(line, tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "kbert", *line.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    imported = {name.split("|")[-1].strip() for name in done.stderr.splitlines()}
    packages = {name.split(".")[0] for name in imported}
    assert done.returncode == 0 and "kbert.cli.main" in imported
    heavy = {"keras", "tensorflow", "jax", "torch", "numpy", "matplotlib", "pydot", "pygraphviz"}
    needed = {"heads": {"numpy"}, "explore": {"pygraphviz"}}
    assert packages & heavy == needed.get(line.split()[0], set())
    assert (line == "--help") <= ("kbert.graph.accounting" not in imported)


def test_summary_and_counts_of_selected_positions(capsys):
    options = ("tiny", "--max-predictions", "3", "--selected-positions")
    done = kbert(capsys, "summary", *options, "--format", "tsv")
    layers = [row.split("\t")[0] for row in done.out.splitlines()]
    assert {"Encoder-2-Queries", "MLM-Slice", "Input-Positions"} < set(layers)
    assert not {"MLM-Gather", "Input-Masked"} & set(layers)
    selected, plain = (
        json.loads(kbert(capsys, "account", *one, "--format", "json").out)["forward_flops"]
        for one in (options, options[:-1])
    )
    assert selected < plain


def test_traceback_variable_shows_the_traceback(monkeypatch, capsys):
    monkeypatch.setenv("KBERT_TRACEBACK", "1")
    with raises(ValueError, "'basse'", "base"):
        cli.main(["account", "basse"], standalone_mode=False)
    from kbert.cli.main import main

    with raises(ValueError, "'basse'", "base"):
        main(["account", "basse"])


def test_interrupted_command_prints_one_line(capsys, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("kbert.account", stop)
    done = kbert(capsys, "account", "base")
    assert (done.status, done.out, done.err.strip()) == (130, "", "kbert: stopped")
