"""The figure's geometry in every state of the encoder, laid out by Graphviz when a page is written.

The encoder is drawn closed, as one box for all blocks, or with one block open between those before
and after it; its attention closed, as one box, or open. Boxes have fixed sizes, so that neither
fonts nor numbers move them, and block {n} stands for any.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kbert.graph import names
from kbert.graph.closed_form import sources
from kbert.show.explorer.counting import AFTER, ATTENTION_PARTS, BEFORE, BLOCK
from kbert.show.explorer.drawing import Drawing, geometries

ENCODER, BLOCKS_BEFORE, BLOCKS_AFTER = "encoder", "blocks-before", "blocks-after"
ATTENTION = names.encoder("{n}", names.ATTENTION)
OUTPUT = names.encoder("{n}", names.FEED_FORWARD, "Norm")

# Of a box, in points: those of a block share one width, so that their edges run straight.
_PLAIN = ("InputLayer", "Dropout", "Add", "LayerNormalization", "Extract", "Gather", "Masked")
_HIGH, _LOW = 46, 28
_BLOCK_WIDTH, _EMBEDDING_WIDTH, _OTHER_WIDTH = 258, 238, 196
_PILL = (_BLOCK_WIDTH, 54)
_CLOSED = (_BLOCK_WIDTH + 28, 92)
_PART, _HEADS, _PROJECTION = (96, 46), (320, 66), (_BLOCK_WIDTH, 46)
_PART_SIZES = {"heads": _HEADS, "attention_output": _PROJECTION}


@dataclass(frozen=True)
class State:
    """Open parts of the figure; `blocks` says whether blocks precede and follow the open one."""

    blocks: tuple[bool, bool] | None = None
    attention: bool = False

    @property
    def key(self) -> str:
        if self.blocks is None:
            return "closed"
        return "".join(str(int(flag)) for flag in (*self.blocks, self.attention))


STATES = (
    State(),
    *(
        State((before, after), attention)
        for before, after, attention in itertools.product((False, True), repeat=3)
    ),
)


def figure_data(graphs: Mapping[str, Mapping[str, Sequence]]) -> dict[str, dict]:
    """Return the geometry of each graph in each state, by "graph/state".

    Raises:
        ImportError, RuntimeError: as `kbert.show.graphviz.layouts`.
    """
    drawings = {
        f"{kind}/{state.key}": _Figure(layers, state).drawing()
        for kind, layers in graphs.items()
        for state in STATES
    }
    return geometries(drawings)


@dataclass
class _Figure:
    """One graph in one state, on the way to its drawing."""

    layers: Mapping[str, Sequence]
    state: State
    edges: list[tuple[str, str, int]] = field(default_factory=list)

    def drawing(self) -> Drawing:
        nodes = {row.name: _size(row, BEFORE) for row in self.layers[BEFORE]}
        frames: dict[str, list[str]] = {}
        if self.state.blocks is None:
            nodes[ENCODER] = _CLOSED
            self.edges.append((names.EMBEDDING_NORM, ENCODER, 0))
        else:
            nodes |= self._open_block(frames)
        nodes |= {row.name: _size(row, AFTER) for row in self.layers[AFTER]}
        for section in (BEFORE, AFTER):
            self._connect(self.layers[section])
        return Drawing(nodes, self.edges, frames)

    def _open_block(self, frames: dict[str, list[str]]) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the boxes of a block and of those before and after it.

        Frames and edges are filled.
        """
        before, after = self.state.blocks or (False, False)
        if before:
            yield BLOCKS_BEFORE, _PILL
            self.edges.append((names.EMBEDDING_NORM, BLOCKS_BEFORE, 0))
        inside = dict(self._block())
        frames["block"] = list(inside)
        if self.state.attention:
            frames["attention"] = [name for name in inside if name.startswith(f"{ATTENTION}/")]
        yield from inside.items()
        self._connect(self.layers[BLOCK])
        if after:
            yield BLOCKS_AFTER, _PILL
            self.edges.append((OUTPUT, BLOCKS_AFTER, 0))

    def _block(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for row in self.layers[BLOCK]:
            if row.name == ATTENTION and self.state.attention:
                for part in ATTENTION_PARTS:
                    yield f"{ATTENTION}/{part.name}", _PART_SIZES.get(part.name, _PART)
            else:
                yield row.name, _size(row, BLOCK)

    def _connect(self, layers: Sequence) -> None:
        for row in layers:
            for source, tensor in sources(row):
                self.edges += self._into(self._visible_box(source), row.name, tensor)

    def _into(self, source: str, target: str, tensor: int) -> list[tuple[str, str, int]]:
        """Return the edge to a layer, or through the parts of the attention that is open."""
        if not (target == ATTENTION and self.state.attention):
            return [(source, target, tensor)]
        first = [f"{target}/{name}" for name in ("query", "key", "value")]
        heads, output = f"{target}/heads", f"{target}/attention_output"
        into = [(source, part, tensor) for part in first]
        return [*into, *((part, heads, 0) for part in first), (heads, output, 0)]

    def _visible_box(self, source: str) -> str:
        """Return the box that a row's input comes from."""
        before, after = self.state.blocks or (False, False)
        if source == "{hidden}":
            return BLOCKS_BEFORE if before else names.EMBEDDING_NORM
        if source == "{last}":
            if self.state.blocks is None:
                return ENCODER
            return BLOCKS_AFTER if after else OUTPUT
        if source == ATTENTION and self.state.attention:
            return f"{ATTENTION}/attention_output"
        return source


def _size(row, section: str) -> tuple[int, int]:
    widths = {BEFORE: _EMBEDDING_WIDTH, BLOCK: _BLOCK_WIDTH, AFTER: _OTHER_WIDTH}
    width = _OTHER_WIDTH if row.type == "InputLayer" else widths[section]
    return width, _LOW if row.type in _PLAIN else _HIGH
