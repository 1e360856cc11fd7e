"""Figures and tables for LaTeX compile, say what they must, and print special characters."""

import re
import shutil
import subprocess

import pytest
from helpers.command_line import kbert as run
from helpers.diagram_readers import DOCUMENT

import kbert
from kbert.io.latex import has_other_letters, to_latex

LATEX = shutil.which("pdflatex") and shutil.which("pdftotext")
needs_latex = pytest.mark.skipif(not LATEX, reason="needs pdflatex and pdftotext")
SPECIAL = r"50_000 & 100% #1 $5 {x} a~b^c \d <e> | \" -- [f] `g`"


@pytest.fixture
def source(tmp_path):
    """A model's folder without weights, with each printable character as a token."""
    letters = [chr(code) for code in range(33, 127)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    tokens += [f"##{letter}" for letter in letters if letter.isalnum()]
    kbert.Tokenizer.from_vocab(tokens, lowercase=False).save(tmp_path / "model")
    config = f'{{"vocab_size": {len(tokens)}, "max_position_embeddings": 128}}'
    (tmp_path / "model" / "config.json").write_text(config)
    return tmp_path / "model"


def compile_text(folder, text: str) -> str:
    """Compile with pdflatex; return the words on the pages. A LaTeX error fails."""
    (folder / "a.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    pages = ["pdftotext", "-layout", "a.pdf", "-"]
    return subprocess.run(pages, cwd=folder, capture_output=True, text=True, check=True).stdout


def page_size(folder) -> tuple[float, float]:
    """Width and height in points."""
    command = ["pdfinfo", "a.pdf"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    width, height = re.search(r"Page size: +([\d.]+) x ([\d.]+) pts", said).groups()
    assert re.search(r"Pages: +1\n", said)
    return float(width), float(height)


def article(*parts: str) -> str:
    packages = r"\usepackage[margin=15mm]{geometry}\usepackage{tikz,booktabs,longtable}"
    body = "\n\n".join(parts)
    return f"\\documentclass{{article}}{packages}\\begin{{document}}{body}\\end{{document}}\n"


@needs_latex
@pytest.mark.full
@pytest.mark.parametrize("layout", ["tall", "wide"])
def test_figure_compiles_alone_and_within_a_paper(tmp_path, layout):
    path = kbert.plot("base", tmp_path / "figure.tex", layout=layout)
    words = compile_text(tmp_path, path.read_text(encoding="utf-8"))
    for text in ("Multi-Head", "Add & Norm", "Feed Forward", "12 ×", "Masked LM", "Segment ids"):
        assert text in words
    width, height = page_size(tmp_path)
    if layout == "tall":
        assert width == pytest.approx(89 / 25.4 * 72, abs=0.1)
        words = compile_text(tmp_path, article(*[r"Before \input{figure} after."] * 2))
        assert words.count("Before") == words.count("after.") == 2
        assert words.count("Feed Forward") == 2
    else:
        assert width / height == pytest.approx(16 / 9, abs=0.001)


@needs_latex
@pytest.mark.full
def test_input_figure_prints_special_characters(tmp_path, source):
    path = kbert.plot(source, tmp_path / "figure.tex", text=(SPECIAL, "and a pair"))
    words = compile_text(tmp_path, path.read_text(encoding="utf-8"))
    for sign in "&%#${}\\|<>[]CLS":
        assert sign in words, sign


@needs_latex
@pytest.mark.full
def test_input_figure_compiles_with_letters_that_latex_lacks_at_first(tmp_path):
    kbert.Tokenizer.from_vocab(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "zażółć", "gęślą", "þorn"],
        lowercase=False,
    ).save(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text('{"vocab_size": 8}')
    path = kbert.plot(tmp_path / "model", tmp_path / "b.tex", text="zażółć gęślą þorn")
    assert "þorn" in compile_text(tmp_path, path.read_text(encoding="utf-8"))


def read_rows(table: str) -> list[list[str]]:
    """The cells of a LaTeX table, by a reader of its own."""
    assert table.startswith("% written by kbert")
    lines = [line for line in table.splitlines() if line.endswith(r"\\")]
    return [[cell.strip() for cell in line.removesuffix(r"\\").split(" & ")] for line in lines]


def test_summary_for_latex_is_document_004(capsys):
    table = run(capsys, "summary", "base", "--format", "latex").out
    header, *rows, total = read_rows(table)
    assert header == ["Layer", "Type", "Output shape", "Parameters"]
    assert rows == [[row.layer, row.type, row.output_shape, f"{row.params:,}"] for row in DOCUMENT]
    assert total[0] == "Total" and total[-1] == "109,705,010"
    assert r"\begin{longtable}{@{}lllr@{}}" in table  # numbers are set right
    assert [table.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 2, 1]


def test_collapsed_summary_for_latex_has_one_block(capsys):
    table = run(capsys, "summary", "base", "--collapse", "--format", "latex").out
    _, *rows, total = read_rows(table)
    block = [row for row in rows if "times" in row[0]]
    assert [row[-1] for row in block] == ["7,087,872"] and total[-1] == "109,705,010"
    assert block[0][0].startswith(r"12 $\times$ Encoder-n")
    assert len(rows) == 112 - 11 * 8 + 1 and r"\begin{tabular}" in table


def test_account_for_latex_has_the_groups_or_every_row(capsys):
    account = kbert.account("base")
    _, *rows, total = read_rows(run(capsys, "account", "base", "--format", "latex").out)
    assert [row[0] for row in rows] == ["embeddings", "encoder", "pooler", "MLM", "NSP"]
    assert rows[1][1:3] == ["85,054,464", r"77.5\%"]  # of 109,705,010
    assert total[1] == "109,705,010" and total[3] == f"{account.flops:,}"
    assert account.to_latex() == run(capsys, "account", "base", "--format", "latex").out
    table = run(capsys, "account", "base", "--rows", "--format", "latex").out
    assert account.to_latex(every_row=True) == table
    assert [row[:2] for row in read_rows(table)[1:-1]] == [
        [row.layer, f"{row.params:,}"] for row in DOCUMENT
    ]


def test_special_characters_of_names_are_escaped():
    table = to_latex(("a_b", "n"), [("50% & #1 ^", 1), ("[x", 2345), ("*y", "6.7%")], ("{}", ""))
    assert r"a\_b & n \\" in table
    assert r"50\% \& \#1 \textasciicircum{} & 1 \\" in table
    assert "\n{}[x & 2,345 \\\\\n{}*y & 6.7\\% \\\\\n" in table
    assert r"\{\} & \\" in table and "{@{}lr@{}}" in table


@pytest.mark.parametrize("count", range(2, 6))
def test_hyphens_become_no_dash(count):
    cell = to_latex(("a",), [("-" * count,)]).split("\\midrule\n")[1]
    assert "--" not in cell and cell.count("-") == count


@needs_latex
@pytest.mark.full
def test_a_table_says_what_its_latin_letters_need(tmp_path):
    """With T1, as a table says; without it, and without a warning, in LaTeX's own encoding."""
    letters = [chr(code) for code in range(0xA1, 0x180) if chr(code).isalpha() or chr(code) in "«»"]
    tables = {letter: to_latex(("a",), [(letter,)]) for letter in letters}
    for needed in ("", r"\usepackage[T1]{fontenc}"):
        rows = [
            letter
            for letter, table in tables.items()
            if ("[T1]" in table) == bool(needed) and not has_other_letters(letter)
        ]
        table = to_latex(("a",), [(letter,) for letter in rows])
        text = article(table).replace("{article}", "{article}" + needed, 1)
        compile_text(tmp_path, text)
    assert {letter for letter in "ąđþ«" if "[T1]" in tables[letter]} == set("ąđþ«")
    assert "[T1]" not in "".join(tables[letter] for letter in "éüßłøçñ")


@needs_latex
@pytest.mark.full
@pytest.mark.parametrize(
    "line",
    [
        "summary base",
        "summary base --collapse",
        "account base",
        "account base --rows",
        "account base large",
        "verify tiny",
    ],
)
def test_tables_compile(tmp_path, capsys, line):
    table = run(capsys, *line.split(), "--format", "latex").out
    words = compile_text(tmp_path, article(r"\scriptsize " + table))
    for number in re.findall(r"\d[\d,]{6,}", table):
        assert number in words, number
    assert r"\textbackslash" not in words


@needs_latex
@pytest.mark.full
def test_a_table_with_special_characters_compiles(tmp_path):
    cells = [SPECIAL, "[x]", "*y*", "a -- b", "× ÷ · …", "é ü ß"]
    table = to_latex(("name_1", "#"), [(cell, 1) for cell in cells], ("total & more", len(cells)))
    words = compile_text(tmp_path, article(table))
    # an underscore is a rule in LaTeX's own fonts, and no letter
    for text in ("50 000 & 100% #1 $5 {x}", "[x]", "*y*", "×", "÷", "total & more"):
        assert text in words, text
