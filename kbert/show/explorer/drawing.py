"""Boxes, edges and frames laid out from bottom to top by Graphviz: plain numbers, no picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kbert.show import graphviz

_MARGIN = 14  # points between a frame and what is in it
_HEADER = 14  # points of a frame's own text, at its top


@dataclass(frozen=True)
class Drawing:
    """What is to be laid out; sizes are in points.

    Attributes:
        nodes: (width, height) of each box by its name.
        edges: (from, to, which output).
        frames: by name the boxes in each frame; a frame lies in the one before it.
        curved: edges as curves, for graphs that have many; else at right angles.
    """

    nodes: Mapping[str, tuple[float, float]]
    edges: Sequence[tuple[str, str, int]]
    frames: Mapping[str, Sequence[str]]
    curved: bool = False


def geometries(drawings: Mapping[str, Drawing]) -> dict[str, dict]:
    """Each drawing's geometry, y downwards, in points.

    `size` is (width, height); `nodes` and `frames` have [left, top, width, height] by name; `edges`
    are [from, to, output, points], the corners of a line, or of a curve its Bézier points.

    Raises:
        ImportError, RuntimeError: as `kbert.show.graphviz.layouts`.
    """
    found = graphviz.layouts([_dot(drawing) for drawing in drawings.values()])
    return {
        key: _geometry(drawing, layout)
        for (key, drawing), layout in zip(drawings.items(), found, strict=True)
    }


def _dot(drawing: Drawing) -> str:
    ids = _ids(drawing)
    # dot's own searches, bounded: they would take minutes for a thousand boxes
    way = "true nslimit=2 nslimit1=2 mclimit=0.5 maxiter=50" if drawing.curved else "ortho"
    lines = [
        "digraph figure {",
        f"graph [rankdir=BT splines={way} nodesep=0.22 ranksep=0.23 pad=0]",
        'node [shape=box fixedsize=true label="" margin=0]',
    ]
    for name, (width, height) in drawing.nodes.items():
        inches = (width / graphviz.POINTS, height / graphviz.POINTS)
        lines.append(f"{ids[name]} [width={inches[0]:.4f} height={inches[1]:.4f}]")
    frames = drawing.frames.items()
    for frame, members in frames:
        lines += [f"subgraph cluster_{frame} {{", f"graph [margin={_MARGIN} {_header()}]"]
        lines += [ids[name] for name in members]
    return "\n".join([*lines, *("}" for _ in frames), *_dot_edges(drawing, ids), "}"]) + "\n"


def _header() -> str:
    """Room for a frame's text: an empty table, which has no font. Bottom to top, b is the top."""
    cell = f'<td width="1" height="{_HEADER}" fixedsize="true"></td>'
    return (
        'labelloc=b labeljust=l label=<<table border="0" cellborder="0" cellspacing="0" '
        f'cellpadding="0"><tr>{cell}</tr></table>>'
    )


def _ids(drawing: Drawing) -> dict[str, str]:
    return {name: f"n{place}" for place, name in enumerate(drawing.nodes)}


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
    nodes, frames = {}, {}
    for name, place in _ids(drawing).items():
        x, y = map(float, objects[place]["pos"].split(","))
        wide, high = drawing.nodes[name]
        nodes[name] = _rounded(x - wide / 2, height - y - high / 2, wide, high)
    for frame in drawing.frames:
        left, low, right, top = map(float, objects[f"cluster_{frame}"]["bb"].split(","))
        frames[frame] = _rounded(left, height - top, right - left, top - low)
    drawn = _positions(layout["edges"])
    ids = _ids(drawing)
    edges = []
    for source, target, tensor in drawing.edges:
        position = drawn[objects[ids[source]]["_gvid"], objects[ids[target]]["_gvid"]].pop(0)
        points = _points(position, height, drawing.curved)
        edges.append([source, target, tensor, _framed(points, {source, target}, drawing, frames)])
    size = _rounded(width, height)
    return {"size": size, "nodes": nodes, "frames": frames, "edges": edges}


def _positions(edges: Sequence[Mapping]) -> dict[tuple[int, int], list[str]]:
    """The edges' points by their two ends; Graphviz gives the edges in an order of its own."""
    found: dict[tuple[int, int], list[str]] = {}
    for entry in edges:
        found.setdefault((entry["tail"], entry["head"]), []).append(entry["pos"])
    return found


def _framed(points: list[float], ends: set[str], drawing: Drawing, frames: Mapping) -> list[float]:
    """A line beside the frames that it passes, and within those that it goes into.

    At right angles Graphviz sees the boxes alone.
    """
    for name, (left, top, width, height) in frames.items():
        inside = ends & set(drawing.frames[name])
        if drawing.curved or ends == inside:
            continue
        near_left, near_right = left + _MARGIN / 2, left + width - _MARGIN / 2
        for place in range(0, len(points) - 2, 2):
            x, first, other, second = points[place : place + 4]
            if x != other:
                continue
            if inside and not near_left <= x <= near_right:
                x = near_left if x < near_left else near_right
            elif not inside and min(first, second) < top and max(first, second) > top + height:
                x = _beside(x, left, width)
            points[place] = points[place + 2] = x
    return points


def _beside(x: float, left: float, width: float) -> float:
    if not left - 3 < x < left + width + 3:
        return x
    return left - _MARGIN / 2 if x < left + width / 2 else left + width + _MARGIN / 2


def _points(position: str, height: float, curved: bool) -> list[float]:
    """An edge's points, its arrow's tip the last; those of a line are its corners alone."""
    tip, *rest = position.split(" ")
    points = [tuple(map(float, point.split(","))) for point in (*rest, tip.removeprefix("e,"))]
    flipped = [(round(x, 1), round(height - y, 1)) for x, y in points]
    return [number for point in (flipped if curved else _corners(flipped)) for number in point]


def _corners(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for point in points:
        if found and max(abs(a - b) for a, b in zip(point, found[-1], strict=True)) < 0.2:
            continue
        if len(found) > 1 and _on_a_line(found[-2], found[-1], point):
            found.pop()
        found.append(point)
    return found


def _on_a_line(a, b, c) -> bool:
    return any(abs(a[axis] - b[axis]) < 0.3 > abs(b[axis] - c[axis]) for axis in (0, 1))


def _rounded(*numbers: float) -> list[float]:
    return [round(number, 1) for number in numbers]
