"""The rows of the graph in closed form."""

from dataclasses import dataclass, fields

from kbert.graph.config import BertConfig
from kbert.graph.formulas import compute, put_in_numbers
from kbert.graph.layer_table import layers
from kbert.graph.spec import GraphSpec

GROUPS = ("embeddings", "encoder", "pooler", "MLM", "NSP", "classifier", "tokens", "qa")


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


def rows(spec: GraphSpec) -> tuple[Row, ...]:
    """Return the closed form of a built model's summary: one row per layer, in its order."""
    letters = config_letters(spec.config)
    sizes = letters | {"N": None, "S": spec.seq_len, "M": spec.max_predictions, "R": spec.selected}
    return tuple(
        Row(
            layer.name,
            layer.type,
            put_in_numbers(layer.output_shape, sizes),
            compute(layer.params, letters),
            layer.connected_to,
        )
        for layer in layers(spec)
    )


def config_letters(config: BertConfig) -> dict[str, int]:
    """Return the document's letters for a configuration."""
    return {
        "T": config.vocab_size,
        "H": config.hidden_size,
        "A": config.num_attention_heads,
        "L": config.num_hidden_layers,
        "P": config.max_position_embeddings,
        "FFD": config.intermediate_size,
    }


def sources(row) -> list[tuple[str, int]]:
    """Return the inputs of a row as (layer name, tensor index) pairs."""
    pairs = []
    for connection in row.connected_to.split(", ") if row.connected_to else []:
        name, _, tensor = connection.rstrip("]").split("[")
        pairs.append((name, int(tensor)))
    return pairs
