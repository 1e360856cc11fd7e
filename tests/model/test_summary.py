"""`build_bert(base).summary()` shows all of document 004's 112 rows wherever it is printed."""

import contextlib
import os
import pty
import subprocess
import sys
import termios
import types

import pytest
from helpers.parse_summary import expected, parse
from helpers.sizes import ROOT

from kbert.graph.reference import document_004

TOTALS = [  # the last lines of document 004's summary
    "Total params: 109,705,010",
    "Trainable params: 109,705,010",
    "Non-trainable params: 0",
]
ON_TERMINALS = """
import fcntl, struct, sys, termios
from kbert import base, build_bert

model = build_bert(base)
for columns in {widths}:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    model.summary()
    print(chr(12), flush=True)
"""


@pytest.fixture
def model(base_model):
    return base_model


def assert_whole(text: str) -> None:
    printed = parse(text)
    assert printed.rows == expected(document_004())
    assert printed.totals == TOTALS
    assert "…" not in text and "..." not in text


def on_a_terminal(code: str) -> str:
    """What a Python process prints on a terminal of its own."""
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST  # line ends as they were written
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    )
    os.close(theirs)
    read = []
    with contextlib.suppress(OSError):  # a terminal that was closed
        while part := os.read(ours, 65536):
            read.append(part)
    os.close(ours)
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 0, errors
    return b"".join(read).decode()


@pytest.mark.full
def test_summary_is_whole_on_terminals_of_any_width():
    widths = [80, 40, 120, 200]
    pages = on_a_terminal(ON_TERMINALS.format(widths=widths)).split("\f\n")
    assert pages.pop() == ""
    for width, text in zip(widths, pages, strict=True):
        assert_whole(text)
        assert max(map(len, text.splitlines())) <= width


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


@pytest.mark.full
def test_summary_is_whole_in_a_notebook(tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="pip install -e '.[test-full]'")
    nbformat = pytest.importorskip("nbformat", reason="pip install -e '.[test-full]'")
    pytest.importorskip("ipykernel", reason="pip install -e '.[test-full]'")
    cells = ["from kbert import base, build_bert", "build_bert(base).summary()"]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells]
    )
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    outputs = notebook.cells[1].outputs
    assert {output.output_type for output in outputs} == {"stream"}
    text = "".join(output.text for output in outputs if output.name == "stdout")
    assert_whole(text)
    assert max(map(len, text.splitlines())) <= 100  # Jupyter wraps longer lines within words
    names = [line for line in text.splitlines() if line.startswith("Encoder-")]
    assert len(names) == 12 * 8 and all(name.endswith(")") for name in names)
    words = [cell for row in expected(document_004()) for cell in row[3]]
    assert all(f" {word}\n" in text for word in words)  # no connection is broken


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
