"""Mermaid's blocks, which GitHub draws: on the site a picture by Graphviz, with no script."""

import itertools
import re
from pathlib import Path

from pygments.lexers.special import TextLexer

from kbert.io import palette
from kbert.show import graphviz

_FILL, _STROKE = (colour.light for colour in palette.KINDS["embedding"])
_LOOKS = f"""digraph {{
graph [bgcolor="transparent" pad=0.1 ranksep=0.3 nodesep=0.3]
node [shape=box style="rounded,filled" fillcolor="{_FILL}" color="{_STROKE}"
fontcolor="{palette.INK.light}"
fontname="DejaVu Sans,Verdana,Arial,sans-serif" fontsize=9 margin="0.15,0.08"]
edge [color="{palette.EDGE.light}" arrowsize=0.6]
"""


class MermaidLexer(TextLexer):
    """Mermaid as plain text: Pygments has no lexer for it."""

    name, aliases = "Mermaid", ["mermaid"]


def drawn(page: Path) -> str:
    """The SVG of a page's one flowchart."""
    (block,) = re.findall(r"```mermaid\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return graphviz.draw(to_dot(block), "svg").decode()


def to_dot(flowchart: str) -> str:
    """A flowchart of boxes, `a["text"]`, and arrows, `a --> b & c`, in Graphviz's language."""
    lines = []
    for line in flowchart.splitlines()[1:]:
        box = re.fullmatch(r'\s*(\w+)\["(.*)"\]', line)
        if box:
            lines.append(f'"{box[1]}" [label=<{box[2]}>]')
            continue
        ends = [
            " ".join(f'"{name.strip()}"' for name in end.split("&")) for end in line.split("-->")
        ]
        lines += [f"{{{source}}} -> {{{target}}}" for source, target in itertools.pairwise(ends)]
    return "\n".join([_LOOKS, *lines, "}"])
