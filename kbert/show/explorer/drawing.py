"""Boxes, edges and frames laid out from bottom to top by Graphviz: plain numbers, no picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kbert.show import graphviz

_MARGIN = 14  # points between a frame and what is in it
# A frame's own text has 14 points at its top: an empty table, which has no font. Bottom to top, b
# is the top.
_HEADER = (
    'labelloc=b labeljust=l label=<<table border="0" cellborder="0" cellspacing="0" '
    'cellpadding="0"><tr><td width="1" height="14" fixedsize="true"></td></tr></table>>'
)
_GAP = _MARGIN / 2  # points between a line and the boxes that it passes

Edge = tuple[str, str, int]  # from, to, which output
Box = Sequence[float]  # left, top, width, height


@dataclass(frozen=True)
class Drawing:
    """A drawing to lay out; sizes are in points."""

    nodes: Mapping[str, tuple[float, float]]  # (width, height) of each box by its name
    edges: Sequence[Edge]
    frames: Mapping[str, Sequence[str]]  # the boxes in each; a frame lies inside the previous one
    curved: bool = False  # edges are curves, for graphs with many; else they have right angles


def geometries(drawings: Mapping[str, Drawing]) -> dict[str, dict]:
    """Return each drawing's geometry, y downwards, in points.

    `size` is (width, height); `nodes` and `frames` have [left, top, width, height] by name; `edges`
    are [from, to, output, points], the corners of a line, or of a curve its Bézier points.
    """
    layouts = graphviz.layouts([_dot(drawing) for drawing in drawings.values()])
    return {
        key: _geometry(drawing, layout)
        for (key, drawing), layout in zip(drawings.items(), layouts, strict=True)
    }


def _dot(drawing: Drawing) -> str:
    ids = {name: f"n{number}" for number, name in enumerate(drawing.nodes)}
    # dot's own searches, bounded: they would take minutes for a thousand boxes
    limits = " nslimit=2 nslimit1=2 mclimit=0.5 maxiter=50" if drawing.curved else ""
    lines = [
        "digraph figure {",
        f"graph [rankdir=BT{limits} nodesep=0.22 ranksep=0.23 pad=0]",
        'node [shape=box fixedsize=true label="" margin=0]',
    ]
    for name, sides in drawing.nodes.items():
        width, height = (side / graphviz.POINTS for side in sides)
        lines.append(f"{ids[name]} [width={width:.4f} height={height:.4f}]")
    for frame, members in drawing.frames.items():
        lines += [f"subgraph cluster_{frame} {{", f"graph [margin={_MARGIN} {_HEADER}]"]
        lines += [ids[name] for name in members]
    return "\n".join([*lines, *["}"] * len(drawing.frames), *_dot_edges(drawing, ids), "}"]) + "\n"


def _dot_edges(drawing: Drawing, ids: Mapping[str, str]) -> Iterator[str]:
    """Edges from one step to the next are short and straight, the others go around."""
    step: dict[str, int] = {}
    for name in drawing.nodes:
        inputs = [source for source, target, _ in drawing.edges if target == name]
        step[name] = 1 + max((step.get(source, 0) for source in inputs), default=0)
    for source, target, tensor in drawing.edges:
        far = tensor or step[target] - step[source] != 1
        yield f"{ids[source]} -> {ids[target]} [weight={1 if far and step[source] > 1 else 12}]"


def _geometry(drawing: Drawing, layout: Mapping) -> dict:
    _, _, width, height = map(float, layout["bb"].split(","))
    objects = {entry["name"]: entry for entry in layout["objects"]}
    ids = {name: f"n{number}" for number, name in enumerate(drawing.nodes)}
    nodes, frames, edges = {}, {}, []
    for name, (wide, high) in drawing.nodes.items():
        x, y = map(float, objects[ids[name]]["pos"].split(","))
        nodes[name] = _round(x - wide / 2, height - y - high / 2, wide, high)
    for frame in drawing.frames:
        left, low, right, top = map(float, objects[f"cluster_{frame}"]["bb"].split(","))
        frames[frame] = _round(left, height - top, right - left, top - low)
    positions: dict[tuple[int, int], list[str]] = {}  # Graphviz's edges have an order of their own
    for entry in layout["edges"]:
        positions.setdefault((entry["tail"], entry["head"]), []).append(entry["pos"])
    for source, target, tensor in drawing.edges:
        if drawing.curved:
            ends = objects[ids[source]]["_gvid"], objects[ids[target]]["_gvid"]
            tip, *rest = positions[ends].pop(0).split(" ")  # the arrow's tip is the last point
            pairs = [map(float, at.split(",")) for at in (*rest, tip.removeprefix("e,"))]
            points = [number for x, y in pairs for number in _round(x, height - y)]
        else:
            # the other boxes, and the frames that neither end is in
            obstacles = [box for name, box in nodes.items() if name not in (source, target)]
            for frame, members in drawing.frames.items():
                obstacles += [frames[frame]] * {source, target}.isdisjoint(members)
            points = right_angles(nodes[source], nodes[target], obstacles)
        edges.append([source, target, tensor, points])
    return {"size": _round(width, height), "nodes": nodes, "frames": frames, "edges": edges}


def right_angles(source: Box, target: Box, obstacles: Sequence[Box]) -> list[float]:
    """Route an edge upwards to another box, around obstacles; return its corners, x and y in turn.

    Graphviz's own `splines=ortho` ignores frames, and in Graphviz 2.42 it may end in an assertion.
    """
    start, end = source[1], target[1] + target[3]
    between = [
        (left - _GAP, left + width + _GAP)
        for left, top, width, height in obstacles
        if top < start and top + height > end
    ]
    shared = max(source[0], target[0]), min(source[0] + source[2], target[0] + target[2])
    low, high = max(_free(*shared, between), key=lambda part: part[1] - part[0])
    if high > low:
        x = (low + high) / 2
        return _round(x, start, x, end)
    centres = source[0] + source[2] / 2, target[0] + target[2] / 2
    if not between:
        middle = (start + end) / 2
        return _round(centres[0], start, centres[0], middle, centres[1], middle, centres[1], end)
    low, high = min(low for low, _ in between), max(high for _, high in between)
    x = low if sum(centres) < low + high + 2 else high  # left, where it is no farther
    points = [*_leave(source, x, start), *reversed(_leave(target, x, end))]
    return _round(*(number for point in points for number in point))


def _free(
    low: float, high: float, taken: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """Yield the parts of a range between those that are taken; the last may be empty."""
    for first, last in sorted(taken):
        if last > low:
            yield low, min(first, high)
            low = last
    yield low, high


def _leave(box: Box, x: float, edge: float) -> list[tuple[float, float]]:
    """Return the way from a box to a vertical line at x: from its edge, or out of its side."""
    left, top, width, height = box
    if left < x < left + width:
        return [(x, edge)]
    middle = top + height / 2
    return [(left if x <= left else left + width, middle), (x, middle)]


def _round(*numbers: float) -> list[float]:
    return [round(number, 1) for number in numbers]
