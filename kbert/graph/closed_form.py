"""The rows of the graph in closed form."""

from kbert.graph.config import BertConfig
from kbert.graph.formulas import compute, put_in_numbers
from kbert.graph.layer_table import layers
from kbert.graph.spec import GraphSpec
from kbert.graph.summary_rows import Row

GROUPS = ("embeddings", "encoder", "pooler", "MLM", "NSP", "classifier", "tokens", "qa")


def rows(spec: GraphSpec) -> tuple[Row, ...]:
    """Return the closed form of a built model's summary: a `Row` a layer, in its order."""
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
