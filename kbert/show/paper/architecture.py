"""The architecture of a graph as in the papers: bottom-up, one box per step, dropout hidden.

Vaswani et al. 2017 (arXiv 1706.03762), figure 1, is the model: a block stands once, with its number
at the left; an addition and its normalization are one box; residual connections run beside it.
"""

from collections.abc import Sequence
from dataclasses import replace

from kbert.graph import closed_form, names
from kbert.graph.closed_form import Row, sources
from kbert.graph.spec import GraphSpec
from kbert.show.paper.placing import compose_figure, compose_slide, find_bounds, move
from kbert.show.paper.shapes import COLUMN, LINE_HEIGHT, Box, Drawing, Line, Shape, Text, sum_sign

# Names without prefixes, where a layer's own is not plain.
_TITLES = {
    names.TOKEN_EMBEDDING: ("Token", "Embedding"),
    names.SEGMENT_EMBEDDING: ("Segment", "Embedding"),
    names.POSITION_EMBEDDING: ("Position", "Embedding"),
    names.ATTENTION: ("Multi-Head", "Self-Attention"),
    names.FEED_FORWARD: ("Feed Forward",),
    names.QUERIES: ("Queries",),
    names.MLM_SIMILARITY: ("Similarity",),
    names.MLM: ("Mask",),
    names.FIRST_TOKEN: ("First Token",),
    names.FIRST_TOKENS: ("First Tokens",),
    names.SPAN_START: ("Extract",),
    names.SPAN_END: ("Extract",),
}
_TITLES_OF_TYPES = {
    "LayerNormalization": ("Norm",),
    "Gather": ("Gather",),
    "Slice": ("Slice",),
}
_INPUTS = {
    names.TOKEN_IDS: ("Token ids",),
    names.SEGMENT_IDS: ("Segment ids",),
    names.MASKED: ("Masked",),
    names.MASKED_POSITIONS: ("Positions",),
    names.PACKED_POSITIONS: ("Positions",),
    names.PACKED_TEXTS: ("texts",),
    names.PACKED_FIRSTS: ("First", "tokens"),
}
_OUTPUTS = {
    names.MLM: ("Masked LM",),
    names.NSP: ("Next sentence",),
    names.POOLER: ("Pooled output",),
    names.CLASSIFIER: ("Classes",),
    names.TOKEN_CLASSIFIER: ("Labels of tokens",),
    names.SPAN_START: ("Start of answer",),
    names.SPAN_END: ("End of answer",),
}
_HIDDEN_STATES = ("Hidden states",)
_KINDS = {
    "MultiHeadAttention": "attention",
    "FeedForward": "feedforward",
    "LayerNormalization": "norm",
}

_ONE_LINE, _TWO_LINES = 17.0, 27.0  # heights of boxes
_GAP, _SHORT_GAP = 12.0, 8.0  # between boxes, and to the box of the same sublayer
_EMBEDDING_WIDTH, _BLOCK_WIDTH, _HEAD_WIDTH = 66.0, 104.0, 80.0
_APART = 52.0  # of each of two columns from their middle
_FRAME_WIDTH = 156.0
_EMBEDDING_BOTTOM = LINE_HEIGHT + 14
_SIGN_RADIUS = 5.5  # of the sum
_SLIDE_MARGIN = 8.0
_COLUMN_GAP = 34.0  # between the blocks and the head beside them


def draw_architecture(
    spec: GraphSpec, title: str, *, collapse: bool = True, layout: str = "tall"
) -> Drawing:
    """Return the figure of a graph: one column of a journal wide, or a slide ("wide")."""
    layers = _hide_dropouts(closed_form.rows(spec))
    before, blocks, after = _divide_layers(layers, spec.config.num_hidden_layers)

    body, top = _draw_embeddings(before)
    for count, number, block in _group(blocks, collapse):
        label = f"{count} ×" if collapse else f"{number}"
        if len(blocks) == 1:
            label = ""
        shapes, top = _draw_block(block, label, top)
        body += shapes

    last = names.encoder_output(len(blocks))
    head = _Head(after, last, spec.outputs)
    if layout == "wide":
        shapes = _draw_beside(body, top, head.draw(0.0, 0.0))
        return compose_slide(title, shapes, _SLIDE_MARGIN)
    shapes = [*body, *head.draw(0.0, top)]
    return compose_figure(title, shapes, COLUMN)


def _divide_layers(
    layers: Sequence[Row], count: int
) -> tuple[list[Row], list[list[Row]], list[Row]]:
    """Return the layers of the embeddings, those of each of so many blocks, and the head's."""
    before: list[Row] = []
    packed: list[Row] = []
    blocks: list[list[Row]] = [[] for _ in range(count)]
    after: list[Row] = []
    for row in layers:
        number = names.block_of(row.layer)
        if number:
            blocks[number - 1].append(row)
        elif row.layer.startswith(("Embedding", "Input-T", "Input-S")):
            before.append(row)
        elif row.layer in (names.PACKED_POSITIONS, names.PACKED_TEXTS):
            packed.append(row)
        else:
            after.append(row)
    return before + packed, blocks, after


def _hide_dropouts(layers: Sequence[Row]) -> list[Row]:
    """Return the layers without dropouts: what reads one reads its input instead."""
    inputs = {row.layer: sources(row)[0] for row in layers if row.type == "Dropout"}

    shown = []
    for row in layers:
        if row.layer in inputs:
            continue
        read = []
        for source in sources(row):
            name, tensor = inputs.get(source[0], source)
            read.append(f"{name}[0][{tensor}]")
        shown.append(replace(row, connected_to=", ".join(read)))
    return shown


def _draw_beside(body: list[Shape], top: float, head: list[Shape]) -> list[Shape]:
    """Return the blocks with the head at their right, and the line that leads there."""
    blocks = find_bounds(body)
    column = find_bounds(head)
    turn = blocks.right + _COLUMN_GAP / 2
    spine = blocks.right + _COLUMN_GAP - column.left
    centred = (blocks.bottom + blocks.top - column.height) / 2
    start = max(blocks.bottom, centred)

    above = top + 9  # the blocks
    inside = start + 9  # the head
    points = (
        (0.0, top),
        (0.0, above),
        (turn, above),
        (turn, start),
        (spine, start),
        (spine, inside),
    )
    way = Line(points, arrow=False)
    moved = [move(shape, spine, inside - 1) for shape in head]
    return [*body, way, *moved]


def _group(blocks: Sequence[list[Row]], collapse: bool) -> list[tuple[int, int, list[Row]]]:
    """Return how many equal blocks follow each other, the number of the first, and its rows."""
    groups: list[tuple[int, int, list[Row]]] = []
    for number, block in enumerate(blocks, 1):
        if collapse and groups:
            count, first, layers = groups[-1]
            if _kinds(layers) == _kinds(block):
                groups[-1] = (count + 1, first, layers)
                continue
        groups.append((1, number, block))
    return groups


def _kinds(block: Sequence[Row]) -> list[tuple[str, str]]:
    return [(row.type, row.output_shape) for row in block]


def _draw_embeddings(layers: Sequence[Row]) -> tuple[list[Shape], float]:
    """Return the embeddings, which are added, their norm, and the height of its top."""
    by_name = {row.layer: row for row in layers}
    has_segments = names.SEGMENT_EMBEDDING in by_name
    step = _EMBEDDING_WIDTH + 8
    # Of two embeddings the token's arrow goes straight up.
    columns = {names.TOKEN_EMBEDDING: 0.0, names.POSITION_EMBEDDING: step}
    if has_segments:
        columns = {names.TOKEN_EMBEDDING: -step, names.SEGMENT_EMBEDDING: 0.0}
        columns[names.POSITION_EMBEDDING] = step

    shapes: list[Shape] = []
    top = _EMBEDDING_BOTTOM + _TWO_LINES
    plus = top + 17  # the middle of the sign of the sum
    for name, x in columns.items():
        shapes += _draw_embedding(by_name[name], x)
        if x == 0:
            shapes.append(_rise(x, top, plus - _SIGN_RADIUS))
        else:
            side = _SIGN_RADIUS if x > 0 else -_SIGN_RADIUS
            points = ((x, top), (x, plus), (side, plus))
            shapes.append(Line(points))
    shapes += sum_sign(0.0, plus)

    start = plus + _SIGN_RADIUS
    left = -_BLOCK_WIDTH / 2
    norm = Box(left, start + _GAP, _BLOCK_WIDTH, _ONE_LINE, ("Norm",), "norm")
    shapes += [_rise(0.0, start, norm.bottom), norm]
    return shapes, norm.top


def _draw_embedding(row: Row, x: float) -> list[Shape]:
    """Return the box of an embedding with its middle at x, and below it the input that it reads."""
    bottom = _EMBEDDING_BOTTOM
    left = x - _EMBEDDING_WIDTH / 2
    box = Box(left, bottom, _EMBEDDING_WIDTH, _TWO_LINES, _title(row), "embedding")

    names_of_inputs: list[str] = []
    for source, _ in sources(row):
        names_of_inputs += _INPUTS.get(source, ())
    if not names_of_inputs:
        return [box]
    text = Text(x, LINE_HEIGHT / 2, (", ".join(names_of_inputs),))
    return [box, text, _rise(x, LINE_HEIGHT + 2, bottom)]


def _draw_block(layers: Sequence[Row], label: str, start: float) -> tuple[list[Shape], float]:
    """Return an encoder block in its frame, and the height of the frame's top."""
    frame_bottom = start + 10
    left = -_FRAME_WIDTH / 2
    shapes: list[Shape] = []
    y = start  # where the spine has come to
    fork = frame_bottom + 7  # where the residual connection leaves it
    for row in layers:
        prefix = names.encoder(names.block_of(row.layer), "")
        part = row.layer.removeprefix(prefix)
        is_attention = row.type == "MultiHeadAttention"
        if part == names.QUERIES:
            shapes += _draw_queries(row, y, fork)
            y = fork + 9 + _ONE_LINE
            fork = y + 7
        elif row.type == "Add":
            continue  # in one box with the norm that follows
        elif row.type == "LayerNormalization":
            box = _block_box(row, y + _SHORT_GAP, ("Add & Norm",))
            side = left + 11
            residual = _draw_residual(fork, side, box)
            shapes += [_rise(0.0, y, box.bottom), residual, box]
            y = box.top
            fork = y + 8
        else:
            gap = 18 if is_attention else 10
            box = _block_box(row, fork + gap)
            shapes += [_rise(0.0, y, box.bottom), box]
            if is_attention and len(sources(row)) == 1:
                shapes += _fan_out(fork + 8, box)
            y = box.top

    height = y + 10 - frame_bottom
    frame = Box(left, frame_bottom, _FRAME_WIDTH, height, (), "frame")
    if label:
        text = Text(left - 6, frame.y, (label,), "end")
        shapes.append(text)
    return [frame, *shapes], frame.top


def _draw_residual(fork: float, side: float, box: Box) -> Line:
    """Return the residual connection from the spine around a layer to the box of its sum."""
    points = (
        (0.0, fork),
        (side, fork),
        (side, box.y),
        (box.left, box.y),
    )
    return Line(points)


def _block_box(row: Row, bottom: float, lines: tuple[str, ...] = ()) -> Box:
    lines = lines or _title(row)
    height = _TWO_LINES if len(lines) == 2 else _ONE_LINE
    left = -_BLOCK_WIDTH / 2
    kind = _KINDS[row.type]
    return Box(left, bottom, _BLOCK_WIDTH, height, lines, kind)


def _fan_out(fork: float, attention: Box) -> list[Shape]:
    """Return the outer two of the three arrows to an attention: query, key and value."""
    shapes: list[Shape] = []
    for x in (-26.0, 26.0):
        points = ((0.0, fork), (x, fork), (x, attention.bottom))
        shapes.append(Line(points))
    return shapes


def _draw_queries(row: Row, y: float, fork: float) -> list[Shape]:
    """Return the selection of the positions that a last block computes, with keys and values."""
    box = Box(-22.0, fork + 9, 44.0, _ONE_LINE, _title(row), "head")
    arrow = _rise(0.0, y, box.bottom)

    attention = box.top + 7 + 18
    points = ((0.0, fork), (36.0, fork), (36.0, attention))
    bypass = Line(points)
    text = Text(40.0, box.y, ("keys,", "values"), "start")

    side = -_FRAME_WIDTH / 2 - 14
    return [box, arrow, bypass, text, *_side_input(row, box, side)]


def _side_input(row: Row, box: Box, start: float) -> list[Shape]:
    """Return the further input of a box, at its left."""
    extra = [source for source, _ in sources(row) if source in _INPUTS]
    if not extra:
        return []
    lines = _INPUTS[extra[0]]
    text = Text(start - 2, box.y, lines, "end")
    arrow = Line(((start, box.y), (box.left, box.y)))
    return [text, arrow]


class _Head:
    """The layers after the last block, as one or two columns of boxes with outputs on top."""

    def __init__(self, layers: Sequence[Row], last: str, outputs: Sequence[str]):
        self.layers = {row.layer: row for row in layers}
        self.last = last
        self.outputs = outputs
        self.readers: dict[str, list[str]] = {}
        for row in layers:
            if row.type != "InputLayer":
                source = self._find_source(row)
                self.readers.setdefault(source, []).append(row.layer)

    def _find_source(self, row: Row) -> str:
        """Return the first layer of the head that a row reads; else the last block."""
        for source, _ in sources(row):
            if source in self.layers and self.layers[source].type != "InputLayer":
                return source
        return self.last

    def draw(self, x: float, y: float) -> list[Shape]:
        """Return the shapes above a point; the outputs' texts stand at one height."""
        shapes, ends = self._draw_readers(self.last, x, y)
        top = max(end for _, _, end in ends) + _GAP
        text_y = top + 2 + LINE_HEIGHT / 2
        for name, column, end in ends:
            lines = _OUTPUTS.get(name, (name,))
            if name == self.last:
                lines = _HIDDEN_STATES
            shapes.append(_rise(column, end, top))
            shapes.append(Text(column, text_y, lines))
        return shapes

    def _draw_readers(self, name: str, x: float, y: float):
        """Return the shapes above a layer, and the outputs with their columns and heights."""
        readers: list[str | None] = list(self.readers.get(name, ()))
        if name in self.outputs:
            readers.insert(0, None)
        if readers == [None]:
            return [], [(name, x, y)]

        shapes: list[Shape] = []
        ends: list[tuple[str, float, float]] = []
        fork = y + 9
        for number, reader in enumerate(readers):
            column = x + _APART * (2 * number - len(readers) + 1)  # one alone stands at x
            if column == x:
                bottom = y + _GAP
                way = _rise(x, y, bottom)
            else:
                bottom = fork + 12
                points = (
                    (x, y),
                    (x, fork),
                    (column, fork),
                    (column, bottom),
                )
                way = Line(points)
            if reader is None:
                shapes.append(replace(way, arrow=False))
                ends.append((name, column, bottom))
                continue

            box = self._box(reader, column, bottom)
            side = column - _HEAD_WIDTH / 2 - 12
            shapes += [way, box]
            shapes += _side_input(self.layers[reader], box, side)
            above, outputs = self._draw_readers(reader, column, box.top)
            shapes += above
            ends += outputs
        return shapes, ends

    def _box(self, name: str, x: float, bottom: float) -> Box:
        row = self.layers[name]
        kind = _KINDS.get(row.type, "head")
        left = x - _HEAD_WIDTH / 2
        return Box(left, bottom, _HEAD_WIDTH, _ONE_LINE, _title(row), kind)


def _title(row: Row) -> tuple[str, ...]:
    """Return a layer's name without its prefix, as lines."""
    part = row.layer
    block = names.block_of(row.layer)
    if block:
        part = row.layer.removeprefix(names.encoder(block, ""))
    if part in _TITLES:
        return _TITLES[part]
    return _TITLES_OF_TYPES.get(row.type, (row.type,))


def _rise(x: float, bottom: float, top: float) -> Line:
    return Line(((x, bottom), (x, top)))
