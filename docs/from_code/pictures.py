"""The pictures of the 14 steps, cut from the figure of base, and the explorer's pages."""

import html
import re
from pathlib import Path

import kbert
from from_code.steps import STEPS
from kbert.graph.closed_form import rows
from kbert.graph.spec import GraphSpec
from kbert.show import graphviz
from kbert.show.diagrams import collapse_blocks, to_dot

SMALL_MODEL = Path(__file__).parents[1] / "small_model"
SENTENCES = (
    "The rabbit looked at his [MASK] and ran.",
    "She opened the [MASK] and went into the garden.",
    "The old man sat down in his [MASK].",
)

_WIDTH, _HEIGHT = 330, 150  # of a picture in points: a node and what stands around it
_FADED = ".node, .edge, .cluster {{ opacity: .3 }} [id='{node}'] {{ opacity: 1 }}"


def of_steps() -> dict[str, str]:
    """An SVG a step, by its file's name: the whole figure, all but that layer faded, cut there."""
    figure = graphviz.draw(to_dot(*collapse_blocks(rows(GraphSpec.of("base")))), "svg").decode()
    return {
        f"steps/{number}.svg": _cut(figure, step.layer.replace("-1-", "-n-"))
        for number, step in enumerate(STEPS, 1)
    }


def explorer() -> str:
    """The page of `kbert explore base`."""
    return kbert.explore("base").html


def live() -> str:
    """The page of the small model, which computes the sentences that a reader types."""
    return kbert.explore(
        SMALL_MODEL, sentences=SENTENCES, title="A small BERT", weights="int8"
    ).html


def _cut(figure: str, layer: str) -> str:
    name = html.escape(layer).replace("-", "&#45;")
    node = re.search(rf'<g id="{re.escape(name)}" class="node.*?</g>', figure, re.DOTALL)
    x, y = (sum(ends) / 2 for ends in zip(*_corners(node[0]), strict=True))
    right, down = map(float, re.search(r"translate\(([\d.]+) ([\d.]+)\)", figure).groups())
    left, top = x + right - _WIDTH / 2, max(0, y + down - _HEIGHT / 2)
    head = (
        f'width="{_WIDTH}pt" height="{_HEIGHT}pt" viewBox="{left:.1f} {top:.1f} {_WIDTH} {_HEIGHT}"'
    )
    figure = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"\s+viewBox="[^"]+"', head, figure, count=1)
    return figure.replace(
        '<g id="graph0"', f'<style>{_FADED.format(node=layer)}</style>\n<g id="graph0"', 1
    )


def _corners(node: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """The least and the greatest x and y of a node's outline."""
    outline = re.search(r' d="([^"]+)"', node)[1]
    points = [tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+),(-?[\d.]+)", outline)]
    xs, ys = zip(*points, strict=True)
    return (min(xs), min(ys)), (max(xs), max(ys))
