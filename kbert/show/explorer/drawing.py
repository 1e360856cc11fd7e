"""Boxes, edges and frames laid out from bottom to top by Graphviz: plain numbers, no picture."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    dots = [_dot(drawing) for drawing in drawings.values()]
    layouts = graphviz.layouts(dots)
    described = {}
    for key, layout in zip(drawings, layouts, strict=True):
        described[key] = _geometry(drawings[key], layout)
    return described


def _dot(drawing: Drawing) -> str:
    ids = {name: f"n{number}" for number, name in enumerate(drawing.nodes)}
    # dot's own searches, bounded: they would take minutes for a thousand boxes
    limits = " nslimit=2 nslimit1=2 mclimit=0.5 maxiter=50" if drawing.curved else ""
    lines = [
        "digraph figure {",
        f"graph [rankdir=BT{limits} nodesep=0.22 ranksep=0.23 pad=0]",
        'node [shape=box fixedsize=true label="" margin=0]',
    ]
    for name, (width, height) in drawing.nodes.items():
        inches = width / graphviz.POINTS, height / graphviz.POINTS
        lines.append(f"{ids[name]} [width={inches[0]:.4f} height={inches[1]:.4f}]")

    for frame, members in drawing.frames.items():
        lines.append(f"subgraph cluster_{frame} {{")
        lines.append(f"graph [margin={_MARGIN} {_HEADER}]")
        lines += [ids[name] for name in members]
    lines += ["}"] * len(drawing.frames)  # each lies in the one before

    lines += _dot_edges(drawing, ids)
    lines.append("}")
    return "\n".join(lines) + "\n"


def _dot_edges(drawing: Drawing, ids: Mapping[str, str]) -> Iterator[str]:
    """Edges from one step to the next are short and straight, the others go around."""
    step: dict[str, int] = {}
    for name in drawing.nodes:
        step_before = 0
        for source, target, _ in drawing.edges:
            if target == name:
                step_before = max(step_before, step.get(source, 0))
        step[name] = step_before + 1

    for source, target, tensor in drawing.edges:
        is_next = not tensor and step[target] - step[source] == 1
        is_from_input = step[source] <= 1
        weight = 12 if is_next or is_from_input else 1
        yield f"{ids[source]} -> {ids[target]} [weight={weight}]"


def _geometry(drawing: Drawing, layout: Mapping) -> dict:
    _, _, width, height = _numbers(layout["bb"])
    objects = {entry["name"]: entry for entry in layout["objects"]}
    objects_of_boxes = {}
    for number, name in enumerate(drawing.nodes):
        objects_of_boxes[name] = objects[f"n{number}"]

    nodes = {}
    for name, (wide, high) in drawing.nodes.items():
        box = objects_of_boxes[name]
        x, y = _numbers(box["pos"])  # the middle; y grows upwards
        left = x - wide / 2
        top = height - y - high / 2
        nodes[name] = _round(left, top, wide, high)

    frames = {}
    for frame in drawing.frames:
        cluster = objects[f"cluster_{frame}"]
        left, low, right, high = _numbers(cluster["bb"])
        frames[frame] = _round(left, height - high, right - left, high - low)

    if drawing.curved:
        edges = _curve_edges(drawing, objects_of_boxes, layout["edges"], height)
    else:
        edges = _route_edges(drawing, nodes, frames)
    return {
        "size": _round(width, height),
        "nodes": nodes,
        "frames": frames,
        "edges": edges,
    }


def _curve_edges(
    drawing: Drawing, objects: Mapping[str, Mapping], laid: Sequence[Mapping], height: float
) -> list[list]:
    """Return the edges as Graphviz laid them, in the drawing's order instead of Graphviz's."""
    positions: dict[tuple[int, int], list[str]] = {}
    for entry in laid:
        ends = entry["tail"], entry["head"]
        positions.setdefault(ends, []).append(entry["pos"])

    edges = []
    for source, target, tensor in drawing.edges:
        ends = objects[source]["_gvid"], objects[target]["_gvid"]
        position_text = positions[ends].pop(0)
        tip, *rest = position_text.split(" ")  # the arrow's tip is the last point
        points: list[float] = []
        for position in [*rest, tip.removeprefix("e,")]:
            x, y = _numbers(position)
            points += _round(x, height - y)
        edges.append([source, target, tensor, points])
    return edges


def _route_edges(
    drawing: Drawing, nodes: Mapping[str, Box], frames: Mapping[str, Box]
) -> list[list]:
    """Return the edges with right angles, around other boxes and frames that neither end is in."""
    edges = []
    for source, target, tensor in drawing.edges:
        obstacles = [box for name, box in nodes.items() if name not in (source, target)]
        for frame, members in drawing.frames.items():
            if source not in members and target not in members:
                obstacles.append(frames[frame])
        points = right_angles(nodes[source], nodes[target], obstacles)
        edges.append([source, target, tensor, points])
    return edges


def right_angles(source: Box, target: Box, obstacles: Sequence[Box]) -> list[float]:
    """Route an edge upwards to another box, around obstacles; return its corners, x and y in turn.

    Graphviz's own `splines=ortho` ignores frames, and in Graphviz 2.42 it may end in an assertion.
    """
    source_left, start, source_width, _ = source
    target_left, target_top, target_width, target_height = target
    end = target_top + target_height
    between = []
    for left, top, width, height in obstacles:
        if top < start and top + height > end:
            between.append((left - _GAP, left + width + _GAP))

    # straight up, where both boxes have free room above each other
    left = max(source_left, target_left)
    right = min(source_left + source_width, target_left + target_width)
    low, high = _find_widest(_free(left, right, between))
    if high > low:
        x = (low + high) / 2
        return _round(x, start, x, end)

    # from centre to centre, where nothing is between
    source_x = source_left + source_width / 2
    target_x = target_left + target_width / 2
    if not between:
        middle = (start + end) / 2
        return _round(source_x, start, source_x, middle, target_x, middle, target_x, end)

    # around all of it; at the left, where that is no farther
    low = min(left for left, _ in between)
    high = max(right for _, right in between)
    is_left_nearer = source_x + target_x < low + high + 2
    x = low if is_left_nearer else high
    points = _leave(source, x, start)
    points += reversed(_leave(target, x, end))
    return _round(*itertools.chain.from_iterable(points))


def _find_widest(ranges: Iterable[tuple[float, float]]) -> tuple[float, float]:
    return max(ranges, key=lambda ends: ends[1] - ends[0])


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


def _numbers(text: str) -> list[float]:
    """Return Graphviz's numbers, which commas divide."""
    return [float(number) for number in text.split(",")]


def _round(*numbers: float) -> list[float]:
    return [round(number, 1) for number in numbers]
