"""`build_bert(base).summary()` shows all of document 004's 112 rows wherever it is printed."""

import contextlib
import sys
import types

import pytest
from helpers.parse_summary import expected, parse

from kbert.graph.reference import document_004

TOTALS = [  # the last lines of document 004's summary
    "Total params: 109,705,010",
    "Trainable params: 109,705,010",
    "Non-trainable params: 0",
]


@pytest.fixture
def model(base_model):
    return base_model


def assert_whole(text: str) -> None:
    printed = parse(text)
    assert printed.rows == expected(document_004())
    assert printed.totals == TOTALS
    assert "…" not in text and "..." not in text


def test_summary_is_whole_in_a_file(model, tmp_path):
    path = tmp_path / "summary.txt"
    with path.open("w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
        model.summary()
    assert_whole(path.read_text(encoding="utf-8"))


def test_summary_is_whole_with_print_fn(model, capsys):
    lines = []
    model.summary(print_fn=lines.append)
    assert_whole("\n".join(lines))
    assert not any("\n" in line for line in lines)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("stream", ["notebook", "file"])
def test_summary_in_a_notebook_is_at_most_100_columns_wide(model, monkeypatch, capsys, stream):
    """Where stdout is another stream than the notebook's, nothing bounds the width."""
    kind = type(sys.stdout) if stream == "notebook" else types.new_class("OutStream")
    notebooks = types.SimpleNamespace(OutStream=kind)
    monkeypatch.setitem(sys.modules, "ipykernel.iostream", notebooks)
    model.summary()
    text = capsys.readouterr().out
    assert_whole(text)
    assert (max(map(len, text.splitlines())) <= 100) == (stream == "notebook")


@pytest.mark.parametrize("columns", [33, 80, 131])
def test_summary_fits_the_terminal(model, capsys, monkeypatch, columns):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    model.summary()
    text = capsys.readouterr().out
    assert_whole(text)
    assert max(map(len, text.splitlines())) <= columns


@pytest.mark.parametrize("columns", [None, "33"])
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_summary_is_whole_at_every_line_length(model, capsys, monkeypatch, width, columns):
    if columns:  # a line length that is given counts, not the terminal's
        monkeypatch.setenv("COLUMNS", columns)
    model.summary(line_length=width)
    text = capsys.readouterr().out
    assert_whole(text)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(
    ("width", "positions"),
    [
        (160, [0.38, 0.55, 0.65, 1.0]),  # shares, as Keras has them
        (98, [0.33, 0.55, 0.67, 1.0]),  # as narrow as the document's
        (111, [44, 66, 78, 111]),  # characters
        (None, [44, 66, 78, 111]),
    ],
)
def test_summary_columns_follow_positions(model, capsys, width, positions):
    model.summary(line_length=width, positions=positions)
    text = capsys.readouterr().out
    assert_whole(text)
    ends = [end * width if positions[-1] == 1 else end for end in positions]
    header = next(line for line in text.splitlines() if line.startswith("Layer (type)"))
    assert ends[0] <= header.index("Output Shape") < ends[1]
    assert ends[1] < header.index("Param #") + len("Param #") <= ends[2] + 1
    assert ends[2] <= header.index("Connected to") < ends[3]
    assert max(len(line) for line in text.splitlines() if line[0] not in "_=") <= ends[3]
    assert {len(line) for line in text.splitlines() if line[0] in "_="} == {ends[3]}  # the rules
