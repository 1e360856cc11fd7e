"""The figure's geometry in every state of the encoder, laid out by Graphviz when a page is written.

The encoder is drawn closed, as one box for all blocks, or with one block open between those before
and after it; its attention closed, as one box, or open. Boxes have fixed sizes, so that neither
fonts nor numbers move them, and block {n} stands for any.
"""

import itertools
from collections.abc import Mapping, Sequence

from kbert.graph import names
from kbert.graph.closed_form import sources
from kbert.show.explorer.counting import AFTER, ATTENTION_PARTS, BEFORE, BLOCK
from kbert.show.explorer.drawing import Drawing, Edge, geometries

ENCODER, BLOCKS_BEFORE, BLOCKS_AFTER = "encoder", "blocks-before", "blocks-after"
ATTENTION = names.encoder("{n}", names.ATTENTION)
OUTPUT = names.encoder("{n}", names.FEED_FORWARD, "Norm")

# Of a box, in points: those of a block share one width, so that their edges run straight.
_PLAIN = ("InputLayer", "Dropout", "Add", "LayerNormalization", "Extract", "Gather", "Masked")
_HIGH, _LOW = 46, 28
_INPUT_WIDTH, _BLOCK_WIDTH = 196, 258
_WIDTHS = {BEFORE: 238, BLOCK: _BLOCK_WIDTH, AFTER: 196}
_PILL = (_BLOCK_WIDTH, 54)
_CLOSED = (_BLOCK_WIDTH + 28, 92)
_PART_SIZES = {"heads": (320, 66), "attention_output": (_BLOCK_WIDTH, 46)}  # others: 96 × 46

# By its key, a state of the figure: whether a block is open, whether blocks come before and after
# it, and whether its attention is open.
STATES = {"closed": (False, False, False, False)} | {
    f"{before:d}{after:d}{attention:d}": (True, before, after, attention)
    for before, after, attention in itertools.product((False, True), repeat=3)
}


def figure_data(graphs: Mapping[str, Mapping[str, Sequence]]) -> dict[str, dict]:
    """Return the geometry of each graph in each state, by "graph/state"."""
    drawings = {}
    for kind, layers in graphs.items():
        for key, state in STATES.items():
            drawings[f"{kind}/{key}"] = _draw(layers, *state)
    return geometries(drawings)


def _draw(
    layers: Mapping[str, Sequence], is_open: bool, before: bool, after: bool, attention: bool
) -> Drawing:
    if is_open:
        block, last = _size_boxes(layers, BLOCK, attention), OUTPUT
    else:
        block, last = {ENCODER: _CLOSED}, ENCODER
    first = BLOCKS_BEFORE if before else names.EMBEDDING_NORM
    if after:
        last = BLOCKS_AFTER
    boxes = {"{hidden}": first, "{last}": last}  # where a row's input is drawn
    if attention:
        boxes[ATTENTION] = f"{ATTENTION}/attention_output"

    nodes = _size_boxes(layers, BEFORE)
    edges: list[Edge] = []
    if before or not is_open:
        edges.append((names.EMBEDDING_NORM, BLOCKS_BEFORE if before else ENCODER, 0))
    if before:
        nodes[BLOCKS_BEFORE] = _PILL
    nodes |= block
    if is_open:
        edges += _connect(layers[BLOCK], boxes)
    if after:
        nodes[BLOCKS_AFTER] = _PILL
        edges.append((OUTPUT, BLOCKS_AFTER, 0))
    nodes |= _size_boxes(layers, AFTER)
    edges += _connect([*layers[BEFORE], *layers[AFTER]], boxes)

    frames = {"block": list(block)} if is_open else {}
    if attention:
        frames["attention"] = [name for name in block if name.startswith(f"{ATTENTION}/")]
    return Drawing(nodes, edges, frames)


def _size_boxes(layers: Mapping[str, Sequence], section: str, attention: bool = False) -> dict:
    """Return the sizes of a section's boxes, with the parts of the attention if it is open."""
    sizes: dict[str, tuple[int, int]] = {}
    for row in layers[section]:
        if attention and row.name == ATTENTION:
            for part in ATTENTION_PARTS:
                sizes[f"{ATTENTION}/{part.name}"] = _PART_SIZES.get(part.name, (96, 46))
        else:
            width = _INPUT_WIDTH if row.type == "InputLayer" else _WIDTHS[section]
            sizes[row.name] = width, _LOW if row.type in _PLAIN else _HIGH
    return sizes


def _connect(layers: Sequence, boxes: Mapping[str, str]) -> list[Edge]:
    """Return the edges to some layers, through the parts of the attention if it is open."""
    edges: list[Edge] = []
    for row in layers:
        for name, tensor in sources(row):
            source = boxes.get(name, name)
            if row.name not in boxes:
                edges.append((source, row.name, tensor))
                continue
            projections = [f"{ATTENTION}/{part}" for part in ("query", "key", "value")]
            heads = f"{ATTENTION}/heads"
            edges += [(source, projection, tensor) for projection in projections]
            edges += [(projection, heads, 0) for projection in projections]
            edges.append((heads, boxes[ATTENTION], 0))
    return edges
