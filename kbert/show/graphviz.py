"""Pictures of graphs in Graphviz's language: PNG, SVG and PDF, drawn in a process of their own."""

import functools
import html
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_logger = logging.getLogger("kbert")
POINTS = 72  # an inch
_DPI = 144
_MOST_PIXELS = 32_000  # a side of a PNG; cairo's limit is 32,767
_NODE = re.compile(rb'<g id="[^"]*" class="node .*?</g>', re.DOTALL)

_NEXT = "//next\n"  # between two graphs: a comment, to Graphviz's own program

PYGRAPHVIZ = f"""
import pygraphviz, sys
for text in sys.stdin.buffer.read().decode().split({_NEXT!r}):
    graph = pygraphviz.AGraph(string=text)
    sys.stdout.buffer.write(graph.draw(None, prog="dot", format=sys.argv[1].removeprefix("-T")))
"""


def draw(dot: str, format: str) -> bytes:
    """Graphviz's picture of a graph in its language; `format` is "png", "svg" or "pdf".

    Raises:
        ImportError: there is no Graphviz.
        RuntimeError: Graphviz failed; the message has its last line.
    """
    if format == "png":  # of fewer dots where a side would pass cairo's limit
        sides = re.search(rb'<svg width="([\d.]+)pt" height="([\d.]+)pt"', _render(dot, "svg"))
        longest = 1.0
        if sides:
            longest = max(float(sides[1]), float(sides[2]))
        dpi = min(_DPI, _MOST_PIXELS * POINTS / longest)
        dot = dot.replace("{", f"{{\ndpi={dpi:.4g}", 1)
    picture = _render(dot, format)
    return _NODE.sub(_centre, picture) if format == "svg" else picture


def layouts(dots: Sequence[str]) -> list[dict]:
    """Lay out several graphs with one Graphviz process; return Graphviz's JSON of each."""
    text = _render(_NEXT.join(dots), "json0").decode()
    decoder = json.JSONDecoder()
    graphs = []
    rest = text.strip()
    while rest:
        layout, end = decoder.raw_decode(rest)
        graphs.append(layout)
        rest = rest[end:].lstrip()
    return graphs


def command() -> list[str]:
    """Return the command of a program that draws what it reads, given -T and a format.

    pygraphviz draws in a process of its own too: there it finds the fonts of `_fonts` whatever
    this process has loaded before.
    """
    try:
        import pygraphviz  # noqa: F401
    except ImportError:
        program = shutil.which("dot")
        if program is None:
            raise ImportError(
                "drawing .png, .svg and .pdf needs pygraphviz (pip install pygraphviz) or "
                "Graphviz's dot program on PATH, got neither (.dot and .mmd need nothing)"
            ) from None
        return [program]
    return [sys.executable, "-c", PYGRAPHVIZ]


def lend_to_pydot() -> None:
    """Let pydot, if it is loaded, draw where no `dot` is on PATH: `keras.utils.plot_model` does.

    pydot only knows programs by their names, and Keras gives it no other: no public way leads to
    another drawer, so pydot's method `Dot.create` is replaced. Where there is a `dot`, or another
    program is asked for, pydot does what it always does. kbert's own pictures do without pydot.
    """
    pydot = sys.modules.get("pydot")
    if pydot is None or importlib.util.find_spec("pygraphviz") is None:
        return
    by_program = getattr(pydot.Dot, "create", None)
    if by_program is None:
        _logger.warning(
            "pydot %s has no Dot.create: keras.utils.plot_model draws only with Graphviz's dot "
            "program on PATH (kbert.plot needs neither)",
            pydot.__version__,
        )
        return
    if hasattr(by_program, "__wrapped__"):
        return

    @functools.wraps(by_program)
    def create(self, prog=None, format="ps", encoding=None):
        if (prog or self.prog) != "dot" or shutil.which("dot"):
            return by_program(self, prog, format, encoding)
        return _render(self.to_string(), format)

    pydot.Dot.create = create


def _render(dot: str, format: str) -> bytes:
    program = command()
    with tempfile.TemporaryDirectory() as folder:
        # a fixed date for the PDF; what the user has set counts more
        environment = {"SOURCE_DATE_EPOCH": "0"} | _fonts(Path(folder)) | os.environ
        run = subprocess.run(
            [*program, f"-T{format}"], input=dot.encode(), capture_output=True, env=environment
        )
    if run.returncode:
        lines = run.stderr.decode(errors="replace").split("\n") or [""]
        reason = next((line for line in reversed(lines) if line), f"status {run.returncode}")
        raise RuntimeError(f"Graphviz failed: {reason}")
    # the wheel's Graphviz dates its PDFs whatever SOURCE_DATE_EPOCH says
    return re.sub(rb"(?<=/CreationDate \(D:)\d{14}", b"19700101000000", run.stdout)


def _centre(node: re.Match) -> bytes:
    """Centre a node's lines in an SVG, however wide the reader's letters are.

    Graphviz anchors the lines of an HTML label at their start, where its own font wants them.
    """
    outline = re.search(rb' d="M([^"]*)"', node[0])
    if outline is None:
        return node[0]
    points = re.split(rb"[C ]", outline[1])
    across = [float(point.split(b",")[0]) for point in points]
    middle = (min(across) + max(across)) / 2
    return re.sub(
        rb'text-anchor="start" x="[^"]*"', b'text-anchor="middle" x="%.2f"' % middle, node[0]
    )


def _fonts(folder: Path) -> dict[str, str]:
    """Tell fontconfig of the DejaVu fonts that matplotlib carries, where it is installed."""
    package = importlib.util.find_spec("matplotlib")
    if package is None or not package.origin:
        return {}
    fonts = Path(package.origin).parent / "mpl-data" / "fonts" / "ttf"
    settings = folder / "fonts.conf"
    settings.write_text(
        f"<fontconfig><dir>{html.escape(str(fonts))}</dir>"
        f"<cachedir>{html.escape(str(folder / 'cache'))}</cachedir></fontconfig>",
        encoding="utf-8",
    )
    return {"FONTCONFIG_FILE": str(settings)}
