r"""A figure in TikZ: a file that LaTeX compiles alone, and that a paper can \input."""

from kbert.io import printable
from kbert.io.latex import LATEX_MARK, escape_latex, has_other_letters, needs_t1
from kbert.show.paper.shapes import (
    ARROW,
    CORNER,
    FILLS,
    INK,
    LETTER_RISE,
    LETTER_SIZE,
    LINE_HEIGHT,
    LINE_WIDTH,
    SUBSCRIPT_DROP,
    TEXT_SIZE,
    Box,
    Circle,
    Drawing,
    Line,
    Shape,
    Text,
    list_letters,
)

_HEAD = r"""
%% In a paper: \usepackage{tikz}%(and_t1)s in the preamble, and \input{this file} where the figure
%% belongs.
%% Alone: pdflatex compiles this file to a page of the figure's size.
\makeatletter
\ifx\@nodocument\relax\let\kbertend\relax\else
\documentclass{article}%(t1)s
\usepackage{fix-cm,tikz}
\usepackage[papersize={%(width)sbp,%(height)sbp},margin=0pt]{geometry}
\pagestyle{empty}
\setlength{\parindent}{0pt}\setlength{\topskip}{0pt}\setlength{\lineskip}{0pt}
\def\kbertend{\end{document}}
\begin{document}
\fi
\makeatother
\def\kbertstrut{\rule[-%(depth)sbp]{0pt}{%(strut)sbp}}%% a line's height, whatever its letters
\begin{tikzpicture}[
  x=%(scale)sbp, y=%(scale)sbp, line width=%(line)sbp, line cap=round,
  every node/.style={inner sep=0pt, outer sep=0pt, align=center,
    font=\sffamily\fontsize{%(size)sbp}{%(skip)sbp}\selectfont},
  kbert box/.style={draw},
  kbert line/.style={draw, rounded corners=%(corner)sbp},
]
"""
_FOOT = r"""\end{tikzpicture}%
\kbertend
"""
_CAPITAL, _DEPTH = 5.55, 1.6  # heights of a capital, and of a letter's part below the line
_ANCHORS = {
    "start": "anchor=west, align=left",
    "middle": "anchor=center",
    "end": "anchor=east, align=right",
}


def to_tikz(drawing: Drawing) -> bytes:
    """Return a drawing as a .tex file."""
    scale = drawing.scale
    encoding = r"\usepackage[T1]{fontenc}" if needs_t1(list_letters(drawing)) else ""
    sizes = {
        "width": drawing.width * scale,
        "height": drawing.height * scale,
        "scale": scale,
        "line": LINE_WIDTH * scale,
        "size": TEXT_SIZE * scale,
        "skip": LINE_HEIGHT * scale,
        "corner": CORNER * scale,
        "depth": _DEPTH * scale,
        "strut": (_CAPITAL + 2 * _DEPTH) * scale,
    }
    texts = {"t1": encoding, "and_t1": f" and {encoding}" if encoding else ""}
    numbers = {name: _number(size) for name, size in sizes.items()}
    values = texts | numbers

    lines = [f"{LATEX_MARK}: {printable.line(drawing.title)}"]
    lines += _warn_of_letters(drawing)
    lines.append((_HEAD % values).strip())
    colours = {**FILLS, "ink": INK}
    for kind, colour in colours.items():
        lines.append(f"\\definecolor{{{_colour(kind)}}}{{HTML}}{{{colour[1:].upper()}}}")
    lines.append("\\color{" + _colour("ink") + "}")
    corner = f"({_number(drawing.width)},{_number(drawing.height)})"
    lines.append(f"\\useasboundingbox (0,0) rectangle {corner};")
    lines += [_write_shape(shape, scale) for shape in drawing.shapes]
    return ("\n".join(lines) + "\n" + _FOOT).encode()


def _warn_of_letters(drawing: Drawing) -> list[str]:
    if not has_other_letters(list_letters(drawing)):
        return []
    return ["% pdflatex lacks letters of this figure: use lualatex with a font that has them."]


def _write_shape(shape: Shape, scale: float) -> str:
    if isinstance(shape, Box):
        options = f"kbert box, fill={_colour(shape.kind)}, "
        options += f"rounded corners={_number(shape.corner * scale)}bp, "
        options += f"minimum width={_number(shape.width * scale)}bp, "
        options += f"minimum height={_number(shape.height * scale)}bp"
        text = _write_text(shape.lines, shape.subscript, scale)
        return _node(options, shape.x, shape.y, text)
    if isinstance(shape, Text):
        text = _write_text(shape.lines, "", scale)
        return _node(_ANCHORS[shape.align], shape.x, shape.y, text)
    if isinstance(shape, Circle):
        radius = _number(shape.radius)
        return f"\\filldraw[fill=white] {_point(shape.x, shape.y)} circle[radius={radius}];"
    return _write_line(shape, scale)


def _write_line(line: Line, scale: float) -> str:
    points = " -- ".join(_point(x, y) for x, y in line.points)
    if not line.arrow:
        return f"\\draw[kbert line] {points};"
    x0, y0 = line.points[-2]
    x, y = line.points[-1]
    direction = _sign(x - x0), _sign(y - y0)
    angles = {
        (0, 1): 90,
        (0, -1): 270,
        (1, 0): 0,
        (-1, 0): 180,
    }
    angle = angles[direction]

    arrow_length, arrow_width = ARROW
    length = _number(arrow_length * scale)
    half = _number(arrow_width * scale / 2)
    head = (
        f"\\fill[shift={{{_point(x, y)}}}, rotate={angle}] (0,0) -- "
        f"(-{length}bp,{half}bp) -- (-{length}bp,-{half}bp) -- cycle;"
    )
    return f"\\draw[kbert line] {points};\n{head}"


def _node(options: str, x: float, y: float, text: str) -> str:
    return f"\\node[{options}] at {_point(x, y)} {{{text}}};"


def _write_text(lines: tuple[str, ...], subscript: str, scale: float) -> str:
    if subscript:
        size = _number(LETTER_SIZE * scale)
        letter = f"{{\\fontsize{{{size}bp}}{{{size}bp}}\\selectfont {escape_latex(lines[0])}}}"
        low = _number((SUBSCRIPT_DROP - LETTER_RISE) * scale)
        rise = _number(LETTER_RISE * scale)
        letter = f"\\raisebox{{{rise}bp}}[0pt][0pt]{{{letter}}}"
        return f"\\kbertstrut{letter}\\raisebox{{-{low}bp}}[0pt][0pt]{{{escape_latex(subscript)}}}"
    if len(lines) == 1:  # letters below the line would lift it
        return f"\\kbertstrut {escape_latex(lines[0])}"
    return r"\\".join(escape_latex(line) for line in lines)


def _colour(kind: str) -> str:
    return "kbert" + kind.replace(" ", "")


def _point(x: float, y: float) -> str:
    return f"({_number(x)},{_number(y)})"


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
