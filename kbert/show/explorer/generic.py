"""A functional model that kbert did not build: its layers as they are, with no closed forms."""

from collections.abc import Sequence

from kbert.graph.summary_rows import Row, sources
from kbert.show.diagrams import kind_of
from kbert.show.explorer.drawing import Drawing, geometries

MOST_LAYERS = 2000  # what Graphviz lays out within seconds, and a browser scrolls through
_LETTER, _PADDING, _HEIGHT = 6.8, 36, 46  # points: a letter's width, of a box beside its name
_WIDEST = 420


def generic_data(rows: Sequence[Row]) -> dict:
    """Return the rows and one figure of them.

    Raises:
        ValueError: more than `MOST_LAYERS` layers.
    """
    if len(rows) > MOST_LAYERS:
        raise ValueError(
            f"explore draws models of at most {MOST_LAYERS:,} layers, got {len(rows):,}"
        )
    edges = [(source, row.layer, tensor) for row in rows for source, tensor in sources(row)]
    nodes = {row.layer: (_width(row), _HEIGHT) for row in rows}
    drawing = Drawing(nodes, edges, {}, curved=True)
    return {
        "rows": [
            {
                "name": row.layer,
                "type": row.type,
                "shape": row.output_shape,
                "params": row.params,
                "connected_to": row.connected_to,
                "kind": kind_of(row.layer, row.type),
            }
            for row in rows
        ],
        "figure": geometries({"model": drawing}),
    }


def _width(row: Row) -> float:
    facts = len(f"{row.type} {row.output_shape}")
    name = len(row.layer) + len(f"{row.params:,}") + 2
    return min(_WIDEST, max(name * _LETTER, facts * 6) + _PADDING)
