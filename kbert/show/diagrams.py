"""Diagrams of a graph's rows in every detail: PNG, SVG and PDF by Graphviz, DOT and Mermaid."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kbert.graph import names
from kbert.graph.closed_form import Row, sources
from kbert.io import palette
from kbert.io.file_kinds import DOT_BEGINNING, MERMAID_BEGINNING, mark_picture
from kbert.show import graphviz
from kbert.show.graphviz import POINTS

# In an SVG, where the reader's system is dark.
_DARK_LOOKS = f"""
.kbert polygon {{ fill: {palette.PAPER.dark} }}
.kbert text {{ fill: {palette.INK.dark} }}
.kbert .edge text {{ fill: {palette.DIM.dark} }}
.kbert .edge path {{ stroke: {palette.EDGE.dark} }}
.kbert .edge polygon {{ fill: {palette.EDGE.dark}; stroke: {palette.EDGE.dark} }}
.kbert .cluster path {{ fill: {palette.BLOCK[0].dark}; stroke: {palette.EDGE.dark} }}
"""
_HIDDEN_STATES = "hidden states"  # the type of the row that stands for a block's input
_KIND_OF_TYPE = {
    "InputLayer": "input",
    _HIDDEN_STATES: "input",
    "TokenEmbedding": "embedding",
    "Embedding": "embedding",
    "PositionEmbedding": "embedding",
    "MultiHeadAttention": "attention",
    "FeedForward": "feedforward",
    "Add": "joint",
    "Dropout": "joint",
    "LayerNormalization": "joint",
    "Dense": "head",
    "Extract": "head",
}
_RIGHT_ANGLES = "splines=ortho"
_INK, _LINE = palette.INK.light, palette.DIM.light
_PAPER, _FRAME = palette.PAPER.light, palette.FRAME.light
_FONTS = "DejaVu Sans,Verdana,Arial,sans-serif"  # the others where an SVG's reader lacks DejaVu

_N = names.encoder("n", "")  # begins the names of the block that stands for all
_INPUT_N = names.encoder("n", "Input")
_OUTPUT_N = names.encoder("n", names.FEED_FORWARD, "Norm")
_PREVIOUS = names.encoder("(n-1)", names.FEED_FORWARD, "Norm")


def draw_diagram(layers: Sequence[Row], ending: str, *, collapse: bool) -> bytes:
    """Return the diagram of a graph's rows as a file with an ending."""
    layers, blocks = collapse_blocks(layers) if collapse else (layers, 0)
    if ending == ".mmd":
        return to_mermaid(layers, blocks).encode()
    if ending == ".dot":
        return to_dot(layers, blocks).encode()
    return mark_picture(_draw(to_dot(layers, blocks), ending), ending)


def _draw(dot: str, ending: str) -> bytes:
    """Draw with right angles, or with curves if Graphviz fails at those.

    Graphviz 2.42 ends in an assertion (maze.c, trapezoid.c) for some sizes of boxes.
    """
    try:
        picture = graphviz.draw(dot, ending[1:])
    except RuntimeError:
        if _RIGHT_ANGLES not in dot:
            raise
        picture = graphviz.draw(dot.replace(_RIGHT_ANGLES, "splines=spline"), ending[1:])
    if ending != ".svg":
        return picture
    # the style of a dark system, and a class that keeps it in this picture
    kinds = "".join(
        f".kbert .node.{kind} path {{ fill: {fill.dark}; stroke: {line.dark} }}\n"
        for kind, (fill, line) in palette.KINDS.items()
    )
    style = f"<style>@media (prefers-color-scheme: dark) {{{_DARK_LOOKS}{kinds}}}</style>\n"
    graph = b'<g id="graph0" class="graph'
    return picture.replace(graph, style.encode() + graph + b" kbert", 1)


def collapse_blocks(layers: Sequence[Row]) -> tuple[tuple[Row, ...], int]:
    """Return the rows with a single encoder block, named `Encoder-n-…`, and how many it stands for.

    An additional row, `Encoder-n-Input`, is the input of block n, for its skip connection too. The
    rows are returned unchanged, with 0, if blocks differ or are not consecutive, or if something
    other than the next block reads a block before the last.
    """
    blocks: dict[int, list[Row]] = {}
    for row in layers:
        number = names.block_of(row.layer)
        blocks.setdefault(number, []).append(row)
    outside = blocks.pop(0, [])
    count = len(blocks)
    last = names.encoder_output(count)

    block_n = _find_common_block(blocks, outside, last)
    if block_n is None:
        return tuple(layers), 0

    shape = block_n[-1].output_shape
    embeddings = f"{names.EMBEDDING_NORM}[0][0]"
    inside = [Row(_INPUT_N, _HIDDEN_STATES, shape, 0, embeddings)]
    inside += [_rename(row, {_PREVIOUS: _INPUT_N}) for row in block_n]
    outside = [_rename(row, {last: _OUTPUT_N}) for row in outside]

    numbers = [names.block_of(row.layer) for row in layers]
    first = next(index for index, number in enumerate(numbers) if number)
    return (*outside[:first], *inside, *outside[first:]), count


def _find_common_block(
    blocks: dict[int, list[Row]], outside: Sequence[Row], last: str
) -> tuple[Row, ...] | None:
    """Return the rows of block n that stand for all blocks; None if no such rows can.

    `outside` are the rows of no block, and `last` is the output of the last block.
    """
    alike = {_rename_block(number, block) for number, block in blocks.items()}
    if len(blocks) < 2 or len(alike) > 1:
        return None

    (block_n,) = alike
    if _PREVIOUS not in _list_sources(block_n):
        return None
    for source in _list_sources(outside):
        if names.block_of(source) and source != last:
            return None
    return block_n


def _rename_block(number: int, block: Sequence[Row]) -> tuple[Row, ...]:
    """Return a block's rows as those of block n, which reads the output of block n-1."""
    prefix = names.encoder(number, "")
    new = {row.layer: _N + row.layer.removeprefix(prefix) for row in block}
    new[names.encoder_output(number - 1)] = _PREVIOUS
    return tuple(_rename(row, new) for row in block)


def _list_sources(layers: Sequence[Row]) -> set[str]:
    """Return the names of all layers that some layers read."""
    read: set[str] = set()
    for row in layers:
        read.update(source for source, _ in sources(row))
    return read


def to_dot(layers: Sequence[Row], blocks: int = 0) -> str:
    """Return the graph in Graphviz's language, from bottom to top; node ids are layer names.

    `blocks` is the number of blocks that the rows named `Encoder-n-…` stand for; 0: no frame.
    """
    framed, unframed = _split(layers, blocks)
    # one width for the layers of all blocks, so that edges are straight
    widths = [_width(row) for row in layers if _is_in_block(row)]
    width = max(widths, default=0.0)
    # right angles run together in a graph of many blocks
    way = _RIGHT_ANGLES if framed else "splines=spline"
    lines = [
        f'{DOT_BEGINNING} {way} bgcolor="{_PAPER}" pad=0.15 nodesep=0.25 ranksep=0.22 '
        f'fontname="{_FONTS}" fontsize=9 fontcolor="{_INK}"]',
        'node [shape=box style="rounded,filled" margin="0.11,0.05" height=0 penwidth=1.2 '
        f'fontname="{_FONTS}" fontsize=9 fontcolor="{_INK}"]',
        f'edge [color="{_LINE}" arrowsize=0.6 fontname="{_FONTS}" fontsize=9 fontcolor="{_LINE}"]',
    ]
    lines += [_dot_node(row, width) for row in unframed]
    if framed:
        lines += _dot_frame(framed, blocks, width)
    lines += _dot_edges(layers, bool(framed))
    lines.append("}")
    return "\n".join(lines) + "\n"


def _dot_frame(framed: Sequence[Row], blocks: int, width: float) -> list[str]:
    """Return the frame of the block that stands for all, with its layers."""
    count, which, params, total = _frame_facts(framed, blocks)
    left = width * POINTS / 2 + 16  # two columns, and space for the block's incoming edge
    label = (
        '<table border="0" cellspacing="0" cellpadding="0"><tr>'
        f'<td width="{left:.0f}" align="left" balign="left">'
        f'<b><font point-size="16">{count}</font></b><br/>{which}</td>'
        f'<td align="left" balign="left">{params}<br/>{total}</td></tr></table>'
    )
    return [
        "subgraph cluster_block {",
        f'graph [style="rounded,filled" color="{_LINE}" fillcolor="{_FRAME}" margin=12 '
        f"labelloc=t labeljust=l label=<{label}>]",
        *(_dot_node(row, width) for row in framed),
        "}",
    ]


def to_mermaid(layers: Sequence[Row], blocks: int = 0) -> str:
    """Return the graph as a Mermaid flowchart, from bottom to top; `blocks` as in `to_dot`."""
    ids = {row.layer: f"n{number}" for number, row in enumerate(layers)}
    framed, unframed = _split(layers, blocks)
    lines = [MERMAID_BEGINNING]
    lines += [_mermaid_node(row, ids) for row in unframed]
    if framed:
        lines += [
            f'subgraph block["{" · ".join(_frame_facts(framed, blocks))}"]',
            *(_mermaid_node(row, ids) for row in framed),
            "end",
            f"style block fill:{_FRAME},stroke:{_LINE},color:{_INK}",
        ]

    for source, target, label in _edges(layers):
        arrow = f"-->|{label}|" if label else "-->"
        lines.append(f"{ids[source]} {arrow} {ids[target]}")
    for kind, (fill, line) in palette.KINDS.items():
        lines.append(f"classDef {kind} fill:{fill.light},stroke:{line.light},color:{_INK}")
    return "\n".join(lines) + "\n"


def _rename(row: Row, new: dict[str, str]) -> Row:
    connections = []
    for connection in row.connected_to.split(", "):
        name, bracket, index = connection.partition("[")
        connections.append(new.get(name, name) + bracket + index)
    layer = new.get(row.layer, row.layer)
    return replace(row, layer=layer, connected_to=", ".join(connections))


def _split(layers: Sequence[Row], blocks: int) -> tuple[list[Row], list[Row]]:
    """Split the rows into those inside the frame, if there is one, and the others."""
    framed = [row for row in layers if blocks and row.layer.startswith(_N)]
    return framed, [row for row in layers if row not in framed]


def _edges(layers: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    """Yield each edge's source, target and label; a layer's first output needs no label."""
    for row in layers:
        for source, tensor in sources(row):
            label = "table" if source == names.TOKEN_EMBEDDING else f"output {tensor}"
            yield source, row.layer, label if tensor else ""


def kind_of(layer: str, type_: str) -> str:
    """Return the kind of a layer, which sets its colour, by its name and type."""
    kind = _KIND_OF_TYPE.get(type_, "other")
    return "mlm" if layer.startswith(names.MLM) and kind in ("head", "other") else kind


def _facts(row: Row) -> list[str]:
    """Return the lines below a layer's name; several output shapes get a line each."""
    params = [f"{row.params:,}"] if row.params else []
    if row.output_shape.startswith("["):
        return [" · ".join([row.type, *params]), row.output_shape]
    return [" · ".join([row.type, row.output_shape, *params])]


def _frame_facts(framed: Sequence[Row], blocks: int) -> tuple[str, str, str, str]:
    params = sum(row.params for row in framed)
    total = f"{blocks * params:,} in all"
    return f"× {blocks}", f"Encoder n = 1 … {blocks}", f"{params:,} params each", total


def _width(row: Row) -> float:
    """Return a layer's minimum width in inches; Graphviz underestimates that of bold letters."""
    # in points: DejaVu's letters in layer names and facts, and a margin on both sides
    name = 6.5 * len(row.layer)
    facts = 5 * max(len(text) for text in _facts(row))
    return round((max(name, facts) + 18) / POINTS, 2)


def _is_in_block(row: Row) -> bool:
    return bool(names.block_of(row.layer)) or row.layer.startswith(_N)


def _dot_node(row: Row, block_width: float) -> str:
    title = html.escape(row.layer, quote=False)
    facts = [html.escape(text, quote=False) for text in _facts(row)]
    label = "<br/>".join([f'<b><font point-size="10">{title}</font></b>', *facts])

    kind = kind_of(row.layer, row.type)
    fill, line = palette.KINDS[kind]
    width = block_width if _is_in_block(row) else _width(row)
    looks = f'class={kind} fillcolor="{fill.light}" color="{line.light}" width={width}'
    name = _quote(row.layer)
    return f"{name} [id={name} {looks} label=<{label}>]"


def _dot_edges(layers: Sequence[Row], framed: bool) -> Iterator[str]:
    """Yield the edges: those to the next step short and straight, the others curved around."""
    step: dict[str, int] = {}
    for row in layers:
        # a layer that is used twice may come before what it reads, or read itself
        steps_of_sources = [step.get(source, 0) for source, _ in sources(row)]
        step[row.layer] = 1 + max(steps_of_sources, default=0)

    for source, target, label in _edges(layers):
        looks = "weight=12"
        if label:
            looks = f'weight=1 taillabel="{label}" labelangle=-45 labeldistance=2.2'
        elif step[source] > 1 and step[target] - step[source] != 1:
            looks = "weight=1" if framed else "weight=0 tailport=e headport=e"
        yield f"{_quote(source)} -> {_quote(target)} [{looks}]"


def _mermaid_node(row: Row, ids: dict[str, str]) -> str:
    name = _escape_mermaid(row.layer)
    facts = [_escape_mermaid(text) for text in _facts(row)]
    text = "<br/>".join([f"<b>{name}</b>", *facts])
    return f'{ids[row.layer]}["{text}"]:::{kind_of(row.layer, row.type)}'


def _escape_mermaid(text: str) -> str:
    escaped = html.escape(text.replace("#", "#35;"), quote=False)
    return escaped.replace('"', "#quot;")


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
