"""Text as LaTeX: special characters escaped, and tables with booktabs' rules."""

import re
from collections.abc import Sequence

from kbert.io import printable

LATEX_MARK = "% written by kbert"  # begins every .tex file that kbert writes

_LONG = 45  # rows that a page holds; a longer table is a longtable, which continues on the next

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    "×": r"$\times$",
    "÷": r"$\div$",
    "·": r"$\cdot$",
    "…": r"\ldots{}",
    "\u00a0": "~",
}
_HYPHEN = "-(?=-)"  # with the next one it would become a dash
_SPECIAL_CHARACTERS = re.compile("|".join([*map(re.escape, _SPECIAL), _HYPHEN]))
_KNOWN_TO_PDFLATEX = {*_SPECIAL, *"–—‘’“”"}  # beyond the Latin letters
_UNKNOWN_LATIN = frozenset("ĦħĸĿŀŉŦŧſ")
_IN_T1_ONLY = frozenset("«»ÐÞðþĄąĐđĘęĮįŊŋŲų")  # LaTeX's default font encoding, OT1, lacks them


def escape_latex(text: object) -> str:
    """Return one line of LaTeX that prints a text as it is."""
    return _SPECIAL_CHARACTERS.sub(
        lambda match: _SPECIAL.get(match[0], "-{}"), printable.line(text)
    )


def has_other_letters(text: str) -> bool:
    """Return whether a text has letters that pdflatex lacks: others than most Latin ones."""
    return not _UNKNOWN_LATIN.isdisjoint(text) or any(
        ord(letter) > 0x17F and letter not in _KNOWN_TO_PDFLATEX for letter in text
    )


def needs_t1(text: str) -> bool:
    """Return whether pdflatex prints a text only with the font encoding T1."""
    return not _IN_T1_ONLY.isdisjoint(text)


def to_latex(
    header: Sequence[str],
    lines: Sequence[Sequence],
    total: Sequence | None = None,
    rules_before: Sequence[int] = (),
) -> str:
    r"""Return a table for LaTeX, to be pasted or \input; a line with its total comes last.

    Whole numbers get commas; a column of numbers and shares is set right. A table of more rows than
    a page holds is a longtable. `rules_before` are the numbers of the lines, from 0, that have a
    thin rule above them.
    """
    environment, packages = "tabular", "booktabs"
    code = [r"\toprule", _row(header), r"\midrule"]
    if len(lines) > _LONG:
        environment, packages = "longtable", "booktabs,longtable"
        code.append(r"\endhead")  # repeated on every page

    for number, line in enumerate(lines):
        if number in rules_before:
            code.append(r"\midrule")
        code.append(_row(line))
    if total is not None:
        code += [r"\midrule", _row(total)]
    code.append(r"\bottomrule")
    table = "\n".join(code)

    columns = ""
    for column in range(len(header)):
        columns += _align_column(lines, column)
    needed = f"\\usepackage{{{packages}}}"
    if needs_t1(table):
        needed += r" and \usepackage[T1]{fontenc}"
    return "\n".join(
        [
            f"{LATEX_MARK}: needs {needed}",
            f"\\begin{{{environment}}}{{@{{}}{columns}@{{}}}}",
            table,
            f"\\end{{{environment}}}",
            "",
        ]
    )


def _align_column(lines: Sequence[Sequence], column: int) -> str:
    """Return LaTeX's letter for a column: "r" if it has numbers alone, else "l"."""
    cells = [line[column] for line in lines if line[column] != ""]
    return "r" if cells and all(_is_number(cell) for cell in cells) else "l"


def _is_number(cell: object) -> bool:
    if isinstance(cell, int):
        return True
    return bool(re.fullmatch(r"[\d.,]+%?", str(cell)))


def _row(cells: Sequence) -> str:
    texts = []
    for cell in cells:
        text = f"{cell:,}" if isinstance(cell, int) else escape_latex(cell)
        texts.append(text)
    row = " & ".join(texts).rstrip()
    # after the end of the row above, these would belong to it
    protected = "{}" if row.startswith(("[", "*")) else ""
    return protected + row + r" \\"
