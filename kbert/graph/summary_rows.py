"""One row of a model's summary, and the tab-separated form of a table of them."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields


@dataclass(frozen=True)
class Row:
    """A row of keras_bert's summary: one layer. Every value except `params` is text.

    Attributes:
        layer: the layer's name.
        type: the name of its class.
        output_shape: `(None, 512, 768)`, or `[(…), (…)]` for several outputs.
        params: number of parameters.
        connected_to: `name[node][tensor]` of each input, joined by ", "; "" for an input layer.
    """

    layer: str
    type: str
    output_shape: str
    params: int
    connected_to: str


COLUMNS = tuple(field.name for field in fields(Row))


def to_tsv(rows: Iterable[Row]) -> str:
    """Return a header line, then one line a row, tab-separated."""
    lines = ["\t".join(COLUMNS)]
    lines += ["\t".join(str(value) for value in astuple(row)) for row in rows]
    return "\n".join(lines) + "\n"


def from_tsv(text: str) -> tuple[Row, ...]:
    """Read what `to_tsv` writes; a ValueError for another header."""
    header, *lines = text.splitlines()
    if header != "\t".join(COLUMNS):
        raise ValueError(f"expected the columns {', '.join(COLUMNS)}, got {header!r}")
    return tuple(
        Row(layer, type_, shape, int(params), connected)
        for layer, type_, shape, params, connected in (line.split("\t") for line in lines)
    )


def sources(row: Row) -> list[tuple[str, int]]:
    """Return the inputs of a row as (layer name, tensor index) pairs."""
    pairs = []
    for connection in row.connected_to.split(", ") if row.connected_to else []:
        name, _, tensor = connection.rstrip("]").split("[")
        pairs.append((name, int(tensor)))
    return pairs
